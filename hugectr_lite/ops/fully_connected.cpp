#include "hugectr_lite/ops/fully_connected.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/activation.h"
#include "hugectr_lite/ops/bf16_factor.h"
#include "hugectr_lite/ops/bias_gradient.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/gemm.h"
#include "hugectr_lite/ops/gemm_piece.h"
#include "hugectr_lite/ops/row_product.h"

namespace hlite::ops {
namespace {

// The right factor of a float product as Bf16Factor has it, which takes it as it lies.
class FloatFactor {
 public:
  FloatFactor(ThreadPool&, Transpose transpose, Matrix<const float> b)
      : transpose_(transpose), b_(b) {}
  void multiply(Matrix<const float> a, Matrix<float> c) const {
    gemm_piece({.tb = transpose_, .m = a.dim(0), .n = c.dim(1), .k = a.dim(1)},
               {a.data(), a.dim(1)}, {b_.data(), b_.dim(1)}, {c.data(), c.dim(1)});
  }
  void multiply_rows(Matrix<const float> a, Matrix<float> c) const {
    row_product(a.dim(0), c.dim(1), a.dim(1), {a.data(), a.dim(1)}, {b_.data(), b_.dim(1)},
                {c.data(), c.dim(1)});
  }

 private:
  Transpose transpose_;
  Matrix<const float> b_;
};
template <typename T>
using Factor = std::conditional_t<std::is_same_v<T, float>, FloatFactor, Bf16Factor>;

// Rows that one task multiplies, measured on Zen 3. Forward in float: the library packs the weights
// anew in every task, so a thread does its share in one where that is large; below, small tasks
// balance better. Backward reads the weights as they lie.
constexpr int64_t kLargeForwardTask = 1024;
constexpr int64_t kForwardTask = 256;
constexpr int64_t kBackwardTask = 128;
constexpr int64_t kBackwardTaskOfLargeWeights = 512;
constexpr int64_t kLargeWeights = 400'000;  // elements
constexpr int64_t kElementwiseTask = 128;
constexpr int64_t kBf16Task = 128;  // whose result in float stays in L2 until it is rounded

// Rows of one task: a multiple of BiasGradient::kRows, at most `most`, that leaves every thread
// `tasks` of them, if possible.
int64_t task_rows(int64_t batch, int threads, int64_t tasks, int64_t most) {
  const int64_t fair = blocks_of(batch, tasks * static_cast<int64_t>(threads));
  return std::clamp(blocks_of(fair, BiasGradient::kRows) * BiasGradient::kRows, BiasGradient::kRows,
                    most);
}

template <typename T>
int64_t forward_task_rows(int64_t batch, int threads) {
  if (std::is_same_v<T, bf16>) return task_rows(batch, threads, 2, kBf16Task);
  const bool large = batch >= kLargeForwardTask * static_cast<int64_t>(threads);
  return large ? kLargeForwardTask : task_rows(batch, threads, 2, kForwardTask);
}

// Rows of a task in an evaluation, where every task packs the weights: as many as row_product()
// packs at once, and for small batches one task a thread.
constexpr int64_t kEvaluatedTask = 240;
int64_t evaluated_task_rows(int64_t batch, int threads) {
  return task_rows(batch, threads, batch >= kEvaluatedTask * threads ? 2 : 1, kEvaluatedTask);
}

template <typename T>
int64_t backward_task_rows(int64_t batch, int64_t weights, int threads) {
  if (std::is_same_v<T, bf16>) return task_rows(batch, threads, 2, kBf16Task);
  return task_rows(batch, threads, 2,
                   weights >= kLargeWeights ? kBackwardTaskOfLargeWeights : kBackwardTask);
}

// body(begin, end) for the tasks' rows.
template <typename Body>
void for_tasks(ThreadPool& threads, int64_t batch, int64_t rows, Body&& body) {
  threads.run(blocks_of(batch, rows),
              [&](int64_t task, int) { body(task * rows, std::min(batch, (task + 1) * rows)); });
}

// The memory where a task multiplies rows of a result of T: in place, or in scratch until they are
// rounded.
float* product_of(Matrix<float> result, int64_t begin, int64_t) { return result.row(begin); }
float* product_of(Matrix<bf16> result, int64_t begin, int64_t end) {
  thread_local std::vector<float> scratch;  // grown once
  const int64_t size = (end - begin) * result.dim(1);
  if (std::ssize(scratch) < size) scratch.resize(static_cast<size_t>(size));
  return scratch.data();
}

// y = act(z + bias) on one task's rows; z of float may be y.
template <typename Y>
void add_bias(const float* z, const Y* bias, bool apply_relu, Matrix<Y> y) {
  const int64_t n = y.dim(1);
  for (int64_t i = 0; i < y.dim(0); ++i) {
    const float* const from = z + i * n;
    Y* const to = y.row(i);
    if (bias && apply_relu)
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) to[j] = from_float<Y>(relu(from[j] + to_float(bias[j])));
    else if (bias)
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) to[j] = from_float<Y>(from[j] + to_float(bias[j]));
    else if (apply_relu)
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) to[j] = from_float<Y>(relu(from[j]));
    else if (static_cast<const void*>(from) != to)
      for (int64_t j = 0; j < n; ++j) to[j] = from_float<Y>(from[j]);
  }
}

