#include "embedding/gpu_sparse_update.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"

namespace hlite::embedding {

using optimizer::OptimizerType;
using optimizer::UpdateType;

// The larger arrays of sparse_update.cu.
static int64_t estimated_workspace(const SparseUpdateShape& shape) {
  const int64_t lookups = shape.max_batch * shape.lookups;
  int64_t bytes = shape.scales ? 4 * shape.max_batch * shape.slots : 0;
  if (shape.atomic) return bytes;
  bytes += 16 * lookups;                                   // row and output row, sorted to and fro
  bytes += lookups / 32 * (8 + 4 * int64_t{shape.width});  // what crosses tiles: 2 of 64 pairs
  return bytes + (shape.sweeps ? shape.total_rows / 8 : 0);
}

SparseUpdateShape GpuSparseUpdate::shape(const SlotsRef& slots, const optimizer::UpdateRule& rule,
                                         UpdateType update_type, SparseUpdateMethod method,
                                         int64_t max_batch) {
  HLITE_CHECK(update_type != UpdateType::kLazyGlobal, "sparse update: LazyGlobal");
  HLITE_CHECK(method == SparseUpdateMethod::kSorted || rule.type == OptimizerType::kSgd,
              "sparse update: atomic_update with another optimizer than SGD");
  return {
      .max_batch = max_batch,
      .slots = slots.count,
      .lookups = slots.lookups,
      .width = slots.width,
      .total_rows = slots.total_rows,
      .scales = slots.scales(),
      .sweeps = update_type == UpdateType::kGlobal && optimizer::moves_without_gradient(rule.type),
      .atomic = method == SparseUpdateMethod::kAtomic};
}

int64_t GpuSparseUpdate::workspace_bytes(const cuda::Backend& gpu, const SparseUpdateShape& shape) {
  if (!kernels::sparse_update_workspace.is_in(gpu)) return estimated_workspace(shape);
  const Exec exec{.device = Device::kCuda, .cuda = &gpu};
  return static_cast<int64_t>(kernels::sparse_update_workspace(exec, shape));
}

GpuSparseUpdate::GpuSparseUpdate(const Exec& exec, const DeviceSlots& slots,
                                 const optimizer::UpdateRule& rule, UpdateType update_type,
                                 SparseUpdateMethod method, int64_t max_batch)
    : slots_(slots.ref()),
      rule_(rule),
      shape_(shape(slots_, rule, update_type, method, max_batch)),
      workspace_(*exec.cuda, static_cast<size_t>(workspace_bytes(*exec.cuda, shape_))) {}

void GpuSparseUpdate::sort(const Exec& exec, const float* lr, const int64_t* step,
                           Matrix<const uint32_t> keys, optimizer::StepScalars* scalars) {
  HLITE_CHECK(exec.on_gpu() && lr && step && (scalars || shape_.atomic),
              "sparse update on a GPU: no GPU, rate, step or scalars");
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
             .workspace = workspace_.data(),
             .workspace_bytes = workspace_.size()};
  buffer_ = kernels::sparse_sort(exec, sorted_);
}

template <typename T>
void GpuSparseUpdate::update(const Exec& exec, View<const T, 3> dout, Matrix<float> table,
                             Matrix<float> state0, Matrix<float> state1,
                             const optimizer::GradientScale& gradient_scale) {
  const int states = optimizer::state_count(rule_.type);
  const auto fits = [&](Matrix<float> m) {
    return m.dim(0) == int64_t{slots_.total_rows} && m.dim(1) == slots_.width;
  };
  HLITE_CHECK(exec.on_gpu() && sorted_.lr, "sparse update on a GPU: no GPU, or no sort before");
  HLITE_CHECK(dout.dim(0) == sorted_.keys.dim(0) && dout.dim(1) == slots_.count &&
                  dout.dim(2) == slots_.width,
              "sparse update: keys {}, dout {}, width {}", sorted_.keys.shape(), dout.shape(),
              slots_.width);
  HLITE_CHECK(fits(table) && (states < 1 || fits(state0)) && (states < 2 || fits(state1)),
              "sparse update: table {}, states {} and {}, expected [{},{}]", table.shape(),
              state0.shape(), state1.shape(), slots_.total_rows, slots_.width);
  kernels::sparse_update<T>(exec, {.sorted = sorted_,
                                   .buffer = buffer_,
                                   .gradient_scale = gradient_scale,
                                   .dout = dout,
                                   .table = table,
                                   .state0 = state0,
                                   .state1 = state1});
}

#define HLITE_INSTANTIATE(T)                                                             \
  template void GpuSparseUpdate::update<T>(const Exec&, View<const T, 3>, Matrix<float>, \
                                           Matrix<float>, Matrix<float>,                 \
                                           const optimizer::GradientScale&);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::embedding
