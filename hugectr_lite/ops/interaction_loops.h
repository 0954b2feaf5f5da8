// DLRM's interaction (interaction.h) of one sample in float, register tile by register tile; for
// the bodies of wide().
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/ops/lanes.h"

namespace hlite::ops {

// The tiles below read whole groups of rows; entries past the last row point at a valid one.
constexpr int64_t kSpareRows = 8;
constexpr int64_t kMaxLanes = 16;

constexpr int64_t pairs_below(int64_t c) { return c * (c - 1) / 2; }

// Memory that one thread needs for one sample of T: its rows, copies of them in float and padded
// where T is another type or V no multiple of kMaxLanes, and its pairs. Grown once a thread.
template <typename T>
class FloatSample {
 public:
  FloatSample(int64_t slots, int64_t width)
      : slots_(slots), width_(width), padded_((width + kMaxLanes - 1) / kMaxLanes * kMaxLanes) {
    const int64_t rows = slots + 1;
    inputs_.resize(static_cast<size_t>(rows + kSpareRows));
    outputs_.resize(static_cast<size_t>(rows));
    pairs_.resize(static_cast<size_t>(pairs_below(rows + 1) + rows + kMaxLanes));
    if (is_copied()) {
      in_copy_.assign(static_cast<size_t>(rows * padded_), 0.0f);
      out_copy_.assign(static_cast<size_t>(rows * padded_), 0.0f);
      verbatim_.assign(static_cast<size_t>(padded_), 0.0f);
    }
  }
  [[nodiscard]] bool fits(int64_t slots, int64_t width) const {
    return slots == slots_ && width == width_;
  }
  [[nodiscard]] int64_t rows() const { return slots_ + 1; }
  [[nodiscard]] int64_t padded_width() const { return padded_; }
  [[nodiscard]] const float* const* inputs() const { return inputs_.data(); }
  [[nodiscard]] float* const* outputs() const { return outputs_.data(); }
  [[nodiscard]] float* pairs() { return pairs_.data(); }

  // slot(s) points to the vector of slot s.
  template <typename Slot>
  void set_inputs(const T* bottom, Slot slot) {
    for (int64_t r = 0; r < rows(); ++r) {
      const T* const row = r == 0 ? bottom : slot(r - 1);
      inputs_[static_cast<size_t>(r)] = in_float(row, in_copy_.data() + r * padded_);
    }
    std::fill(inputs_.end() - kSpareRows, inputs_.end(), inputs_[0]);
  }
  void set_outputs(T* dbottom, T* dslots) {
    for (int64_t r = 0; r < rows(); ++r) {
      float*& output = outputs_[static_cast<size_t>(r)];
      if constexpr (!kCopies) output = r == 0 ? dbottom : dslots + (r - 1) * width_;
      if (is_copied()) output = &out_copy_[static_cast<size_t>(r * padded_)];
    }
  }
  // The part of dout that goes to the bottom vector as it is, and the pairs after it.
  const float* verbatim(const T* dout) { return in_float(dout, verbatim_.data()); }
  const float* pair_gradients(const T* dout) {
    if constexpr (!kCopies) return dout + width_;
    widen(dout + width_, pairs_below(rows()), pairs_.data());
    return pairs_.data();
  }
  void copy_outputs(T* dbottom, T* dslots) const {
    if (!is_copied()) return;
    for (int64_t r = 0; r < rows(); ++r)
      narrow(outputs_[static_cast<size_t>(r)], width_,
             r == 0 ? dbottom : dslots + (r - 1) * width_);
  }

 private:
  static constexpr bool kCopies = !std::is_same_v<T, float>;
  [[nodiscard]] bool is_copied() const { return kCopies || padded_ != width_; }
  const float* in_float(const T* row, float* copy) const {
    if constexpr (!kCopies)
      if (!is_copied()) return row;
    widen(row, width_, copy);
    return copy;
  }

