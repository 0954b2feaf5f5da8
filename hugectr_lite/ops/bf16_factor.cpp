#include "hugectr_lite/ops/bf16_factor.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/bf16_dot.h"
#include "hugectr_lite/ops/bf16_panels.h"
#include "hugectr_lite/ops/bf16_piece.h"
#include "hugectr_lite/ops/gemm_piece.h"
#include "hugectr_lite/ops/row_product.h"
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

Bf16Pair* panel_memory(int64_t pairs) {
  thread_local HostMemory memory;  // grown once
  const auto bytes = static_cast<size_t>(pairs) * sizeof(Bf16Pair);
  if (memory.size() < bytes) memory = HostMemory(bytes, "packed weights");
  return reinterpret_cast<Bf16Pair*>(memory.data());
}

// Packs a factor of `blocks` blocks a panel.
void pack_as_it_is(ThreadPool& threads, Matrix<const bf16> b, int64_t blocks, Bf16Pair* to) {
  threads.run(blocks, [&](int64_t block, int) {
    wide([&] {
      pack_rows(b, block * kPanelRows, blocks * kPanelBlockPairs, to + block * kPanelBlockPairs);
    });
  });
}

void pack_transpose(ThreadPool& threads, Matrix<const bf16> b, int64_t blocks, Bf16Pair* to) {
  constexpr int64_t kBlocksOfATask = 16;
  const int64_t n = b.dim(0), parts = (blocks + kBlocksOfATask - 1) / kBlocksOfATask;
  threads.run(panels(n) * parts, [&](int64_t task, int) {
    const int64_t panel = task / parts, column = panel * kPanelColumns;
    const int64_t columns = std::min(n - column, kPanelColumns);
    const int64_t first = task % parts * kBlocksOfATask;
    wide([&] {
      for (int64_t block = first; block < std::min(blocks, first + kBlocksOfATask); ++block)
        pack_turned(b, block * kPanelRows, column, columns,
                    to + (panel * blocks + block) * kPanelBlockPairs);
    });
  });
}

const bf16* packed(ThreadPool& threads, Transpose transpose, Matrix<const bf16> b, int64_t k,
                   int64_t n) {
  const int64_t blocks = in_panel_rows(k) / kPanelRows;  // of a panel
  Bf16Pair* const to = panel_memory(panels(n) * blocks * kPanelBlockPairs);
  (transpose == Transpose::kYes ? pack_transpose : pack_as_it_is)(threads, b, blocks, to);
  return reinterpret_cast<const bf16*>(to);
}

// Widens into memory of this thread, grown once.
const float* widened_rows(Matrix<const bf16> a) {
  thread_local std::vector<float> scratch;
  float* const all = grow(scratch, a.size());
  wide([&] { widen(a.data(), a.size(), all); });
  return all;
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

// True if the product takes no multiplications; c is then written.
bool Bf16Factor::is_empty(Matrix<const bf16> a, Matrix<float> c) const {
  HLITE_CHECK(a.dim(0) == c.dim(0) && a.dim(1) == k_ && c.dim(1) == n_, "a {}, b [{},{}], c {}",
              a.shape(), k_, n_, c.shape());
  if (k_ == 0) std::fill_n(c.data(), c.size(), 0.0f);
  return c.size() == 0 || k_ == 0;
}

void Bf16Factor::multiply_rows(Matrix<const bf16> a, Matrix<float> c) const {
  HLITE_CHECK(transpose_ == Transpose::kNo, "a factor as it lies");
  if (is_empty(a, c)) return;
  if (panels_)
    return (has_bf16_dot() ? bf16_dot_piece : bf16_piece)({a.dim(0), n_, k_}, a.data(), panels_,
                                                          c.data());
  const float* const all = widened_rows(a);
  row_product(a.dim(0), n_, k_, {all, k_}, {wide_, n_}, {c.data(), n_});
}

void Bf16Factor::multiply(Matrix<const bf16> a, Matrix<float> c) const {
  if (is_empty(a, c)) return;
  if (panels_) return bf16_piece({a.dim(0), n_, k_}, a.data(), panels_, c.data());
  const float* const all = widened_rows(a);
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
