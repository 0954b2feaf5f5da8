#include "hugectr_lite/ops/fully_connected.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
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

}  // namespace

void fully_connected_forward(const Exec& exec, Matrix<const float> x, Matrix<const float> w,
                             Vector<const float> bias, bool relu, Matrix<float> y) {
  const int64_t batch = x.dim(0), in = x.dim(1), out = w.dim(1);
  HLITE_CHECK(w.dim(0) == in && y.dim(0) == batch && y.dim(1) == out, "x {}, w {}, y {}", x.shape(),
              w.shape(), y.shape());
  HLITE_CHECK(!bias.data() || bias.dim(0) == out, "bias {}, w {}", bias.shape(), w.shape());
  ThreadPool& threads = cpu_threads(exec, "fully_connected_forward");
  const int64_t rows = forward_task_rows(batch, threads.threads());
  threads.run(blocks_of(batch, rows), [&](int64_t task, int) {
    const int64_t begin = task * rows, end = std::min(batch, begin + rows);
    gemm_piece(Transpose::kNo, Transpose::kNo, end - begin, out, in, 1, {x.row(begin), in},
               {w.data(), out}, 0, {y.row(begin), out});
    add_bias(y.rows(begin, end), bias.data(), relu);
  });
}

void fully_connected_backward_data(const Exec& exec, Matrix<const float> dz, Matrix<const float> w,
                                   Matrix<float> dx, const ReluBelow* below) {
  const int64_t batch = dz.dim(0), out = dz.dim(1), in = w.dim(0);
  HLITE_CHECK(w.dim(1) == out && dx.dim(0) == batch && dx.dim(1) == in, "dz {}, w {}, dx {}",
              dz.shape(), w.shape(), dx.shape());
  const float* const y = below ? below->y.data() : nullptr;
  float* const dbias = below ? below->dbias.data() : nullptr;
  HLITE_CHECK(!y || (below->y.dim(0) == batch && below->y.dim(1) == in), "y below {}, dx {}",
              below->y.shape(), dx.shape());
  HLITE_CHECK(!dbias || below->dbias.dim(0) == in, "dbias below {}, dx {}", below->dbias.shape(),
              dx.shape());
  ThreadPool& threads = cpu_threads(exec, "fully_connected_backward_data");
  const ColumnSums sums(batch, in, dbias != nullptr);
  const int64_t most = w.size() >= kLargeWeights ? kBackwardTaskOfLargeWeights : kBackwardTask;
  const int64_t rows = task_rows(batch, threads.threads(), 2, most);
  threads.run(blocks_of(batch, rows), [&](int64_t task, int) {
    const int64_t begin = task * rows, end = std::min(batch, begin + rows);
    gemm_piece(Transpose::kNo, Transpose::kYes, end - begin, in, out, 1, {dz.row(begin), out},
               {w.data(), out}, 0, {dx.row(begin), in});
    if (below) sums.mask_and_sum_rows(y, dx, begin, end);
  });
  if (dbias) sums.combine(threads, dbias);
}

void fully_connected_backward_weights(const Exec& exec, Matrix<const float> x,
                                      Matrix<const float> dz, Matrix<float> dw) {
  HLITE_CHECK(x.dim(0) == dz.dim(0) && dw.dim(0) == x.dim(1) && dw.dim(1) == dz.dim(1),
              "x {}, dz {}, dw {}", x.shape(), dz.shape(), dw.shape());
  gemm(exec, Transpose::kYes, Transpose::kNo, 1, x, dz, 0, dw);
}

void bias_relu_backward(const Exec& exec, Matrix<const float> y, Matrix<float> dy,
                        Vector<float> dbias) {
  const int64_t batch = dy.dim(0), out = dy.dim(1);
  HLITE_CHECK(!y.data() || (y.dim(0) == batch && y.dim(1) == out), "y {}, dy {}", y.shape(),
              dy.shape());
  HLITE_CHECK(!dbias.data() || dbias.dim(0) == out, "dbias {}, dy {}", dbias.shape(), dy.shape());
  ThreadPool& threads = cpu_threads(exec, "bias_relu_backward");
  const ColumnSums sums(batch, out, dbias.data() != nullptr);
  const int64_t rows = task_rows(batch, threads.threads(), 2, kElementwiseTask);
  threads.run(blocks_of(batch, rows), [&](int64_t task, int) {
    const int64_t begin = task * rows;
    sums.mask_and_sum_rows(y.data(), dy, begin, std::min(batch, begin + rows));
  });
  if (dbias.data()) sums.combine(threads, dbias.data());
}

}  // namespace hlite::ops
