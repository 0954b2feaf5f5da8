// A fully connected layer with one output: its products are no work for tensor cores, but one pass
// each over the large matrix, at the speed of memory. Shapes are those of fully_connected.h.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/activation.h"
#include "hugectr_lite/ops/column_sums.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace one_output {

// y [B,1]: a warp for each sample; W weights a thread at a time.
template <int W, typename T, typename Y>
__global__ void __launch_bounds__(kWarp* kWarpsOfBlock)
    forward_kernel(Matrix<const T> x, const T* w, const Y* bias, bool relu, Y* y,
                   Matrix<uint8_t> mask) {
  const int64_t columns = x.dim(1);
  for_each_warp_row(x.dim(0), [&](int64_t row) {
    float sum = 0;
    for (int64_t column = threadIdx.x * W; column < columns; column += kWarp * W) {
      const Pack<T, W> a = load_pack<W>(x.row(row) + column), b = load_pack<W>(w + column);
      for (int i = 0; i < W; ++i) sum += to_float(a.value[i]) * to_float(b.value[i]);
    }
    sum = warp_sum(sum);
    if (threadIdx.x != 0) return;
    if (bias) sum += to_float(*bias);
    if (relu) sum = ops::relu(sum);
    y[row] = from_float<Y>(sum);
    if (mask.data()) *mask.row(row) = sum > 0 ? 1 : 0;
  });
}

// dx = dz w^T, masked; or added to what dx holds.
template <typename T, bool kAdd = false>
struct Gradient {
  const T* dz;  // [rows]
  const T* w;   // [gate.columns]
  T* dx;        // [rows, gate.columns]
  ReluGate<T> gate;

  template <int W>
  struct Item {
    Pack<T, W> w;
    float dz;
    unsigned passes;
  };
  template <int W>
  HLITE_HD Item<W> load(int64_t row, int64_t column) const {
    return {load_pack<W>(w + column), to_float(dz[row]), gate.template passes<W>(row, column)};
  }
  template <int W>
  HLITE_HD void finish(const Item<W>& item, int64_t row, int64_t column, float* sums) const {
    T* const at = dx + row * gate.columns + column;
    Pack<T, W> out;
    if constexpr (kAdd) out = load_pack<W>(at);
    for (int i = 0; i < W; ++i) {
      const bool passes = (item.passes >> i & 1u) != 0;
      float value = passes ? item.dz * to_float(item.w.value[i]) : 0.0f;
      if constexpr (kAdd) value += to_float(out.value[i]);
      sums[i] += value;
      out.value[i] = from_float<T>(value);
    }
    store_pack(at, out);
  }
};

// x^T dz: only summed.
template <typename T>
struct Weights {
  Matrix<const T> x;  // [rows, columns]
  const T* dz;        // [rows]

  template <int W>
  struct Item {
    Pack<T, W> x;
    float dz;
  };
  template <int W>
  HLITE_HD Item<W> load(int64_t row, int64_t column) const {
    return {load_pack<W>(x.row(row) + column), to_float(dz[row])};
  }
  template <int W>
  HLITE_HD void finish(const Item<W>& item, int64_t, int64_t, float* sums) const {
    for (int i = 0; i < W; ++i) sums[i] += to_float(item.x.value[i]) * item.dz;
  }
};

}  // namespace one_output

// y [B,1] = act(x w + bias); bias and mask may be null.
template <typename T, typename Y>
void one_output_forward(cudaStream_t stream, Matrix<const T> x, const T* w, const Y* bias,
                        bool relu, Y* y, Matrix<uint8_t> mask) {
  const LaunchShape shape = warp_rows("fully_connected_forward", x.dim(0), stream);
  if (is_packable<T>(x.dim(1), x.data(), w))
    launch(shape, one_output::forward_kernel<kPackCount<T>, T, Y>, x, w, bias, relu, y, mask);
  else
    launch(shape, one_output::forward_kernel<1, T, Y>, x, w, bias, relu, y, mask);
}

// dx [B,in] = dz [B] w^T [in], masked by the gate; sums [in], or null, = its column sums.
template <typename T>
void one_output_backward_data(cudaStream_t stream, const T* dz, const T* w, Matrix<T> dx,
                              const ReluGate<T>& gate, float* sums, const SumScratch& scratch) {
  sum_columns<T>("fully_connected_backward_data", stream,
                 one_output::Gradient<T>{dz, w, dx.data(), gate}, dx.dim(0), dx.dim(1),
                 is_packable<T>(dx.dim(1), w, dx.data(), gate.y), sums, scratch);
}

// dx [B,in] += dz [B] w^T [in].
template <typename T>
void one_output_add_backward_data(cudaStream_t stream, const T* dz, const T* w, Matrix<T> dx) {
  const ReluGate<T> open = {.columns = dx.dim(1)};
  sum_columns<T>("fully_connected_add_backward_data", stream,
                 one_output::Gradient<T, true>{dz, w, dx.data(), open}, dx.dim(0), dx.dim(1),
                 is_packable<T>(dx.dim(1), w, dx.data()), nullptr, {});
}

// dw [in] = x^T dz [B].
template <typename T>
void one_output_backward_weights(cudaStream_t stream, Matrix<const T> x, const T* dz, float* dw,
                                 const SumScratch& scratch) {
  sum_columns<T>("fully_connected_backward_weights", stream, one_output::Weights<T>{x, dz},
                 x.dim(0), x.dim(1), is_packable<T>(x.dim(1), x.data()), dw, scratch);
}

}  // namespace hlite::ops::gpu
