#include "hugectr_lite/ops/fully_connected.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/gemm.h"
#include "hugectr_lite/ops/gemm_piece.h"
#include "hugectr_lite/ops/relu.h"

namespace hlite::ops {
namespace {

// Column sums are taken over blocks of this many rows, whatever the thread count.
constexpr int64_t kSumRows = 32;
// Rows that one task multiplies, measured on Zen 3. Forward: the library packs the weights anew in
// every task, so a thread does its share in one where that is large; below, small tasks balance
// better. Backward reads the weights as they lie.
constexpr int64_t kLargeForwardTask = 1024;
constexpr int64_t kForwardTask = 256;
constexpr int64_t kBackwardTask = 128;
constexpr int64_t kBackwardTaskOfLargeWeights = 512;
constexpr int64_t kLargeWeights = 400'000;  // elements
constexpr int64_t kElementwiseTask = 128;

int64_t blocks_of(int64_t rows, int64_t block) { return (rows + block - 1) / block; }

// Rows of one task: a multiple of kSumRows, at most `most`, that leaves every thread `tasks` of
// them, if possible.
int64_t task_rows(int64_t batch, int threads, int64_t tasks, int64_t most) {
  const int64_t fair = blocks_of(batch, tasks * static_cast<int64_t>(threads));
  return std::clamp(blocks_of(fair, kSumRows) * kSumRows, kSumRows, most);
}

int64_t forward_task_rows(int64_t batch, int threads) {
  const bool large = batch >= kLargeForwardTask * static_cast<int64_t>(threads);
  return large ? kLargeForwardTask : task_rows(batch, threads, 2, kForwardTask);
}

// y = act(y + bias) on one task's rows.
void add_bias(Matrix<float> y, const float* bias, bool apply_relu) {
  const int64_t n = y.dim(1);
  for (int64_t i = 0; i < y.dim(0); ++i) {
    float* const row = y.row(i);
    if (bias && apply_relu)
      for (int64_t j = 0; j < n; ++j) row[j] = relu(row[j] + bias[j]);
    else if (bias)
      for (int64_t j = 0; j < n; ++j) row[j] += bias[j];
    else if (apply_relu)
      for (int64_t j = 0; j < n; ++j) row[j] = relu(row[j]);
  }
}

// Masks dy by y > 0 (y null: no mask) and adds its columns to sums (null: none). The sums are
// taken four rows at a time: that halves the loads and stores of the pass.
void mask_and_sum(const float* y, float* dy, int64_t rows, int64_t n, float* sums) {
  if (!sums) {
    if (y)
      for (int64_t i = 0; i < rows * n; ++i) dy[i] = relu_gradient(y[i], dy[i]);
    return;
  }
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    float* const d = dy + i * n;
    if (y) {
      const float* const m = y + i * n;
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) {
        const float d0 = relu_gradient(m[j], d[j]);
        const float d1 = relu_gradient(m[n + j], d[n + j]);
        const float d2 = relu_gradient(m[2 * n + j], d[2 * n + j]);
        const float d3 = relu_gradient(m[3 * n + j], d[3 * n + j]);
        d[j] = d0;
        d[n + j] = d1;
        d[2 * n + j] = d2;
        d[3 * n + j] = d3;
        sums[j] += (d0 + d1) + (d2 + d3);
      }
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) sums[j] += (d[j] + d[n + j]) + (d[2 * n + j] + d[3 * n + j]);
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float& d = dy[i * n + j];
      if (y) d = relu_gradient(y[i * n + j], d);
      sums[j] += d;
    }
  }
}

// Column sums of a [rows, columns] matrix as one partial row for each block of kSumRows rows.
class ColumnSums {
 public:
  ColumnSums(int64_t rows, int64_t columns, bool wanted)
      : columns_(columns), blocks_(wanted ? blocks_of(rows, kSumRows) : 0) {
    thread_local std::vector<float> workspace;  // grown once
    const auto size = static_cast<size_t>(blocks_ * columns_);
    if (workspace.size() < size) workspace.resize(size);
    partial_ = workspace.data();
  }

  // Masks rows [begin, end) and sums their blocks; begin is a multiple of kSumRows.
  void mask_and_sum_rows(const float* y, Matrix<float> dy, int64_t begin, int64_t end) const {
    for (int64_t first = begin; first < end; first += kSumRows) {
      float* sums = nullptr;
      if (blocks_ > 0) {
        sums = partial_ + first / kSumRows * columns_;
        std::fill_n(sums, columns_, 0.0f);
      }
      mask_and_sum(y ? y + first * columns_ : nullptr, dy.row(first),
                   std::min(kSumRows, end - first), columns_, sums);
    }
  }

