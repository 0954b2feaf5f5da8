#include "hugectr_lite/ops/bf16_factor.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/bf16_piece.h"
#include "hugectr_lite/ops/gemm_piece.h"
#include "hugectr_lite/ops/transpose.h"

namespace hlite::ops {
namespace {

template <typename T>
T* grow(std::vector<T>& scratch, int64_t size) {
  if (std::ssize(scratch) < size) scratch.resize(static_cast<size_t>(size));
  return scratch.data();
}

const float* widened(ThreadPool& threads, Matrix<const bf16> b) {
  constexpr int64_t kWorthAThread = 1 << 14;
  thread_local std::vector<float> scratch;  // grown once
  float* const all = grow(scratch, b.size());
  threads.parallel_for(b.size(), kWorthAThread, [&](int64_t begin, int64_t end) {
    wide([&] { widen(b.data() + begin, end - begin, all + begin); });
  });
  return all;
}

// Two neighbours of a column, the first in the lower half.
using Pair = uint32_t;
constexpr int64_t kPairRows = kPanelRows / 2;
constexpr int64_t kPanelBlock = kPairRows * kPanelColumns;  // pairs of kPanelRows rows of a panel

// Pairs of a row, null for zeros, and the one below: columns [0, n), and zeros up to a panel's.
void interleave(const bf16* upper, const bf16* lower, int64_t n, Pair* to) {
  if (!upper) n = 0;
  if (lower)
    for (int64_t j = 0; j < n; ++j) to[j] = Pair{upper[j].bits} | Pair{lower[j].bits} << 16;
  else
    for (int64_t j = 0; j < n; ++j) to[j] = upper[j].bits;
  std::fill(to + n, to + kPanelColumns, Pair{0});
}

// A block from b [k,n] as it is: rows from `row` on, `columns` columns from `column` on.
void pack_rows(Matrix<const bf16> b, int64_t row, int64_t column, int64_t columns, Pair* to) {
  const auto at = [&](int64_t i) { return i < b.dim(0) ? b.row(i) + column : nullptr; };
  for (int64_t i = 0; i < kPairRows; ++i)
    interleave(at(row + 2 * i), at(row + 2 * i + 1), columns, to + i * kPanelColumns);
}

// The same from its transpose b [n,k]: pairs are neighbours in a row.
void pack_turned(Matrix<const bf16> b, int64_t row, int64_t column, int64_t columns, Pair* to) {
  const int64_t rows = std::min(b.dim(1) - row, kPanelRows);
  if (rows < kPanelRows || columns < kPanelColumns) std::fill_n(to, kPanelBlock, Pair{0});
  for (int64_t j = 0; j < columns; ++j) {
    const bf16* const from = b.row(column + j) + row;
    for (int64_t i = 0; i < rows / 2; ++i)
      std::memcpy(to + i * kPanelColumns + j, from + 2 * i, sizeof(Pair));
    if (rows % 2 != 0) to[rows / 2 * kPanelColumns + j] = from[rows - 1].bits;
  }
}

const bf16* packed(ThreadPool& threads, Transpose transpose, Matrix<const bf16> b, int64_t k,
                   int64_t n) {
  constexpr int64_t kBlocksOfATask = 16;
  const int64_t blocks = in_panel_rows(k) / kPanelRows;  // of a panel
  const int64_t parts = (blocks + kBlocksOfATask - 1) / kBlocksOfATask;
  thread_local HostMemory memory;  // grown once
  const auto bytes = static_cast<size_t>(panels(n) * blocks * kPanelBlock) * sizeof(Pair);
  if (memory.size() < bytes) memory = HostMemory(bytes, "packed weights");
  Pair* const to = reinterpret_cast<Pair*>(memory.data());
  threads.run(panels(n) * parts, [&](int64_t task, int) {
    const int64_t panel = task / parts, column = panel * kPanelColumns;
    const int64_t columns = std::min(n - column, kPanelColumns);
    const int64_t first = task % parts * kBlocksOfATask;
    wide([&] {
      for (int64_t block = first; block < std::min(blocks, first + kBlocksOfATask); ++block)
        (transpose == Transpose::kYes ? pack_turned : pack_rows)(
            b, block * kPanelRows, column, columns, to + (panel * blocks + block) * kPanelBlock);
    });
  });
  return reinterpret_cast<const bf16*>(to);
}

}  // namespace

Bf16Factor::Bf16Factor(ThreadPool& threads, Transpose transpose, Matrix<const bf16> b)
    : transpose_(transpose),
      k_(b.dim(transpose == Transpose::kYes ? 1 : 0)),
      n_(b.dim(transpose == Transpose::kYes ? 0 : 1)) {
  if (bf16_products() == Bf16Products::kNone)
    wide_ = widened(threads, b);
  else
    panels_ = packed(threads, transpose, b, k_, n_);
}

void Bf16Factor::multiply(Matrix<const bf16> a, Matrix<float> c) const {
  HLITE_CHECK(a.dim(0) == c.dim(0) && a.dim(1) == k_ && c.dim(1) == n_, "a {}, b [{},{}], c {}",
              a.shape(), k_, n_, c.shape());
  if (c.size() == 0) return;
  if (k_ == 0) std::fill_n(c.data(), c.size(), 0.0f);
  if (k_ == 0) return;
  if (panels_) return bf16_piece({a.dim(0), n_, k_}, a.data(), panels_, c.data());
  thread_local std::vector<float> scratch;  // grown once
  float* const all = grow(scratch, a.size());
  wide([&] { widen(a.data(), a.size(), all); });
  gemm_piece({.tb = transpose_, .m = a.dim(0), .n = n_, .k = k_}, {all, k_},
             {wide_, transpose_ == Transpose::kYes ? k_ : n_}, {c.data(), n_});
}

void Bf16Factor::multiply_columns(Matrix<const bf16> a, int64_t first, Matrix<float> c) const {
  const int64_t m = c.dim(0);
  HLITE_CHECK(a.dim(0) == k_ && first >= 0 && first + m <= a.dim(1),
              "columns [{},{}) of a {}, b [{},{}]", first, first + m, a.shape(), k_, n_);
  thread_local std::vector<bf16> scratch;  // grown once
  bf16* const turned = grow(scratch, m * k_);
  wide([&] { transpose({a.data() + first, a.dim(1)}, k_, m, {turned, k_}); });
  multiply({turned, m, k_}, c);
}

}  // namespace hlite::ops
