#include "embedding/gpu_tables.h"

#include "embedding/lookup.h"
#include "embedding/table_init.h"
#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/fill.h"
#include "hugectr_lite/optimizer/loss_scale.h"

namespace hlite::embedding {

void GpuTables::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  if (method() == SparseUpdateMethod::kSorted)
    sorted_ = buffers.add(spec_.name + ".sorted", plan::BufferKind::kActivation,
                          sizeof(optimizer::StepScalars));
  const int64_t bytes =
      spec_.layout.total_rows * spec_.layout.width * static_cast<int64_t>(sizeof(float));
  table_ = buffers.add(spec_.name + ".tables", plan::BufferKind::kTable, bytes);
  for (int i = 0; i < optimizer::state_count(spec_.rule.type); ++i)
    states_.push_back(buffers.add(spec_.name + "." + optimizer::state_name(spec_.rule.type, i),
                                  plan::BufferKind::kState, bytes));
}

Matrix<float> GpuTables::all_rows(plan::BufferId id) const {
  return {buffers_->data<float>(id), spec_.layout.total_rows, spec_.layout.width};
}
Matrix<const uint32_t> GpuTables::keys_of(const TablesIo& io, int64_t batch) const {
  return {buffers_->data<uint32_t>(io.keys), batch, spec_.pooling.keys.columns};
}

optimizer::GradientScale GpuTables::gradient_scale(const TablesIo& io) const {
  if (io.loss_scale == plan::kNoBuffer) return {};
  return optimizer::gradient_scale(*buffers_->data<optimizer::LossScale>(io.loss_scale));
}

void GpuTables::prepare() {
  slots_ = std::make_unique<DeviceSlots>(exec_, spec_.layout, spec_.pooling);
  for (auto* const errors : {&train_errors_, &eval_errors_})
    *errors = std::make_unique<KeyErrors>(exec_, spec_.pooling.keys.columns);
  if (updates_)
    update_ = std::make_unique<GpuSparseUpdate>(exec_, *slots_, spec_.rule, spec_.update_type,
                                                method(), train_batch_);
}

int64_t GpuTables::workspace_bytes() const {
  return GpuSparseUpdate::workspace_bytes(
      *exec_.cuda, GpuSparseUpdate::shape(DeviceSlots::numbers(spec_.layout, spec_.pooling),
                                          spec_.rule, spec_.update_type, method(), train_batch_));
}

void GpuTables::emit_forward(plan::Plan& plan, const TablesIo& io) {
  const auto width = static_cast<double>(spec_.layout.width);
  const double bytes = width * (static_cast<double>(spec_.pooling.columns()) * sizeof(float) +
                                static_cast<double>(spec_.layout.slots()) *
                                    static_cast<double>(float_type_bytes(type_)));
  with_float_type(type_, [&]<typename T>() {
    plan.add({.name = spec_.name + ".lookup",
              .lane = plan::Lane::kEmbedding,
              .reads = io.training ? std::vector{io.keys, table_, io.step}
                                   : std::vector{io.keys, table_},
              .writes = {io.output},
              .run =
                  [this, io](const plan::StepContext& c) {
                    // Counted behind the lookups: here it is that of the iteration before.
                    const int64_t* step = io.training ? buffers_->data<int64_t>(io.step) : nullptr;
                    const auto& errors = io.training ? train_errors_ : eval_errors_;
                    lookup_forward<T>(c.exec, *slots_, all_rows(table_), keys_of(io, c.batch),
                                      View<T, 3>(buffers_->data<T>(io.output), c.batch,
                                                 spec_.layout.slots(), spec_.layout.width),
                                      errors->check(step));
                  },
              .bytes_per_sample = bytes});
  });
}

void GpuTables::sort(const plan::StepContext& c, const TablesIo& io) {
  auto* const scalars =
      sorted_ == plan::kNoBuffer ? nullptr : buffers_->data<optimizer::StepScalars>(sorted_);
  update_->sort(c.exec, buffers_->data<float>(io.rate), buffers_->data<int64_t>(io.step),
                keys_of(io, c.batch), scalars);
}

// Needs no gradients: it runs beside what makes them.
void GpuTables::emit_backward(plan::Plan& plan, const TablesIo& io) {
  if (method() == SparseUpdateMethod::kAtomic) return;
  // To and fro, four times, with the list's two halves.
  const double bytes = static_cast<double>(spec_.pooling.columns()) * 4 * 16;
  plan.add({.name = spec_.name + ".sort",
            .lane = plan::Lane::kEmbedding,
            .reads = {io.keys, io.rate, io.step},
            .writes = {sorted_},
            .run = [this, io](const plan::StepContext& c) { sort(c, io); },
            .bytes_per_sample = bytes});
}