  // out[j] = sum of the partial rows, in row order.
  void combine(ThreadPool& threads, float* out) const {
    constexpr int64_t kColumns = 128;  // of one task; their sums live in L1
    threads.run(blocks_of(columns_, kColumns), [&](int64_t task, int) {
      const int64_t begin = task * kColumns, n = std::min(kColumns, columns_ - begin);
      double sums[kColumns] = {};
      for (int64_t block = 0; block < blocks_; ++block) {
        const float* const row = partial_ + block * columns_ + begin;
        for (int64_t j = 0; j < n; ++j) sums[j] += static_cast<double>(row[j]);
      }
      for (int64_t j = 0; j < n; ++j) out[begin + j] = static_cast<float>(sums[j]);
    });
  }

 private:
  int64_t columns_, blocks_;
  float* partial_;
};

void forward_on_cpu(const Exec& exec, Matrix<const float> x, Matrix<const float> w,
                    Vector<const float> bias, bool relu, Matrix<float> y) {
  const int64_t batch = x.dim(0), in = x.dim(1), out = w.dim(1);
  ThreadPool& threads = cpu_threads(exec, "fully_connected_forward");
  const int64_t rows = forward_task_rows(batch, threads.threads());
  threads.run(blocks_of(batch, rows), [&](int64_t task, int) {
    const int64_t begin = task * rows, end = std::min(batch, begin + rows);
    gemm_piece({.m = end - begin, .n = out, .k = in}, {x.row(begin), in}, {w.data(), out},
               {y.row(begin), out});
    add_bias(y.rows(begin, end), bias.data(), relu);
  });
}

void backward_data_on_cpu(const Exec& exec, Matrix<const float> dz, Matrix<const float> w,
                          Matrix<float> dx, const ReluBelow& below) {
  const int64_t batch = dz.dim(0), out = dz.dim(1), in = w.dim(0);
  const float* const y = below.y.data();
  float* const dbias = below.dbias.data();
  ThreadPool& threads = cpu_threads(exec, "fully_connected_backward_data");
  const ColumnSums sums(batch, in, dbias != nullptr);
  const int64_t most = w.size() >= kLargeWeights ? kBackwardTaskOfLargeWeights : kBackwardTask;
  const int64_t rows = task_rows(batch, threads.threads(), 2, most);
  threads.run(blocks_of(batch, rows), [&](int64_t task, int) {
    const int64_t begin = task * rows, end = std::min(batch, begin + rows);
    gemm_piece({.tb = Transpose::kYes, .m = end - begin, .n = in, .k = out}, {dz.row(begin), out},
               {w.data(), out}, {dx.row(begin), in});
    if (y || dbias) sums.mask_and_sum_rows(y, dx, begin, end);
  });
  if (dbias) sums.combine(threads, dbias);
}

void bias_relu_backward_on_cpu(const Exec& exec, Matrix<const float> y, Matrix<float> dy,
                               Vector<float> dbias) {
  const int64_t batch = dy.dim(0), out = dy.dim(1);
  ThreadPool& threads = cpu_threads(exec, "bias_relu_backward");
  const ColumnSums sums(batch, out, dbias.data() != nullptr);
  const int64_t rows = task_rows(batch, threads.threads(), 2, kElementwiseTask);
  threads.run(blocks_of(batch, rows), [&](int64_t task, int) {
    const int64_t begin = task * rows;
    sums.mask_and_sum_rows(y.data(), dy, begin, std::min(batch, begin + rows));
  });
  if (dbias.data()) sums.combine(threads, dbias.data());
}

// Of the mask of outputs [batch, out].
void check_mask(const Exec& exec, Matrix<const uint8_t> mask, int64_t batch, int64_t out) {
  if (!mask.data()) return;
  HLITE_CHECK(exec.on_gpu(), "a ReLU mask is for GPUs");
  HLITE_CHECK(mask.dim(0) == batch && mask.dim(1) == relu_mask_bytes(out),
              "mask {}, expected [{},{}]", mask.shape(), batch, relu_mask_bytes(out));
}

// Whether it runs on a GPU, which takes a context.
bool multiplies_on_gpu(const Exec& exec, const char* op) {
  HLITE_CHECK(!exec.on_gpu() || exec.matmul != nullptr, "{} on a GPU needs a MatmulContext", op);
  return exec.on_gpu();
}

}  // namespace

template <typename T, typename Y>
void fully_connected_forward(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                             Matrix<const std::type_identity_t<T>> w,
                             Vector<const std::type_identity_t<Y>> bias, bool relu,
                             Matrix<std::type_identity_t<Y>> y, Matrix<uint8_t> mask) {
  const int64_t batch = x.dim(0), in = x.dim(1), out = w.dim(1);
  HLITE_CHECK(w.dim(0) == in && y.dim(0) == batch && y.dim(1) == out, "x {}, w {}, y {}", x.shape(),
              w.shape(), y.shape());
  HLITE_CHECK(!bias.data() || bias.dim(0) == out, "bias {}, w {}", bias.shape(), w.shape());
  check_mask(exec, mask, batch, out);
  if (multiplies_on_gpu(exec, "fully_connected_forward"))
    return kernels::fully_connected_forward<T, Y>(exec, x, w, bias, relu, y, mask);
  if constexpr (std::is_same_v<T, float>)
    forward_on_cpu(exec, x, w, bias, relu, y);
  else
    needs_gpu("fully_connected_forward");
}