// Says if the bits of a row of the result may depend on the rows next to it.
enum class RowBits { kAny, kOfRow };

template <RowBits kBits, typename T, typename Y>
void forward_on_cpu(const Exec& exec, Matrix<const T> x, Matrix<const T> w, Vector<const Y> bias,
                    bool relu, Matrix<Y> y) {
  const int64_t batch = x.dim(0);
  ThreadPool& threads = cpu_threads(exec, "fully_connected_forward");
  const Factor<T> weights(threads, Transpose::kNo, w);
  const int64_t rows = kBits == RowBits::kOfRow && std::is_same_v<T, float>
                           ? evaluated_task_rows(batch, threads.threads())
                           : forward_task_rows<T>(batch, threads.threads());
  for_tasks(threads, batch, rows, [&](int64_t begin, int64_t end) {
    float* const z = product_of(y, begin, end);
    const Matrix<float> product(z, end - begin, y.dim(1));
    if constexpr (kBits == RowBits::kOfRow)
      weights.multiply_rows(x.rows(begin, end), product);
    else
      weights.multiply(x.rows(begin, end), product);
    wide([&] { add_bias(z, bias.data(), relu, y.rows(begin, end)); });
  });
}

template <typename T>
void backward_data_on_cpu(const Exec& exec, Matrix<const T> dz, Matrix<const T> w, Matrix<T> dx,
                          const LayerBelow<T>& below) {
  const int64_t batch = dz.dim(0), in = w.dim(0);
  const T* const y = below.y.data();
  float* const dbias = below.dbias.data();
  ThreadPool& threads = cpu_threads(exec, "fully_connected_backward_data");
  const BiasGradient bias_gradient(batch, in, dbias);
  const Factor<T> weights(threads, Transpose::kYes, w);
  const int64_t rows = backward_task_rows<T>(batch, w.size(), threads.threads());
  for_tasks(threads, batch, rows, [&](int64_t begin, int64_t end) {
    float* const z = product_of(dx, begin, end);
    weights.multiply(dz.rows(begin, end), {z, end - begin, in});
    const bool ready = !y && std::is_same_v<T, float>;
    bias_gradient.add(
        y, [=](int64_t row, int64_t column) { return z[(row - begin) * in + column]; },
        ready ? nullptr : dx.data(), begin, end);
  });
  bias_gradient.combine(threads);
}

void add_backward_data_on_cpu(const Exec& exec, Matrix<const float> dz, Matrix<const float> w,
                              Matrix<float> dx) {
  gemm(exec, Transpose::kNo, Transpose::kYes, 1, dz, w, 1, dx);
}

