// Kernels of histories: a thread for each element, or pack of elements that move.
#include "hugectr_lite/ops/sequence.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {
namespace {

LaunchShape thread_for_each(const char* name, int64_t n, cudaStream_t stream) {
  return {.name = name, .grid = pack_grid(n, 1), .block = dim3(kPackThreads), .stream = stream};
}

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    mask_kernel(Vector<const float> from, Vector<const float> to, bool causal, View<T, 3> mask) {
  const int64_t rows = mask.dim(1), columns = mask.dim(2);
  for_each_pack<1>(mask.size(), [&]<int>(int64_t at) {
    const int64_t sample = at / (rows * columns), i = at / columns % rows, j = at % columns;
    const bool seen = i < valid_rows(from, sample, rows) && j < valid_rows(to, sample, columns) &&
                      (!causal || j <= i);
    mask.data()[at] = from_float<T>(seen ? 1.0f : 0.0f);
  });
}

__global__ void __launch_bounds__(kPackThreads)
    count_kernel(Vector<const float> before, Vector<const float> lengths, int64_t n,
                 Vector<float> after) {
  for_each_pack<1>(after.size(), [&]<int>(int64_t b) {
    after.data()[b] =
        (before.data() ? before.data()[b] : 0.0f) + static_cast<float>(valid_rows(lengths, b, n));
  });
}

// Rows of `packs` packs.
template <int kCount, typename T>
__global__ void __launch_bounds__(kPackThreads)
    move_kernel(RowMove how, View<const T, 3> from, View<T, 3> to, int64_t packs) {
  const int64_t n = from.dim(1), m = to.dim(1);
  const bool joins = how.kind == RowMove::Kind::kJoin;
  for_each_pack<1>(to.dim(0) * m * packs, [&]<int>(int64_t at) {
    const int64_t sample = at / (m * packs), row = at / packs % m, p = at % packs;
    const sequence::Window w = sequence::window_of(how, sample, n, m);
    Pack<T, kCount> value;
    if (row >= w.first && row < w.last) {
      const int64_t source = (sample * n + w.from + row - w.first) * packs + p;
      value = load_pack<kCount>(from.data() + source * kCount);
    } else {
      if (joins && (row < w.first || !how.is_last)) return;
      for (int i = 0; i < kCount; ++i) value.value[i] = from_float<T>(0);
    }
    store_pack(to.data() + at * kCount, value);
  });
}

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    positions_kernel(View<const T, 3> x, Vector<const float> lengths, bool from_end,
                     Matrix<const T> weight, View<T, 3> y) {
  const int64_t n = x.dim(1), width = x.dim(2);
  for_each_pack<1>(x.size(), [&]<int>(int64_t at) {
    const int64_t i = at / width % n, valid = valid_rows(lengths, at / (n * width), n);
    float value = 0;
    if (i < valid)
      value = to_float(x.data()[at]) +
              to_float(weight.row(sequence::position_of(i, valid, from_end))[at % width]);
    y.data()[at] = from_float<T>(value);
  });
}

// A thread for a weight and a part of the samples.
template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    position_sums_kernel(View<const T, 3> dy, Vector<const float> lengths, bool from_end,
                         float* sums) {
  const int64_t n = dy.dim(1), width = dy.dim(2), weights = n * width;
  const int64_t part = blockIdx.y, parts = gridDim.y;
  const int64_t end = dy.dim(0) * (part + 1) / parts;
  for_each_pack<1>(weights, [&]<int>(int64_t at) {
    const int64_t position = at / width;
    double sum = 0;
    for (int64_t b = dy.dim(0) * part / parts; b < end; ++b) {
      const int64_t valid = valid_rows(lengths, b, n);
      if (position < valid)
        sum += static_cast<double>(to_float(
            dy.row(b)[sequence::position_of(position, valid, from_end) * width + at % width]));
    }
    sums[part * weights + at] = static_cast<float>(sum);
  });
}

__global__ void __launch_bounds__(kPackThreads)
    position_parts_kernel(const float* parts, int64_t count, Vector<float> sums) {
  for_each_pack<1>(sums.size(), [&]<int>(int64_t at) {
    double sum = 0;
    for (int64_t p = 0; p < count; ++p) sum += static_cast<double>(parts[p * sums.size() + at]);
    sums.data()[at] = static_cast<float>(sum);
  });
}

}  // namespace

template <typename T>
void sequence_mask(cudaStream_t stream, Vector<const float> from, Vector<const float> to,
                   bool causal, View<T, 3> mask) {
  launch(thread_for_each("sequence_mask", mask.size(), stream), mask_kernel<T>, from, to, causal,
         mask);
}

void count_rows(cudaStream_t stream, Vector<const float> before, Vector<const float> lengths,
                int64_t n, Vector<float> after) {
  launch(thread_for_each("count_rows", after.size(), stream), count_kernel, before, lengths, n,
         after);
}

template <typename T>
void move_rows(cudaStream_t stream, const RowMove& how, View<const T, 3> from, View<T, 3> to) {
  constexpr int kCount = kPackCount<T>;
  const bool aligned =
      to.dim(2) % kCount == 0 && starts_pack<kCount>(from.data()) && starts_pack<kCount>(to.data());
  with_pack_count<kCount>(aligned, [&](auto count) {
    launch(thread_for_each("move_rows", to.size() / count, stream), move_kernel<count(), T>, how,
           from, to, to.dim(2) / count);
  });
}

template <typename T>
void add_positions(cudaStream_t stream, View<const T, 3> x, Vector<const float> lengths,
                   bool from_end, Matrix<const T> weight, View<T, 3> y, const PackedRows&) {
  launch(thread_for_each("add_positions", x.size(), stream), positions_kernel<T>, x, lengths,
         from_end, weight, y);
}

template <typename T>
void position_gradients(cudaStream_t stream, View<const T, 3> dy, Vector<const float> lengths,
                        bool from_end, Vector<float> workspace, Matrix<float> dweight,
                        const PackedRows&) {
  constexpr const char* kName = "position_gradients";
  const int64_t weights = dweight.size(), parts = position_parts(weights);
  LaunchShape shape = thread_for_each(kName, weights, stream);
  shape.grid.y = static_cast<unsigned>(parts);
  launch(shape, position_sums_kernel<T>, dy, lengths, from_end,
         parts > 1 ? workspace.data() : dweight.data());
  if (parts > 1)
    launch(thread_for_each(kName, weights, stream), position_parts_kernel,
           static_cast<const float*>(workspace.data()), parts,
           Vector<float>(dweight.data(), weights));
}

HLITE_KERNELS(sequence) {
  list.add<count_rows>(kernels::count_rows);
  for_each_float([&]<typename T>() {
    list.add<sequence_mask<T>>(kernels::sequence_mask<T>);
    list.add<move_rows<T>>(kernels::move_rows<T>);
    list.add<add_positions<T>>(kernels::add_positions<T>);
    list.add<position_gradients<T>>(kernels::position_gradients<T>);
  });
}

}  // namespace hlite::ops::gpu
