#include "hugectr_lite/ops/concat.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

using Columns = ColumnBlock<float>;
using Blocks = std::span<const Columns>;

bool meet(const Columns& a, const Columns& b) {
  return a.to_begin < b.to_begin + b.columns && b.to_begin < a.to_begin + a.columns;
}

// Whether no block before `block` has written to its columns, so that it may overwrite.
bool comes_first(Blocks blocks, const Columns& block) {
  return std::none_of(blocks.data(), &block,
                      [&](const Columns& before) { return meet(before, block); });
}

void concat_rows(Blocks blocks, Matrix<float> out, int64_t begin, int64_t end) {
  int64_t covered = 0;  // by blocks that do not meet, so not more than there are columns
  for (const Columns& block : blocks) covered += comes_first(blocks, block) ? block.columns : 0;
  if (covered < out.dim(1)) std::fill(out.row(begin), out.row(end), 0.0f);
  for (const Columns& block : blocks) {
    const bool first = comes_first(blocks, block);
    for (int64_t i = begin; i < end; ++i) {
      const float* const from = block.from.row(i) + block.from_begin;
      float* const to = out.row(i) + block.to_begin;
      if (first)
        std::copy_n(from, block.columns, to);
      else
        for (int64_t j = 0; j < block.columns; ++j) to[j] += from[j];
    }
  }
}

void concat_on_cpu(const Exec& exec, Blocks blocks, Matrix<float> out) {
  constexpr int64_t kGrain = 1 << 14;  // elements worth waking a thread for
  constexpr int64_t kChunk = 1 << 14;  // elements that stay in L2 while the blocks pass by
  ThreadPool& threads = cpu_threads(exec, "concat_columns");
  if (out.dim(1) == 0) return;
  const int64_t chunk = kChunk / out.dim(1) + 1;
  threads.parallel_for(out.dim(0), kGrain / out.dim(1) + 1, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += chunk)
      concat_rows(blocks, out, begin, std::min(end, begin + chunk));
  });
}

}  // namespace

template <typename T>
void concat_columns(const Exec& exec, std::span<const ColumnBlock<std::type_identity_t<T>>> blocks,
                    Matrix<std::type_identity_t<T>> out) {
  for (const ColumnBlock<T>& b : blocks) {
    HLITE_CHECK(b.from.dim(0) == out.dim(0), "concat_columns: from {}, to {}", b.from.shape(),
                out.shape());
    HLITE_CHECK(b.columns >= 0 && b.from_begin >= 0 && b.from_begin + b.columns <= b.from.dim(1),
                "concat_columns: columns [{}, {}) of from {}", b.from_begin,
                b.from_begin + b.columns, b.from.shape());
    HLITE_CHECK(b.to_begin >= 0 && b.to_begin + b.columns <= out.dim(1),
                "concat_columns: columns [{}, {}) of to {}", b.to_begin, b.to_begin + b.columns,
                out.shape());
  }
  if (exec.on_gpu()) return kernels::concat_columns<T>(exec, blocks, out);
  if constexpr (std::is_same_v<T, float>)
    concat_on_cpu(exec, blocks, out);
  else
    needs_gpu("concat_columns");
}

#define HLITE_INSTANTIATE(T) \
  template void concat_columns<T>(const Exec&, std::span<const ColumnBlock<T>>, Matrix<T>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops
