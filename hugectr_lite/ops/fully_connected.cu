// Fully connected layers on a GPU.
//
// cuBLASLt counts columns first. A packed row-major matrix [r,c] is, read that way, the packed
// column-major [c,r]: its transpose. So each product is asked for as its transpose:
//
//   forward            y^T [out,B]  = w^T x^T     a = w   as it lies, b = x   as it lies
//   backward, data     dx^T [in,B]  = w dz^T      a = w   turned,     b = dz  as it lies
//   backward, weights  dw^T [out,in] = dz^T x     a = dz  as it lies, b = x   turned
//
// The rows of d are the layer's outputs (forward) or inputs (backward, data): that is what bias,
// bias gradient and ReLU mask run along in the epilogues of cuBLASLt, and a column is a sample.
//
// Where cuBLASLt's epilogue is not to be had (matmul.cuh), it multiplies plainly and a kernel of
// this file goes over the result once more. A bias of 16 bits is added by the product, so that the
// result is rounded once. A layer with one output is no work for tensor cores:
// its three products are kernels that read or write the large matrix once.
//
// MLPerf's DLRM (batch 65,536; 16-bit T; bottom 13-512-256-128, top 480-1024-1024-512-256-1): what
// must be computed and moved, and the least time of the layers in turn at 790 TFLOP/s and 4.8 TB/s:
//   forward            310 GFLOP   1.05 GB   0.42 ms
//   backward, data     309 GFLOP   0.99 GB   0.40 ms
//   backward, weights  310 GFLOP   1.03 GB   0.42 ms
// Bound by memory: 13-512 (15 us a product), 256-128 (11 us), 256-1 (7 us). Own kernels: the
// products of 256-1, in training all of them as one (loss_head.cu), and forward of 13-512, where it
// is faster than cuBLASLt's (few_inputs_layer.cuh). The interaction masks the gradient of 256-128
// while it makes it.
#include "hugectr_lite/ops/fully_connected.h"

#include <string>

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/activation.h"
#include "hugectr_lite/ops/column_sums.cuh"
#include "hugectr_lite/ops/few_inputs_layer.cuh"
#include "hugectr_lite/ops/matmul.cuh"
#include "hugectr_lite/ops/one_output_layer.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int64_t kMaskByte = 8;

template <typename T>
constexpr cudaDataType_t kDataType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kDataType<bf16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kDataType<fp16> = CUDA_R_16F;

template <typename T>
void zero(Matrix<T> view, cudaStream_t stream) {
  if (view.size() > 0)
    HLITE_CUDA(
        cudaMemsetAsync(view.data(), 0, static_cast<size_t>(view.size()) * sizeof(T), stream));
}

// The product, which cuBLASLt must know, and its epilogue.
void run(Matmul& matmul, const MatmulProblem& problem, const char* op, cudaStream_t stream,
         const EpilogueKernels* kernels = nullptr) {
  if (!matmul.run(problem, stream, kernels))
    throw CudaError(std::string(op) + ": cuBLASLt cannot multiply [" + std::to_string(problem.m) +
                    "," + std::to_string(problem.k) + "] by [" + std::to_string(problem.k) + "," +
                    std::to_string(problem.n) + "]");
}

// ---- Forward ----

// y = act(y + bias) in place, and the mask: a thread for each byte of it, hence for 8 outputs, W at
// a time.
template <int W, typename Y>
__global__ void bias_relu_kernel(Matrix<Y> y, const Y* bias, bool relu, Matrix<uint8_t> mask) {
  const int64_t columns = y.dim(1), bytes = (columns + kMaskByte - 1) / kMaskByte;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < y.dim(0) * bytes;
       i += stride) {
    const int64_t row = i / bytes, byte = i % bytes, begin = byte * kMaskByte;
    unsigned bits = 0;
    for (int64_t column = begin; column < begin + kMaskByte && column < columns; column += W) {
      Y* const at = y.row(row) + column;
      Pack<Y, W> pack = load_pack<W>(at), added{};
      if (bias) added = load_pack<W>(bias + column);
      for (int k = 0; k < W; ++k) {
        float z = to_float(pack.value[k]) + (bias ? to_float(added.value[k]) : 0.0f);
        if (relu) z = ops::relu(z);
        bits |= (z > 0 ? 1u : 0u) << (column - begin + k);
        pack.value[k] = from_float<Y>(z);
      }
      store_pack(at, pack);
    }
    if (mask.data()) mask.row(row)[byte] = static_cast<uint8_t>(bits);
  }
}

// ---- Backward ----

// A gradient, masked in place.
template <typename T>
struct MaskedGradient {
  T* gradient;  // [rows, gate.columns]
  ReluGate<T> gate;