  int64_t slots_, width_, padded_;
  std::vector<const float*> inputs_;
  std::vector<float*> outputs_;
  std::vector<float> pairs_, in_copy_, out_copy_, verbatim_;
};

// Dot products of rows c, c + 1 with rows r ... r + 3: eight accumulators, two loads for three
// multiply-adds, and one tree of sums at the end.
template <int kLanes>
HLITE_INLINE Eight dot_tile(const float* const* inputs, int64_t width, int64_t r, int64_t c) {
  Lanes<kLanes> sums[8] = {};
  const float* const c0 = inputs[c];
  const float* const c1 = inputs[c + 1];
  const float* const r0 = inputs[r];
  const float* const r1 = inputs[r + 1];
  const float* const r2 = inputs[r + 2];
  const float* const r3 = inputs[r + 3];
  for (int64_t v = 0; v < width; v += kLanes) {
    const auto x0 = load<kLanes>(c0 + v), x1 = load<kLanes>(c1 + v);
    const auto y0 = load<kLanes>(r0 + v), y1 = load<kLanes>(r1 + v);
    const auto y2 = load<kLanes>(r2 + v), y3 = load<kLanes>(r3 + v);
    sums[0] += x0 * y0;
    sums[1] += x0 * y1;
    sums[2] += x0 * y2;
    sums[3] += x0 * y3;
    sums[4] += x1 * y0;
    sums[5] += x1 * y1;
    sums[6] += x1 * y2;
    sums[7] += x1 * y3;
  }
  return horizontal_sums(sums);
}

// pairs[c(c-1)/2 + r] for all r < c. A tile on the diagonal writes up to three entries past its
// row's end, into the next row's first entries: tiles run from the diagonal to the left and rows
// downward, so those are written properly afterwards. `pairs` is padded for the last rows' excess.
template <int kLanes>
void dot_pairs(const float* const* inputs, int64_t rows, int64_t width, float* pairs) {
  for (int64_t c = 0; c < rows; c += 2)
    for (int64_t r = c / 4 * 4; r >= 0; r -= 4) {
      const Eight tile = dot_tile<kLanes>(inputs, width, r, c);
      store(pairs + pairs_below(c) + r, __builtin_shufflevector(tile, tile, 0, 1, 2, 3));
      store(pairs + pairs_below(c + 1) + r, __builtin_shufflevector(tile, tile, 4, 5, 6, 7));
    }
}

// outputs[row + i][at ...] = sum over c of s[row + i][c] * inputs[c][at ...] for kRows rows and
// kVectors groups of lanes, with s read from the triangle of pairs; plus `verbatim` for row 0.
template <int kLanes, int kRows, int kVectors>
HLITE_INLINE void gradient_tile(const float* const* inputs, const float* pairs, int64_t rows,
                                int64_t row, int64_t at, const float* verbatim,
                                float* const* outputs) {
  Lanes<kLanes> sums[kRows][kVectors] = {};
  if (row == 0)
    for (int q = 0; q < kVectors; ++q) sums[0][q] = load<kLanes>(verbatim + at + q * kLanes);
  const float* triangle[kRows];
  for (int i = 0; i < kRows; ++i) triangle[i] = pairs + pairs_below(row + i);

  const auto add = [&](int64_t c, const float(&s)[kRows]) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) {
      const auto x = load<kLanes>(inputs[c] + at + q * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) sums[i][q] += s[i] * x;
    }
  };
  float s[kRows];
  for (int64_t c = 0; c < row; ++c) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) s[i] = triangle[i][c];
    add(c, s);
  }
  for (int d = 0; d < kRows; ++d) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
      s[i] = i == d ? 0.0f : i > d ? triangle[i][row + d] : triangle[d][row + i];
    add(row + d, s);
  }
  for (int64_t c = row + kRows; c < rows; ++c) {
    const float* const from = pairs + pairs_below(c) + row;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) s[i] = from[i];
    add(c, s);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) store(outputs[row + i] + at + q * kLanes, sums[i][q]);
}

// All rows of columns from `at` on, kVectors * kLanes at a time as far as they go. The last tile
// moves up to end with the last row, computing some rows twice.
template <int kLanes, int kRows, int kVectors>
HLITE_INLINE void gradient_columns(const float* const* inputs, const float* pairs, int64_t rows,
                                   int64_t width, const float* verbatim, float* const* outputs,
                                   int64_t& at) {
  for (; at + kVectors * kLanes <= width; at += kVectors * kLanes) {
    if (rows < kRows)
      for (int64_t row = 0; row < rows; ++row)
        gradient_tile<kLanes, 1, kVectors>(inputs, pairs, rows, row, at, verbatim, outputs);
    else
      for (int64_t row = 0; row < rows; row += kRows)
        gradient_tile<kLanes, kRows, kVectors>(inputs, pairs, rows, std::min(row, rows - kRows), at,
                                               verbatim, outputs);
  }
}

}  // namespace hlite::ops
