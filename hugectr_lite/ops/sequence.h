// Histories (valid_rows.h): their masks, and rows that move between them. T: float, bf16, or on a
// GPU fp16. Lengths are [B] floats.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/ops/valid_rows.h"

namespace hlite::ops {

// mask[b,i,j] = 1 where i < from[b] and j < to[b], and with `causal` j <= i; else 0.
template <typename T = float>
void sequence_mask(const Exec& exec, Vector<const float> from, Vector<const float> to, bool causal,
                   ViewOf<T, 3> mask);

// after = before (null: 0) + the number of valid rows (of n); all [B].
void count_rows(const Exec& exec, Vector<const float> before, Vector<const float> lengths,
                int64_t n, Vector<float> after);

// Which rows of `to` [B,m,W] come from which of `from` [B,n,W]; the others become zeros.
struct RowMove {
  enum class Kind {
    kValid,       // the valid ones to the same place
    kLatest,      // the last m valid ones to the end
    kFromLatest,  // back: the last n valid ones come from the end
    kJoin,        // to places [begin, end)
    kFromJoin,    // back: from there
    kSame         // those of a history that both have, as they are packed
  };
  Kind kind = Kind::kValid;
  Vector<const float> lengths = {}, begin = {}, end = {};  // begin null: 0
  // Of kJoin: the rows before `begin`, and those from `end` on unless it is the last, stay.
  bool is_last = false;
  // On the CPU, where `from` and `to` are packed: then n and m are what a sample may have.
  PackedRows from_rows = {}, to_rows = {};
};
// Of kValid, `to` may be `from`.
template <typename T = float>
void move_rows(const Exec& exec, const RowMove& how, ViewOf<const T, 3> from, ViewOf<T, 3> to);

// y[b,i] = x[b,i] + weight[i] for valid rows, or with `from_end` weight[len - 1 - i]; else 0. x, y
// [B,n,W], both packed by `rows` on the CPU; weight [n,W]. y may be x.
template <typename T = float>
void add_positions(const Exec& exec, ViewOf<const T, 3> x, Vector<const float> lengths,
                   bool from_end, MatrixOf<const T> weight, ViewOf<T, 3> y,
                   const PackedRows& rows = {});
// dweight <- the sums of dy over the samples, in double, in an order that follows from the shape
// alone. On a GPU `workspace` has positions_workspace() floats.
template <typename T = float>
void position_gradients(const Exec& exec, ViewOf<const T, 3> dy, Vector<const float> lengths,
                        bool from_end, Vector<float> workspace, Matrix<float> dweight,
                        const PackedRows& rows = {});

// Samples are cut into so many parts, where the weights are few.
constexpr int64_t position_parts(int64_t weights) {
  const int64_t parts = (int64_t{1} << 16) / (weights + 1);
  return parts < 1 ? 1 : parts > 32 ? 32 : parts;
}
constexpr int64_t positions_workspace(int64_t weights) {
  return position_parts(weights) > 1 ? position_parts(weights) * weights : 0;
}

namespace sequence {

// Rows [first, last) come from row `from` on.
struct Window {
  int64_t first = 0, last = 0, from = 0;
};
HLITE_HD inline Window window_of(const RowMove& how, int64_t sample, int64_t n, int64_t m) {
  using Kind = RowMove::Kind;
  const auto at = [&](const Vector<const float>& v) {
    return v.data() ? static_cast<int64_t>(v.data()[sample]) : 0;
  };
  if (how.kind == Kind::kJoin) return {at(how.begin), at(how.end), 0};
  if (how.kind == Kind::kFromJoin) return {0, at(how.end) - at(how.begin), at(how.begin)};
  if (how.kind == Kind::kSame) {
    const int64_t apart = how.from_rows.first(sample) - how.to_rows.first(sample);
    const int64_t end = n + apart < m ? n + apart : m;
    return apart > 0 ? Window{apart, end, 0} : Window{0, end, -apart};
  }
  const bool back = how.kind == Kind::kFromLatest;
  const int64_t all = back ? m : n, count = back ? n : m;
  const int64_t valid = valid_rows(how.lengths, sample, all);
  if (how.kind == Kind::kValid) return {0, valid, 0};
  const int64_t skipped = valid > count ? valid - count : 0;
  const int64_t missing = valid < count ? count - valid : 0;
  if (back) return {skipped, valid, missing};
  return {missing, count, skipped};
}

// Row i of a history of `valid` rows is at this position.
HLITE_HD inline int64_t position_of(int64_t i, int64_t valid, bool from_end) {
  return from_end ? valid - 1 - i : i;
}

}  // namespace sequence

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::sequence_mask<T>)> sequence_mask{"sequence_mask"};
inline const KernelOf<decltype(ops::count_rows)> count_rows{"count_rows"};
template <typename T>
inline const KernelOf<decltype(ops::move_rows<T>)> move_rows{"move_rows"};
template <typename T>
inline const KernelOf<decltype(ops::add_positions<T>)> add_positions{"add_positions"};
template <typename T>
inline const KernelOf<decltype(ops::position_gradients<T>)> position_gradients{
    "position_gradients"};
}  // namespace kernels

}  // namespace hlite::ops
