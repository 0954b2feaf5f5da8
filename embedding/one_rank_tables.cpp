#include "embedding/one_rank_tables.h"

#include <algorithm>

#include "embedding/lookup.h"
#include "embedding/table_init.h"

namespace hlite::embedding {

void OneRankTables::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  const int64_t bytes =
      spec_.layout.total_rows * spec_.layout.width * static_cast<int64_t>(sizeof(float));
  table_ = buffers.add(spec_.name + ".tables", plan::BufferKind::kTable, bytes);
  for (int i = 0; i < optimizer::state_count(spec_.rule.type); ++i)
    states_.push_back(buffers.add(spec_.name + "." + optimizer::state_name(spec_.rule.type, i),
                                  plan::BufferKind::kState, bytes));
}

Matrix<float> OneRankTables::all_rows(plan::BufferId id) const {
  return {buffers_->data<float>(id), spec_.layout.total_rows, spec_.layout.width};
}

void OneRankTables::emit_forward(plan::Plan& plan, const TablesIo& io) {
  const double row_bytes = static_cast<double>(spec_.layout.width) * sizeof(float);
  plan.add({.name = spec_.name + ".lookup",
            .lane = plan::Lane::kEmbedding,
            .reads = {io.keys, table_},
            .writes = {io.output},
            .run =
                [this, io](const plan::StepContext& c) {
                  lookup_forward(c.exec, spec_.layout, spec_.pooling, all_rows(table_),
                                 keys_of(io, c.batch),
                                 View<float, 3>(buffers_->data<float>(io.output), c.batch,
                                                spec_.layout.slots(), spec_.layout.width));
                },
            .bytes_per_sample =
                static_cast<double>(spec_.pooling.columns() + spec_.layout.slots()) * row_bytes});
}

void OneRankTables::emit_update(plan::Plan& plan, const TablesIo& io) {
  sparse_update_ =
      std::make_unique<SparseUpdate>(spec_.layout, spec_.pooling, train_batch_, threads_);
  std::vector<plan::BufferId> reads = {io.keys, io.grad, io.rate, io.step, table_},
                              writes = {table_};
  reads.insert(reads.end(), states_.begin(), states_.end());
  writes.insert(writes.end(), states_.begin(), states_.end());
  const double row_bytes = static_cast<double>(spec_.layout.width) * sizeof(float);
  plan.add({.name = spec_.name + ".update",
            .lane = plan::Lane::kEmbedding,
            .reads = reads,
            .writes = writes,
            .run =
                [this, io](const plan::StepContext& c) {
                  const auto state = [&](size_t i) {
                    return i < states_.size() ? all_rows(states_[i]) : Matrix<float>();
                  };
                  sparse_update_->update(
                      c.exec, spec_.rule, spec_.update_type, buffers_->data<float>(io.rate),
                      buffers_->data<int64_t>(io.step), keys_of(io, c.batch),
                      View<const float, 3>(buffers_->data<float>(io.grad), c.batch,
                                           spec_.layout.slots(), spec_.layout.width),
                      all_rows(table_), state(0), state(1));
                },
            // Gradient read, row (and state) read and written.
            .bytes_per_sample = static_cast<double>(spec_.pooling.columns()) * row_bytes *
                                (3.0 + 2.0 * static_cast<double>(states_.size()))});
}

void OneRankTables::initialize(const Exec& exec, uint64_t seed) const {
  init_tables(exec, seed, spec_.name, spec_.layout, all_rows(table_));
  const float initial = optimizer::initial_state(spec_.rule);
  if (initial == 0) return;  // buffers start out zeroed
  for (const plan::BufferId id : states_) {
    const auto rows = all_rows(id);
    exec.threads().parallel_for(rows.size(), 1 << 16, [&](int64_t begin, int64_t end) {
      std::fill(rows.data() + begin, rows.data() + end, initial);
    });
  }
}

std::vector<NamedRows> OneRankTables::tables() const {
  std::vector<NamedRows> list;
  for (int64_t s = 0; s < spec_.layout.slots(); ++s) {
    const auto rows = spec_.layout.table(all_rows(table_), s);
    list.push_back({.name = table_name(spec_.name, s),
                    .rows = rows.dim(0),
                    .width = rows.dim(1),
                    .data = rows.data()});
  }
  return list;
}

std::vector<NamedRows> OneRankTables::states() const {
  std::vector<NamedRows> list;
  for (size_t i = 0; i < states_.size(); ++i)
    for (int64_t s = 0; s < spec_.layout.slots(); ++s) {
      const auto rows = spec_.layout.table(all_rows(states_[i]), s);
      list.push_back({.name = state_name(spec_.name, s, spec_.rule.type, static_cast<int>(i)),
                      .rows = rows.dim(0),
                      .width = rows.dim(1),
                      .data = rows.data()});
    }
  return list;
}

}  // namespace hlite::embedding
