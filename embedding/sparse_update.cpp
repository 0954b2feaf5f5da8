#include "embedding/sparse_update.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {
namespace {

using optimizer::OptimizerType;
using optimizer::UpdateType;

SparseUpdateShape shape_of(const Exec& exec, const SlotsRef& slots,
                           const SparseUpdateOptions& how) {
  HLITE_CHECK(how.type != UpdateType::kLazyGlobal, "sparse update: LazyGlobal");
  HLITE_CHECK(!how.atomic || how.rule.type == OptimizerType::kSgd,
              "sparse update: atomic_update with another optimizer than SGD");
  return {.max_batch = how.max_batch,
          .slots = slots.count,
          .lookups = slots.lookups,
          .tables = slots.table_count,
          .max_table_lookups = slots.max_table_lookups,
          .parts = slots.parts(),
          .max_part_lookups = slots.max_part_lookups(),
          .width = slots.width,
          .total_rows = slots.total_rows,
          .scales = slots.scales(),
          .sweeps = how.type == UpdateType::kGlobal && optimizer::moves_without_gradient(how.rule),
          .atomic = how.atomic && exec.on_gpu(),
          .threads = how.threads};
}

// The larger arrays of sparse_update.cu.
size_t estimated_workspace(const SparseUpdateShape& shape) {
  const int64_t lookups = shape.max_batch * shape.lookups;
  int64_t bytes = shape.scales ? 4 * shape.max_batch * shape.slots : 0;
  if (!shape.atomic) {
    bytes += 16 * lookups;                                   // row and output row, to and fro
    bytes += lookups / 32 * (8 + 4 * int64_t{shape.width});  // what crosses tiles: 2 of 64 pairs
    bytes += shape.sweeps ? shape.total_rows / 8 : 0;
  }
  return static_cast<size_t>(bytes);
}

size_t bytes_for(const Exec& exec, const SparseUpdateShape& shape) {
  if (!exec.on_gpu()) return cpu::sparse_update_workspace(shape);
  if (!kernels::sparse_update_workspace.is_in(*exec.cuda)) return estimated_workspace(shape);
  return kernels::sparse_update_workspace(exec, shape);
}

}  // namespace

SparseUpdate::SparseUpdate(const Exec& exec, const SlotsRef& slots, const SparseUpdateOptions& how)
    : slots_(slots),
      rule_(how.rule),
      shape_(shape_of(exec, slots, how)),
      workspace_(exec, bytes_for(exec, shape_), "sparse update") {
  if (!exec.on_gpu() || workspace_.size() == 0) return;
  exec.cuda->zero(workspace_.data(), workspace_.size(), exec.stream);
  exec.cuda->stream_synchronize(exec.stream);
}

int64_t SparseUpdate::workspace_bytes(const Exec& exec, const SlotsRef& slots,
                                      const SparseUpdateOptions& how) {
  return static_cast<int64_t>(bytes_for(exec, shape_of(exec, slots, how)));
}

void SparseUpdate::sort(const Exec& exec, Matrix<const uint32_t> keys, const float* lr,
                        const int64_t* step, optimizer::StepScalars* scalars,
                        const LineOfRow& lines) {
  HLITE_CHECK(lr && step && (scalars || shape_.atomic),
              "sparse update: no rate, no step or no scalars");
  HLITE_CHECK(!lines.line_of || !(shape_.atomic || shape_.sweeps), "sparse update: lines");
  HLITE_CHECK(keys.dim(0) <= shape_.max_batch && keys.dim(1) == slots_.columns,
              "sparse update: keys {}, expected at most {} samples of {} columns", keys.shape(),
              shape_.max_batch, slots_.columns);
  sorted_ = {.shape = shape_,
             .slots = slots_,
             .rule = rule_,
             .lr = lr,
             .step = step,
             .keys = keys,
             .scalars = scalars,
             .lines = lines,
             .workspace = workspace_.data(),
             .workspace_bytes = workspace_.size()};
  if (exec.on_gpu())
    buffer_ = kernels::sparse_sort(exec, sorted_);
  else
    cpu::sparse_sort(exec, sorted_);
}

template <typename T>
void SparseUpdate::update(const Exec& exec, View<const T, 3> dout, const UpdatedRows& rows,
                          const optimizer::GradientScale& gradient_scale) {
  const int states = optimizer::state_count(rule_.type);
  const auto state_width = [&](int index) {
    return optimizer::state_width(rule_.type, index, slots_.width);
  };
  const int64_t held = sorted_.lines.line_of ? sorted_.lines.lines : slots_.total_rows;
  const auto fits = [&](const auto& m, int64_t width) {
    return m.dim(0) == held && m.dim(1) == width;
  };
  HLITE_CHECK(sorted_.lr, "sparse update: no sort before");
  HLITE_CHECK(dout.dim(0) == sorted_.keys.dim(0) && dout.dim(1) == slots_.count &&
                  dout.dim(2) == slots_.width,
              "sparse update: keys {}, dout {}, width {}", sorted_.keys.shape(), dout.shape(),
              slots_.width);
  HLITE_CHECK(fits(rows.w, slots_.width) && (states < 1 || fits(rows.state0, state_width(0))) &&
                  (states < 2 || fits(rows.state1, state_width(1))),
              "sparse update: table {}, states {} and {}, expected {} rows of {}, {} and {} floats",
              rows.w.shape(), rows.state0.shape(), rows.state1.shape(), held, slots_.width,
              state_width(0), state_width(1));
  const SparseUpdateArgs<T> args{.sorted = sorted_,
                                 .buffer = buffer_,
                                 .gradient_scale = gradient_scale,
                                 .dout = dout,
                                 .rows = rows};
  if (exec.on_gpu()) return kernels::sparse_update<T>(exec, args);
  if constexpr (kOnCpu<T>)
    cpu::sparse_update(exec, args);
  else
    raise("sparse update: fp16 needs a GPU");
}

#define HLITE_INSTANTIATE(T)                                                               \
  template void SparseUpdate::update<T>(const Exec&, View<const T, 3>, const UpdatedRows&, \
                                        const optimizer::GradientScale&);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::embedding