void add_backward_data_on_cpu(const Exec& exec, Matrix<const bf16> dz, Matrix<const bf16> w,
                              Matrix<bf16> dx) {
  const int64_t batch = dz.dim(0), in = w.dim(0);
  ThreadPool& threads = cpu_threads(exec, "fully_connected_add_backward_data");
  const Bf16Factor weights(threads, Transpose::kYes, w);
  const int64_t rows = backward_task_rows<bf16>(batch, w.size(), threads.threads());
  for_tasks(threads, batch, rows, [&](int64_t begin, int64_t end) {
    float* const z = product_of(dx, begin, end);
    weights.multiply(dz.rows(begin, end), {z, end - begin, in});
    bf16* const to = dx.row(begin);
    wide([&] {
      for (int64_t i = 0; i < (end - begin) * in; ++i)
        to[i] = from_float<bf16>(to_float(to[i]) + z[i]);
    });
  });
}

// Handles a layer of one output: no product of matrices is worth its packing.
void one_output_weights(ThreadPool& threads, Matrix<const bf16> x, const bf16* dz, float* dw) {
  constexpr int64_t kColumns = 128;  // of one task; their sums live in L1
  threads.run(blocks_of(x.dim(1), kColumns), [&](int64_t task, int) {
    const int64_t begin = task * kColumns, n = std::min(kColumns, x.dim(1) - begin);
    float sums[kColumns] = {};
    wide([&] {
      for (int64_t b = 0; b < x.dim(0); ++b) {
        const bf16* const row = x.row(b) + begin;
        const float d = to_float(dz[b]);
        for (int64_t j = 0; j < n; ++j) sums[j] += to_float(row[j]) * d;
      }
    });
    std::copy_n(sums, n, dw + begin);
  });
}

template <typename T>
void backward_weights_on_cpu(const Exec& exec, Matrix<const T> x, Matrix<const T> dz,
                             Matrix<float> dw) {
  const int64_t in = dw.dim(0);
  ThreadPool& threads = cpu_threads(exec, "fully_connected_backward_weights");
  if constexpr (std::is_same_v<T, float>) {
    gemm(exec, Transpose::kYes, Transpose::kNo, 1, x, dz, 0, dw);
  } else {
    if (dw.dim(1) == 1) return one_output_weights(threads, x, dz.data(), dw.data());
    const Bf16Factor gradients(threads, Transpose::kNo, dz);
    const int64_t rows = task_rows(in, threads.threads(), 2, kBf16Task);
    for_tasks(threads, in, rows, [&](int64_t begin, int64_t end) {
      gradients.multiply_columns(x, begin, dw.rows(begin, end));
    });
  }
}

template <typename T>
void bias_relu_backward_on_cpu(const Exec& exec, Matrix<const T> y, Matrix<T> dy,
                               Vector<float> dbias) {
  const int64_t batch = dy.dim(0);
  ThreadPool& threads = cpu_threads(exec, "bias_relu_backward");
  const BiasGradient bias_gradient(batch, dy.dim(1), dbias.data());
  for_tasks(threads, batch, kElementwiseTask, [&](int64_t begin, int64_t end) {
    const auto gradient = [dy](int64_t row, int64_t column) {
      return to_float(dy.data()[row * dy.dim(1) + column]);
    };
    bias_gradient.add(y.data(), gradient, y.data() ? dy.data() : nullptr, begin, end);
  });
  bias_gradient.combine(threads);
}

// Checks the mask of outputs [batch, out].
void check_mask(const Exec& exec, Matrix<const uint8_t> mask, int64_t batch, int64_t out) {
  if (!mask.data()) return;
  HLITE_CHECK(exec.on_gpu(), "a ReLU mask is for GPUs");
  HLITE_CHECK(mask.dim(0) == batch && mask.dim(1) == relu_mask_bytes(out),
              "mask {}, expected [{},{}]", mask.shape(), batch, relu_mask_bytes(out));
}