  template <int W>
  struct Item {
    Pack<T, W> gradient;
    unsigned passes;
  };
  template <int W>
  HLITE_HD Item<W> load(int64_t row, int64_t column) const {
    return {load_pack<W>(gradient + row * gate.columns + column),
            gate.template passes<W>(row, column)};
  }
  template <int W>
  HLITE_HD void finish(Item<W>& item, int64_t row, int64_t column, float* sums) const {
    for (int i = 0; i < W; ++i) {
      if ((item.passes >> i & 1u) == 0) item.gradient.value[i] = from_float<T>(0.0f);
      sums[i] += to_float(item.gradient.value[i]);
    }
    if (!gate.is_open()) store_pack(gradient + row * gate.columns + column, item.gradient);
  }
};

// A matrix that is only summed.
template <typename T>
struct Elements {
  const T* data;  // [rows, columns]
  int64_t columns;

  template <int W>
  using Item = Pack<T, W>;
  template <int W>
  HLITE_HD Item<W> load(int64_t row, int64_t column) const {
    return load_pack<W>(data + row * columns + column);
  }
  template <int W>
  HLITE_HD void finish(const Item<W>& item, int64_t, int64_t, float* sums) const {
    for (int i = 0; i < W; ++i) sums[i] += to_float(item.value[i]);
  }
};

template <typename T>
ReluGate<T> gate_of(Matrix<const T> y, Matrix<const uint8_t> mask, int64_t columns) {
  return {mask.data() ? nullptr : y.data(), mask.data(), columns, mask.dim(1)};
}

// d -> masked in place; sums (or null) = its column sums.
template <typename T>
void mask_and_sum(const char* op, Matmul& matmul, cudaStream_t stream, Matrix<T> d,
                  const ReluGate<T>& gate, float* sums) {
  if (gate.is_open() && !sums) return;
  sum_columns<T>(op, stream, MaskedGradient<T>{d.data(), gate}, d.dim(0), d.dim(1),
                 is_packable<T>(d.dim(1), d.data(), gate.y), sums, scratch_of(matmul));
}

}  // namespace

template <typename T, typename Y>
void fully_connected_forward(Matmul& matmul, cudaStream_t stream, Matrix<const T> x,
                             Matrix<const T> w, Vector<const Y> bias, bool relu, Matrix<Y> y,
                             Matrix<uint8_t> mask) {
  constexpr const char* kName = "fully_connected_forward";
  constexpr int64_t kThreads = 256;
  const int64_t batch = x.dim(0), in = x.dim(1), out = w.dim(1);
  if (batch == 0 || out == 0) return;
  if (!relu) mask = {};
  if (out == 1) return one_output_forward(stream, x, w.data(), bias.data(), relu, y.data(), mask);

  const auto finish = [&](const Y* its_bias) {
    if (!relu && !its_bias) return;
    const LaunchShape shape = {
        .name = kName,
        .grid = grid_for(batch * ((out + kMaskByte - 1) / kMaskByte), kThreads),
        .block = dim3(kThreads),
        .stream = stream};
    if (is_packable<Y>(out, y.data(), its_bias))
      launch(shape, bias_relu_kernel<kPackCount<Y>, Y>, y, its_bias, relu, mask);
    else
      launch(shape, bias_relu_kernel<1, Y>, y, its_bias, relu, mask);
  };
  if (in == 0) {
    zero(y, stream);
    return finish(bias.data());
  }
  const int parts = (relu ? CUBLASLT_EPILOGUE_RELU : 0) |
                    (mask.data() ? CUBLASLT_EPILOGUE_RELU_AUX : 0) |
                    (bias.data() ? CUBLASLT_EPILOGUE_BIAS : 0);
  const MatmulProblem problem = {
      .m = out,
      .n = batch,
      .k = in,
      .factors = kDataType<T>,
      .result = kDataType<Y>,
      .epilogue = parts ? static_cast<cublasLtEpilogue_t>(parts) : CUBLASLT_EPILOGUE_DEFAULT,
      .a = w.data(),
      .b = x.data(),
      .d = y.data(),
      .bias = bias.data(),
      .mask = mask.data()};
  const bool few = takes_few_inputs<T, Y>(x, out);
  const auto apply = [&](const MatmulProblem& p) {
    const auto* const its_bias = static_cast<const Y*>(p.bias);
    if constexpr (std::is_same_v<T, Y> && sizeof(T) == 2)
      if (few) return few_inputs_forward(stream, x, w, its_bias, relu, y, mask);
    finish(its_bias);
  };
  const EpilogueKernels kernels(apply, few);
  run(matmul, problem, kName, stream, parts ? &kernels : nullptr);
}