void GpuTables::emit_update(plan::Plan& plan, const TablesIo& io) {
  updates_ = true;
  std::vector<plan::BufferId> reads = {io.keys, io.grad, io.rate, io.step, table_},
                              writes = {table_};
  if (sorted_ != plan::kNoBuffer) reads.push_back(sorted_);
  reads.insert(reads.end(), states_.begin(), states_.end());
  writes.insert(writes.end(), states_.begin(), states_.end());
  if (io.loss_scale != plan::kNoBuffer) reads.push_back(io.loss_scale);
  const double vector_bytes = static_cast<double>(spec_.layout.width * float_type_bytes(type_)),
               row_bytes = static_cast<double>(spec_.layout.width) * sizeof(float);
  with_float_type(type_, [&]<typename T>() {
    plan.add({.name = spec_.name + ".update",
              .lane = plan::Lane::kEmbedding,
              .reads = reads,
              .writes = writes,
              .run =
                  [this, io](const plan::StepContext& c) {
                    const auto state = [&](size_t i) {
                      return i < states_.size() ? all_rows(states_[i]) : Matrix<float>();
                    };
                    if (method() == SparseUpdateMethod::kAtomic) sort(c, io);
                    update_->update<T>(c.exec,
                                       View<const T, 3>(buffers_->data<T>(io.grad), c.batch,
                                                        spec_.layout.slots(), spec_.layout.width),
                                       all_rows(table_), state(0), state(1), gradient_scale(io));
                  },
              .bytes_per_sample =
                  static_cast<double>(spec_.pooling.columns()) *
                  (vector_bytes + row_bytes * (2.0 + 2.0 * static_cast<double>(states_.size())))});
  });
}

void GpuTables::check_keys(const Exec& exec) {
  for (auto* const errors : {train_errors_.get(), eval_errors_.get()}) {
    if (!errors) continue;
    errors->fetch(exec);
    exec.cuda->stream_synchronize(exec.stream);
    const auto error = errors->found();
    if (!error) continue;
    raise<DeviceError>(
        "{}: a lookup on the GPU met a key beyond its table: {} in column {} of sample {} of the "
        "batch in {}; the reader lets none pass, so the batch changed on its way: a fault of "
        "memory, or of this program",
        spec_.name, error->key, error->column, error->sample,
        errors == train_errors_.get() ? fmt::format("iteration {}", error->step + 1)
                                      : "an evaluation");
  }
}

void GpuTables::initialize(const Exec&, uint64_t seed) const {
  exec_.cuda->device_synchronize();  // runs are on other streams
  init_tables(exec_, seed, spec_.name, spec_.layout, all_rows(table_));
  for (const plan::BufferId id : states_) {
    const auto rows = all_rows(id);
    hlite::kernels::fill(exec_, {rows.data(), rows.size()}, optimizer::initial_state(spec_.rule));
  }
  exec_.cuda->stream_synchronize(exec_.stream);
}

NamedRows GpuTables::named(std::string name, plan::BufferId id, int64_t slot) const {
  return {.name = std::move(name),
          .rows = spec_.layout.rows[static_cast<size_t>(slot)],
          .width = spec_.layout.width,
          .get =
              [=, this](int64_t first, std::span<float> out) {
                read_device(*exec_.cuda, out.data(),
                            spec_.layout.table(all_rows(id), slot).data() + first,
                            out.size_bytes());
              },
          .put =
              [=, this](int64_t first, std::span<const float> in) {
                write_device(*exec_.cuda, spec_.layout.table(all_rows(id), slot).data() + first,
                             in.data(), in.size_bytes());
              }};
}

std::vector<NamedRows> GpuTables::tables() const {
  std::vector<NamedRows> list;
  for (int64_t s = 0; s < spec_.layout.slots(); ++s)
    list.push_back(named(table_name(spec_.name, s), table_, s));
  return list;
}

std::vector<NamedRows> GpuTables::states() const {
  std::vector<NamedRows> list;
  for (size_t i = 0; i < states_.size(); ++i)
    for (int64_t s = 0; s < spec_.layout.slots(); ++s)
      list.push_back(
          named(state_name(spec_.name, s, spec_.rule.type, static_cast<int>(i)), states_[i], s));
  return list;
}

}  // namespace hlite::embedding
