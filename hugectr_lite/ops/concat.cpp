#include "hugectr_lite/ops/concat.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

template <typename T>
using Blocks = std::span<const ColumnBlock<T>>;

template <typename T>
bool overlap(const ColumnBlock<T>& a, const ColumnBlock<T>& b) {
  return a.to_begin < b.to_begin + b.columns && b.to_begin < a.to_begin + a.columns;
}

// Returns true if no block before `block` has written to its columns, so that it may overwrite.
template <typename T>
bool comes_first(Blocks<T> blocks, const ColumnBlock<T>& block) {
  return std::none_of(blocks.data(), &block,
                      [&](const ColumnBlock<T>& before) { return overlap(before, block); });
}

// Rows [begin, begin + out.dim(0)) of the blocks; S: T, or float where sums are rounded later.
template <typename T, typename S>
void concat_rows(Blocks<T> blocks, int64_t begin, Matrix<S> out) {
  int64_t covered = 0;  // by blocks that do not meet, so not more than there are columns
  for (const auto& block : blocks) covered += comes_first(blocks, block) ? block.columns : 0;
  if (covered < out.dim(1)) std::fill_n(out.data(), out.size(), S{});
  for (const auto& block : blocks) {
    const bool first = comes_first(blocks, block);
    for (int64_t i = 0; i < out.dim(0); ++i) {
      const T* const from = block.from.row(begin + i) + block.from_begin;
      S* const to = out.row(i) + block.to_begin;
      if constexpr (std::is_same_v<S, float>) {
        if (first)
          widen(from, block.columns, to);
        else
          add_row(from, block.columns, to);
      } else {
        std::copy_n(from, block.columns, to);  // no two blocks meet
      }
    }
  }
}

template <typename T>
void concat_on_cpu(const Exec& exec, Blocks<T> blocks, Matrix<T> out) {
  constexpr int64_t kGrain = 1 << 14;  // elements worth waking a thread for
  constexpr int64_t kChunk = 1 << 14;  // elements that stay in L2 while the blocks pass by
  ThreadPool& threads = cpu_threads(exec, "concat_columns");
  if (out.dim(1) == 0) return;
  const int64_t chunk = kChunk / out.dim(1) + 1;
  const bool adds = std::any_of(blocks.begin(), blocks.end(),
                                [&](const auto& block) { return !comes_first(blocks, block); });
  threads.parallel_for(out.dim(0), kGrain / out.dim(1) + 1, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += chunk) {
      const Matrix<T> rows = out.rows(begin, std::min(end, begin + chunk));
      if (std::is_same_v<T, float> || !adds) {
        wide([&] { concat_rows(blocks, begin, rows); });
        continue;
      }
      thread_local std::vector<float> sums;  // grown once
      if (std::ssize(sums) < rows.size()) sums.resize(static_cast<size_t>(rows.size()));
      wide([&] {
        concat_rows(blocks, begin, Matrix<float>(sums.data(), rows.dim(0), rows.dim(1)));
        narrow(sums.data(), rows.size(), rows.data());
      });
    }
  });
}

}  // namespace

template <typename T>
void concat_columns(const Exec& exec, std::span<const ColumnBlock<std::type_identity_t<T>>> blocks,
                    MatrixOf<T> out) {
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
  if constexpr (kOnCpu<T>)
    concat_on_cpu<T>(exec, blocks, out);
  else
    needs_gpu("concat_columns");
}

HLITE_INSTANTIATE_FLOATS(concat_columns)

}  // namespace hlite::ops