template <typename T>
void fully_connected_backward_data(const Exec& exec, Matrix<const std::type_identity_t<T>> dz,
                                   Matrix<const std::type_identity_t<T>> w,
                                   Matrix<std::type_identity_t<T>> dx,
                                   const LayerBelow<std::type_identity_t<T>>* layer_below) {
  const int64_t batch = dz.dim(0), out = dz.dim(1), in = w.dim(0);
  HLITE_CHECK(w.dim(1) == out && dx.dim(0) == batch && dx.dim(1) == in, "dz {}, w {}, dx {}",
              dz.shape(), w.shape(), dx.shape());
  const LayerBelow<T> below = layer_below ? *layer_below : LayerBelow<T>{};
  HLITE_CHECK(!below.y.data() || (below.y.dim(0) == batch && below.y.dim(1) == in),
              "y below {}, dx {}", below.y.shape(), dx.shape());
  HLITE_CHECK(!below.dbias.data() || below.dbias.dim(0) == in, "dbias below {}, dx {}",
              below.dbias.shape(), dx.shape());
  check_mask(exec, below.mask, batch, in);
  if (multiplies_on_gpu(exec, "fully_connected_backward_data"))
    return kernels::fully_connected_backward_data<T>(exec, dz, w, dx, below);
  if constexpr (std::is_same_v<T, float>)
    backward_data_on_cpu(exec, dz, w, dx, below);
  else
    needs_gpu("fully_connected_backward_data");
}

template <typename T>
void fully_connected_backward_weights(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                                      Matrix<const std::type_identity_t<T>> dz, Matrix<float> dw) {
  HLITE_CHECK(x.dim(0) == dz.dim(0) && dw.dim(0) == x.dim(1) && dw.dim(1) == dz.dim(1),
              "x {}, dz {}, dw {}", x.shape(), dz.shape(), dw.shape());
  if (multiplies_on_gpu(exec, "fully_connected_backward_weights"))
    return kernels::fully_connected_backward_weights<T>(exec, x, dz, dw);
  if constexpr (std::is_same_v<T, float>)
    gemm(exec, Transpose::kYes, Transpose::kNo, 1, x, dz, 0, dw);
  else
    needs_gpu("fully_connected_backward_weights");
}

template <typename T>
void bias_relu_backward(const Exec& exec, Matrix<const std::type_identity_t<T>> y,
                        Matrix<std::type_identity_t<T>> dy, Vector<float> dbias,
                        Matrix<const uint8_t> mask) {
  const int64_t batch = dy.dim(0), out = dy.dim(1);
  HLITE_CHECK(!y.data() || (y.dim(0) == batch && y.dim(1) == out), "y {}, dy {}", y.shape(),
              dy.shape());
  HLITE_CHECK(!dbias.data() || dbias.dim(0) == out, "dbias {}, dy {}", dbias.shape(), dy.shape());
  check_mask(exec, mask, batch, out);
  if (multiplies_on_gpu(exec, "bias_relu_backward"))
    return kernels::bias_relu_backward<T>(exec, y, dy, dbias, mask);
  if constexpr (std::is_same_v<T, float>)
    bias_relu_backward_on_cpu(exec, y, dy, dbias);
  else
    needs_gpu("bias_relu_backward");
}

#define HLITE_INSTANTIATE(T)                                                                       \
  template void fully_connected_forward<T, T>(const Exec&, Matrix<const T>, Matrix<const T>,       \
                                              Vector<const T>, bool, Matrix<T>, Matrix<uint8_t>);  \
  template void fully_connected_backward_data<T>(const Exec&, Matrix<const T>, Matrix<const T>,    \
                                                 Matrix<T>, const LayerBelow<T>*);                 \
  template void fully_connected_backward_weights<T>(const Exec&, Matrix<const T>, Matrix<const T>, \
                                                    Matrix<float>);                                \
  template void bias_relu_backward<T>(const Exec&, Matrix<const T>, Matrix<T>, Vector<float>,      \
                                      Matrix<const uint8_t>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE
template void fully_connected_forward<bf16, float>(const Exec&, Matrix<const bf16>,
                                                   Matrix<const bf16>, Vector<const float>, bool,
                                                   Matrix<float>, Matrix<uint8_t>);
template void fully_connected_forward<fp16, float>(const Exec&, Matrix<const fp16>,
                                                   Matrix<const fp16>, Vector<const float>, bool,
                                                   Matrix<float>, Matrix<uint8_t>);

}  // namespace hlite::ops
