#include "embedding/stored_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "embedding/row_copies.h"
#include "hugectr_lite/core/exec_memory.h"
#include "hugectr_lite/core/float_loops.h"

namespace hlite::embedding {
namespace {

// Calls body(piece) for pieces of a list of rows, which are copied to the host.
template <typename Body>
void for_pieces(std::span<const uint32_t> rows, Body&& body) {
  constexpr size_t kPiece = 1 << 16;
  for (size_t first = 0; first < rows.size(); first += kPiece)
    body(rows.subspan(first, std::min(kPiece, rows.size() - first)));
}

std::vector<uint32_t> all_rows(int64_t count) {
  std::vector<uint32_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

}  // namespace

void StoredRows::declare(plan::Buffers& buffers, const TablesSpec& spec, const Counts& counts) {
  buffers_ = &buffers;
  counts_ = counts;
  const auto add = [&](const std::string& name, plan::BufferKind kind, int64_t width,
                       FloatType type = FloatType::kFloat) {
    const int64_t row_bytes = width * float_type_bytes(type);
    Part part{.own = buffers.add(spec.name + name, kind, counts.held * row_bytes),
              .replicated = plan::kNoBuffer,
              .width = width,
              .type = type,
              .index = parts_.size()};
    if (counts.replicated)
      part.replicated =
          buffers.add(spec.name + name + ".copied", kind, *counts.replicated * row_bytes);
    parts_.push_back(part);
  };
  add(".tables", plan::BufferKind::kTable, spec.layout.width, spec.table_type);
  for (int i = 0; i < optimizer::state_count(spec.rule.type); ++i)
    add(std::string(".") + optimizer::state_name(spec.rule.type, i), plan::BufferKind::kState,
        optimizer::state_width(spec.rule.type, i, spec.layout.width));
  if (spec.hash_capacity == 0 || !spec.vocabulary.keeps_uses()) return;
  constexpr int64_t kWords = sizeof(RowUse) / sizeof(float);
  uses_ = Part{.own = buffers.add(spec.name + ".uses", plan::BufferKind::kState,
                                  counts.own * static_cast<int64_t>(sizeof(RowUse))),
               .replicated = plan::kNoBuffer,
               .width = kWords,
               .type = FloatType::kFloat};
}

std::vector<plan::BufferId> StoredRows::buffers(plan::BufferId Part::*which) const {
  std::vector<plan::BufferId> list;
  for (const Part& part : parts_) list.push_back(part.*which);
  if (uses_ && which == &Part::own) list.push_back(uses_->own);
  return list;
}

WeightRows StoredRows::array(const Part& part, plan::BufferId Part::*which) const {
  const plan::BufferId id = part.*which;
  const int64_t own = is_uses(part) ? counts_.own : counts_.held;
  return {id == plan::kNoBuffer ? nullptr : buffers_->data<std::byte>(id),
          which == &Part::own ? own : counts_.replicated.value_or(0), part.width, part.type};
}

UpdatedRows StoredRows::arrays(plan::BufferId Part::*which) const {
  const auto state = [&](size_t i) {
    return i < parts_.size() ? array(parts_[i], which).as<float>() : Matrix<float>();
  };
  return {.w = array(parts_[0], which), .state0 = state(1), .state1 = state(2)};
}

// ---- Rows by their numbers ----

void StoredRows::with_own(const Part& part, std::span<const uint32_t> rows, bool write,
                          const Use& use) const {
  if (is_uses(part) || in_buffers())
    return with_rows(array(part, &Part::own), exec_.on_gpu(), rows, write, use);
  const int64_t n = std::ssize(rows);
  std::vector<std::byte> records(static_cast<size_t>(n * part.width * float_type_bytes(part.type)));
  tier_->read(part.index, rows, records.data());
  with_rows({records.data(), n, part.width, part.type}, false, all_rows(n), write, use);
  if (write) tier_->write(part.index, rows, records.data());
}

void StoredRows::with_rows(const WeightRows& table, bool on_gpu, std::span<const uint32_t> rows,
                           bool write, const Use& use) const {
  if (on_gpu) return with_device_rows(table, rows, write, use);
  with_float_type(table.type(), [&]<typename W>() {
    const Matrix<W> stored = table.as<W>();
    if constexpr (std::is_same_v<W, float>) {
      use([&](size_t i) { return stored.row(rows[i]); });
    } else {
      const int64_t width = table.dim(1);
      std::vector<float> values(rows.size() * static_cast<size_t>(width));
      const auto row = [&](size_t i) { return values.data() + static_cast<int64_t>(i) * width; };
      for (size_t i = 0; i < rows.size(); ++i) widen(stored.row(rows[i]), width, row(i));
      use(row);
      for (size_t i = 0; write && i < rows.size(); ++i) narrow(row(i), width, stored.row(rows[i]));
    }
  });
}

void StoredRows::with_device_rows(const WeightRows& table, std::span<const uint32_t> rows,
                                  bool write, const Use& use) const {
  const int64_t n = std::ssize(rows);
  std::vector<std::byte> values(static_cast<size_t>(n * table.row_bytes()));
  const WeightRows on_host(values.data(), n, table.dim(1), table.type());
  if (n == 0) return use([](size_t) -> float* { return nullptr; });
  const ExecMemory list(exec_, rows.size_bytes(), "rows"), copy(exec_, values.size(), "rows");
  const Vector<const uint32_t> on_device(reinterpret_cast<const uint32_t*>(list.data()), n);
  const WeightRows staged(copy.data(), n, table.dim(1), table.type());
  put_bytes(exec_, list.data(), rows.data(), rows.size_bytes());
  kernels::gather_rows(exec_, table, on_device, staged);
  get_bytes(exec_, values.data(), copy.data(), values.size());
  with_rows(on_host, false, all_rows(n), write, use);
  if (!write) return;
  put_bytes(exec_, copy.data(), values.data(), values.size());
  kernels::scatter_rows(exec_, staged, on_device, table);
  exec_.cuda->stream_synchronize(exec_.stream);
}

// ---- Eviction ----

std::vector<RowUse> StoredRows::uses_of(int64_t count) const {
  if (exec_.on_gpu()) exec_.cuda->device_synchronize();  // runs are on other streams
  std::vector<RowUse> uses(static_cast<size_t>(count));
  if (uses_) get_bytes(exec_, uses.data(), this->uses(), uses.size() * sizeof(RowUse));
  return uses;
}

void StoredRows::set_uses(const std::vector<RowUse>& uses) const {
  if (!uses.empty()) put_bytes(exec_, this->uses(), uses.data(), uses.size() * sizeof(RowUse));
}

std::vector<float> StoredRows::norms(int64_t count) const {
  std::vector<float> norms;
  norms.reserve(static_cast<size_t>(count));
  for_pieces(all_rows(count), [&](std::span<const uint32_t> rows) {
    with_own(parts_[0], rows, false, [&](const Values& row) {
      for (size_t i = 0; i < rows.size(); ++i) {
        double squares = 0;
        for (int64_t j = 0; j < parts_[0].width; ++j)
          squares += static_cast<double>(row(i)[j]) * static_cast<double>(row(i)[j]);
        norms.push_back(static_cast<float>(std::sqrt(squares)));
      }
    });
  });
  return norms;
}

// A row goes to a place before it, so no row is overwritten before it has moved.
void StoredRows::move(const Part& part, const RowMoves& moves) const {
  std::vector<float> values;
  size_t done = 0;
  for_pieces(moves.from, [&](std::span<const uint32_t> from) {
    const auto width = static_cast<size_t>(part.width);
    values.resize(from.size() * width);
    with_own(part, from, false, [&](const Values& row) {
      for (size_t i = 0; i < from.size(); ++i)
        std::copy_n(row(i), width, values.data() + i * width);
    });
    with_own(part, std::span(moves.to).subspan(done, from.size()), true, [&](const Values& row) {
      for (size_t i = 0; i < from.size(); ++i)
        std::copy_n(values.data() + i * width, width, row(i));
    });
    done += from.size();
  });
}

void StoredRows::close_up(const RowMoves& moves, const std::vector<uint32_t>& evicted) const {
  if (exec_.on_gpu()) exec_.cuda->device_synchronize();
  if (!tier_ || !tier_->close_up(moves.from, moves.to, evicted))
    for (const Part& part : parts_) move(part, moves);
  move(*uses_, moves);
}

}  // namespace hlite::embedding