template <typename T, typename Y>
void check_forward(MatrixOf<const T> x, MatrixOf<const T> w, VectorOf<const Y> bias,
                   MatrixOf<Y> y) {
  HLITE_CHECK(w.dim(0) == x.dim(1) && y.dim(0) == x.dim(0) && y.dim(1) == w.dim(1),
              "x {}, w {}, y {}", x.shape(), w.shape(), y.shape());
  HLITE_CHECK(!bias.data() || bias.dim(0) == w.dim(1), "bias {}, w {}", bias.shape(), w.shape());
}

// Returns true if it runs on a GPU, which takes a context.
bool multiplies_on_gpu(const Exec& exec, const char* op) {
  HLITE_CHECK(!exec.on_gpu() || exec.matmul != nullptr, "{} on a GPU needs a MatmulContext", op);
  return exec.on_gpu();
}

}  // namespace

template <typename T, typename Y>
void fully_connected_forward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> w,
                             VectorOf<const Y> bias, bool relu, MatrixOf<Y> y,
                             Matrix<uint8_t> mask) {
  check_forward<T, Y>(x, w, bias, y);
  check_mask(exec, mask, x.dim(0), w.dim(1));
  if (multiplies_on_gpu(exec, "fully_connected_forward"))
    return kernels::fully_connected_forward<T, Y>(exec, x, w, bias, relu, y, mask);
  if constexpr (kOnCpu<T>)
    forward_on_cpu<RowBits::kAny, T, Y>(exec, x, w, bias, relu, y);
  else
    needs_gpu("fully_connected_forward");
}

template <typename T, typename Y>
void fully_connected_evaluate(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> w,
                              VectorOf<const Y> bias, bool relu, MatrixOf<Y> y) {
  check_forward<T, Y>(x, w, bias, y);
  if (multiplies_on_gpu(exec, "fully_connected_evaluate"))
    return kernels::fully_connected_forward<T, Y>(exec, x, w, bias, relu, y, {});
  if constexpr (kOnCpu<T>)
    forward_on_cpu<RowBits::kOfRow, T, Y>(exec, x, w, bias, relu, y);
  else
    needs_gpu("fully_connected_evaluate");
}

template <typename T>
void fully_connected_backward_data(const Exec& exec, MatrixOf<const T> dz, MatrixOf<const T> w,
                                   MatrixOf<T> dx,
                                   const LayerBelow<std::type_identity_t<T>>& below) {
  const int64_t batch = dz.dim(0), out = dz.dim(1), in = w.dim(0);
  HLITE_CHECK(w.dim(1) == out && dx.dim(0) == batch && dx.dim(1) == in, "dz {}, w {}, dx {}",
              dz.shape(), w.shape(), dx.shape());
  HLITE_CHECK(!below.y.data() || (below.y.dim(0) == batch && below.y.dim(1) == in),
              "y below {}, dx {}", below.y.shape(), dx.shape());
  HLITE_CHECK(!below.dbias.data() || below.dbias.dim(0) == in, "dbias below {}, dx {}",
              below.dbias.shape(), dx.shape());
  check_mask(exec, below.mask, batch, in);
  if (multiplies_on_gpu(exec, "fully_connected_backward_data"))
    return kernels::fully_connected_backward_data<T>(exec, dz, w, dx, below);
  if constexpr (kOnCpu<T>)
    backward_data_on_cpu<T>(exec, dz, w, dx, below);
  else
    needs_gpu("fully_connected_backward_data");
}