template <typename T>
void fully_connected_backward_data(Matmul& matmul, cudaStream_t stream, Matrix<const T> dz,
                                   Matrix<const T> w, Matrix<T> dx, const LayerBelow<T>& below) {
  constexpr const char* kName = "fully_connected_backward_data";
  const int64_t batch = dz.dim(0), out = dz.dim(1), in = w.dim(0);
  const ReluGate<T> gate = gate_of(below.y, below.mask, in);
  float* const dbias = below.dbias.data();
  if (out == 1)
    return one_output_backward_data(stream, dz.data(), w.data(), dx, gate, dbias,
                                    scratch_of(matmul));

  const auto apply = [&](const MatmulProblem&) {
    mask_and_sum(kName, matmul, stream, dx, gate, dbias);
  };
  if (out == 0 || batch == 0 || in == 0) {
    zero(dx, stream);
    return apply({});
  }
  const bool sums = gate.mask && dbias;
  const MatmulProblem problem = {.turn_a = true,
                                 .m = in,
                                 .n = batch,
                                 .k = out,
                                 .factors = kDataType<T>,
                                 .result = kDataType<T>,
                                 .epilogue = sums        ? CUBLASLT_EPILOGUE_DRELU_BGRAD
                                             : gate.mask ? CUBLASLT_EPILOGUE_DRELU
                                                         : CUBLASLT_EPILOGUE_DEFAULT,
                                 .a = w.data(),
                                 .b = dz.data(),
                                 .d = dx.data(),
                                 .sums = sums ? dbias : nullptr,
                                 .mask = const_cast<uint8_t*>(gate.mask)};  // read
  const EpilogueKernels kernels(apply);
  run(matmul, problem, kName, stream, &kernels);
}

template <typename T>
void fully_connected_add_backward_data(Matmul& matmul, cudaStream_t stream, Matrix<const T> dz,
                                       Matrix<const T> w, Matrix<T> dx) {
  const int64_t batch = dz.dim(0), out = dz.dim(1), in = w.dim(0);
  if (out == 1) return one_output_add_backward_data(stream, dz.data(), w.data(), dx);
  if (out == 0 || batch == 0 || in == 0) return;
  run(matmul,
      {.turn_a = true,
       .m = in,
       .n = batch,
       .k = out,
       .factors = kDataType<T>,
       .result = kDataType<T>,
       .accumulate = true,
       .a = w.data(),
       .b = dz.data(),
       .d = dx.data()},
      "fully_connected_add_backward_data", stream);
}

template <typename T>
void fully_connected_backward_weights(Matmul& matmul, cudaStream_t stream, Matrix<const T> x,
                                      Matrix<const T> dz, Matrix<float> dw, Vector<float> dbias) {
  constexpr const char* kName = "fully_connected_backward_weights";
  const int64_t batch = x.dim(0), in = x.dim(1), out = dz.dim(1);
  const auto sum = [&](const MatmulProblem&) {
    if (dbias.data())
      sum_columns<T>(kName, stream, Elements<T>{dz.data(), out}, batch, out,
                     is_packable<T>(out, dz.data()), dbias.data(), scratch_of(matmul));
  };
  if (in == 0 || out <= 1 || batch == 0) {
    if (batch == 0)
      zero(dw, stream);
    else if (out == 1 && in > 0)
      one_output_backward_weights(stream, x, dz.data(), dw.data(), scratch_of(matmul));
    return sum({});
  }
  const MatmulProblem problem = {
      .turn_b = true,
      .m = out,
      .n = in,
      .k = batch,
      .factors = kDataType<T>,
      .result = CUDA_R_32F,
      .epilogue = dbias.data() ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_DEFAULT,
      .a = dz.data(),
      .b = x.data(),
      .d = dw.data(),
      .sums = dbias.data()};
  const EpilogueKernels kernels(sum);
  run(matmul, problem, kName, stream, dbias.data() ? &kernels : nullptr);
}

template <typename T>
void bias_relu_backward(Matmul& matmul, cudaStream_t stream, Matrix<const T> y, Matrix<T> dy,
                        Vector<float> dbias, Matrix<const uint8_t> mask) {
  mask_and_sum("bias_relu_backward", matmul, stream, dy, gate_of(y, mask, dy.dim(1)), dbias.data());
}

HLITE_KERNELS(fully_connected) {
  for_each_float([&]<typename T>() {
    list.add<fully_connected_forward<T, T>>(kernels::fully_connected_forward<T, T>);
    list.add<fully_connected_backward_data<T>>(kernels::fully_connected_backward_data<T>);
    list.add<fully_connected_add_backward_data<T>>(kernels::fully_connected_add_backward_data<T>);
    list.add<fully_connected_backward_weights<T>>(kernels::fully_connected_backward_weights<T>);
    list.add<bias_relu_backward<T>>(kernels::bias_relu_backward<T>);
  });
  // Logits.
  list.add<fully_connected_forward<bf16, float>>(kernels::fully_connected_forward<bf16, float>);
  list.add<fully_connected_forward<fp16, float>>(kernels::fully_connected_forward<fp16, float>);
}

}  // namespace hlite::ops::gpu