template <typename T>
void fully_connected_add_backward_data(const Exec& exec, MatrixOf<const T> dz, MatrixOf<const T> w,
                                       MatrixOf<T> dx) {
  HLITE_CHECK(dz.dim(0) == dx.dim(0) && w.dim(0) == dx.dim(1) && w.dim(1) == dz.dim(1),
              "dz {}, w {}, dx {}", dz.shape(), w.shape(), dx.shape());
  if (multiplies_on_gpu(exec, "fully_connected_add_backward_data"))
    return kernels::fully_connected_add_backward_data<T>(exec, dz, w, dx);
  if constexpr (kOnCpu<T>)
    add_backward_data_on_cpu(exec, dz, w, dx);
  else
    needs_gpu("fully_connected_add_backward_data");
}

template <typename T>
void fully_connected_backward_weights(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dz,
                                      Matrix<float> dw, Vector<float> dbias) {
  HLITE_CHECK(x.dim(0) == dz.dim(0) && dw.dim(0) == x.dim(1) && dw.dim(1) == dz.dim(1),
              "x {}, dz {}, dw {}", x.shape(), dz.shape(), dw.shape());
  HLITE_CHECK(!dbias.data() || dbias.dim(0) == dz.dim(1), "dbias {}, dz {}", dbias.shape(),
              dz.shape());
  if (multiplies_on_gpu(exec, "fully_connected_backward_weights"))
    return kernels::fully_connected_backward_weights<T>(exec, x, dz, dw, dbias);
  if constexpr (kOnCpu<T>) {
    backward_weights_on_cpu<T>(exec, x, dz, dw);
    if (dbias.data())
      bias_relu_backward_on_cpu<T>(exec, {}, {const_cast<T*>(dz.data()), dz.dim(0), dz.dim(1)},
                                   dbias);  // reads dz only
  } else {
    needs_gpu("fully_connected_backward_weights");
  }
}

template <typename T>
void bias_relu_backward(const Exec& exec, MatrixOf<const T> y, MatrixOf<T> dy, Vector<float> dbias,
                        Matrix<const uint8_t> mask) {
  const int64_t batch = dy.dim(0), out = dy.dim(1);
  HLITE_CHECK(!y.data() || (y.dim(0) == batch && y.dim(1) == out), "y {}, dy {}", y.shape(),
              dy.shape());
  HLITE_CHECK(!dbias.data() || dbias.dim(0) == out, "dbias {}, dy {}", dbias.shape(), dy.shape());
  check_mask(exec, mask, batch, out);
  if (multiplies_on_gpu(exec, "bias_relu_backward"))
    return kernels::bias_relu_backward<T>(exec, y, dy, dbias, mask);
  if constexpr (kOnCpu<T>)
    bias_relu_backward_on_cpu<T>(exec, y, dy, dbias);
  else
    needs_gpu("bias_relu_backward");
}

HLITE_INSTANTIATE_FLOATS(fully_connected_forward)
HLITE_INSTANTIATE_FLOATS(fully_connected_evaluate)
HLITE_INSTANTIATE_FLOATS(fully_connected_backward_data)
HLITE_INSTANTIATE_FLOATS(fully_connected_add_backward_data)
HLITE_INSTANTIATE_FLOATS(fully_connected_backward_weights)
HLITE_INSTANTIATE_FLOATS(bias_relu_backward)
template void fully_connected_forward<bf16, float>(const Exec&, Matrix<const bf16>,
                                                   Matrix<const bf16>, Vector<const float>, bool,
                                                   Matrix<float>, Matrix<uint8_t>);
template void fully_connected_forward<fp16, float>(const Exec&, Matrix<const fp16>,
                                                   Matrix<const fp16>, Vector<const float>, bool,
                                                   Matrix<float>, Matrix<uint8_t>);
template void fully_connected_evaluate<bf16, float>(const Exec&, Matrix<const bf16>,
                                                    Matrix<const bf16>, Vector<const float>, bool,
                                                    Matrix<float>);
template void fully_connected_evaluate<fp16, float>(const Exec&, Matrix<const fp16>,
                                                    Matrix<const fp16>, Vector<const float>, bool,
                                                    Matrix<float>);

}  // namespace hlite::ops
