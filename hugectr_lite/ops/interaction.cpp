#include "hugectr_lite/ops/interaction.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/bf16_dot.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/interaction_dot.h"
#include "hugectr_lite/ops/lanes.h"
#include "hugectr_lite/ops/non_finite.h"

namespace hlite::ops {
namespace {

constexpr int64_t kTaskSamples = 32;
// The tiles below read whole groups of rows; entries past the last row point at a valid one.
constexpr int64_t kSpareRows = 8;
constexpr int64_t kMostLanes = 16;

int64_t pairs_below(int64_t c) { return c * (c - 1) / 2; }

// What one thread needs for one sample of T: its rows, copies of them in float and padded where T
// is another type or V no multiple of kMostLanes, and its pairs. Grown once a thread.
template <typename T>
class Sample {
 public:
  Sample(int64_t slots, int64_t width)
      : slots_(slots), width_(width), padded_((width + kMostLanes - 1) / kMostLanes * kMostLanes) {
    const int64_t rows = slots + 1;
    inputs_.resize(static_cast<size_t>(rows + kSpareRows));
    outputs_.resize(static_cast<size_t>(rows));
    zeros_.resize(static_cast<size_t>(width));
    rounded_.resize(static_cast<size_t>(width));
    pairs_.resize(static_cast<size_t>(pairs_below(rows + 1) + rows + kMostLanes));
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
  // A row of a table, or zeros for none, rounded to T and, unless null, kept as well.
  const T* rounded(const float* row, T* kept) {
    const float* const from = row ? row : zeros_.data();
    if (kept) narrow(from, width_, kept);
    if constexpr (!kCopies) return from;
    if (!kept) narrow(from, width_, kept = rounded_.data());
    return kept;
  }
  // The part of dout that goes to the bottom vector as it is, and the pairs behind it.
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
  std::vector<float> pairs_, zeros_, in_copy_, out_copy_, verbatim_;
  std::vector<T> rounded_;
};

// This thread's, of a sample of those sizes.
template <typename Workspace>
Workspace& sample_workspace(int64_t slots, int64_t width) {
  thread_local Workspace sample(slots, width);
  if (!sample.fits(slots, width)) sample = Workspace(slots, width);
  return sample;
}

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
// downward, so those are written properly afterwards. `pairs` has room for the last rows' excess.
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

template <typename T>
void check_shapes(Matrix<const T> bottom, View<const T, 3> slots, int64_t out_rows,
                  int64_t out_width, const char* op) {
  const int64_t batch = bottom.dim(0), width = bottom.dim(1), n = slots.dim(1);
  HLITE_CHECK(slots.dim(0) == batch && slots.dim(2) == width && width >= 1,
              "{}: bottom {}, slots {}", op, bottom.shape(), slots.shape());
  HLITE_CHECK(out_rows == batch && out_width == interaction_width(n, width),
              "{}: output side [{},{}], expected [{},{}]", op, out_rows, out_width, batch,
              interaction_width(n, width));
}

// Calls body.template operator()<kLanes>(sample index, workspace) for every sample of the batch.
template <typename T, typename Body>
void for_each_sample(ThreadPool& threads, int64_t batch, int64_t slots, int64_t width, Body body) {
  threads.run((batch + kTaskSamples - 1) / kTaskSamples, [&](int64_t task, int) {
    auto& sample = sample_workspace<Sample<T>>(slots, width);
    const int64_t end = std::min(batch, (task + 1) * kTaskSamples);
    wide([&]<int kLanes>() {
      for (int64_t b = task * kTaskSamples; b < end; ++b)
        body.template operator()<kLanes>(b, sample);
    });
  });
}

// Calls body(sample index, workspace) for every sample, if that is how T is multiplied here.
template <typename T, typename Body>
bool dots_each_sample(ThreadPool& threads, int64_t batch, int64_t slots, int64_t width,
                      const Body& body) {
  if constexpr (std::is_same_v<T, bf16>) {
    if (!has_bf16_dot()) return false;
    threads.run((batch + kTaskSamples - 1) / kTaskSamples, [&](int64_t task, int) {
      auto& sample = sample_workspace<DotSample>(slots + 1, width);
      const int64_t end = std::min(batch, (task + 1) * kTaskSamples);
      for (int64_t b = task * kTaskSamples; b < end; ++b) body(b, sample);
    });
    return true;
  }
  return false;
}

template <int kLanes, typename T>
void write_row(const T* bottom, Sample<T>& sample, int64_t width, T* row) {
  // Of short rows the sums across lanes are the work: they are fewer in shorter registers.
  if (sample.padded_width() <= 2 * kMostLanes)
    dot_pairs<8>(sample.inputs(), sample.rows(), sample.padded_width(), sample.pairs());
  else
    dot_pairs<kLanes>(sample.inputs(), sample.rows(), sample.padded_width(), sample.pairs());
  const int64_t pairs = pairs_below(sample.rows());
  std::copy_n(bottom, width, row);
  narrow(sample.pairs(), pairs, row + width);
  row[width + pairs] = T{};
}

template <typename T>
void forward_on_cpu(const Exec& exec, Matrix<const T> bottom, View<const T, 3> slots,
                    Matrix<T> out) {
  const int64_t width = bottom.dim(1), n = slots.dim(1);
  ThreadPool& threads = cpu_threads(exec, "interaction_forward");
  if (dots_each_sample<T>(threads, bottom.dim(0), n, width, [&](int64_t b, auto& sample) {
        std::copy_n(bottom.row(b), width, sample.input(0));
        sample.set_slots(slots.row(b));
        sample.forward(out.row(b));
      }))
    return;
  for_each_sample<T>(
      threads, bottom.dim(0), n, width, [&]<int kLanes>(int64_t b, Sample<T>& sample) {
        sample.set_inputs(bottom.row(b), [&](int64_t s) { return slots.row(b) + s * width; });
        write_row<kLanes>(bottom.row(b), sample, width, out.row(b));
      });
}

template <typename T>
void gather_on_cpu(const Exec& exec, Matrix<const T> bottom, const OneHotRows& rows, Matrix<T> out,
                   View<T, 3> kept) {
  const int64_t width = bottom.dim(1), n = rows.offset.dim(0);
  ThreadPool& threads = cpu_threads(exec, "interaction_forward_gather");
  if (dots_each_sample<T>(threads, bottom.dim(0), n, width, [&](int64_t b, auto& sample) {
        std::copy_n(bottom.row(b), width, sample.input(0));
        wide([&] {
          for (int64_t s = 0; s < n; ++s)
            if (const float* const row = rows.row(b, s))
              narrow(row, width, sample.input(s + 1));
            else
              std::fill_n(sample.input(s + 1), width, T{});
        });
        if (kept.data()) sample.slots_to(kept.row(b));
        sample.forward(out.row(b));
      }))
    return;
  for_each_sample<T>(threads, bottom.dim(0), n, width,
                     [&]<int kLanes>(int64_t b, Sample<T>& sample) {
                       sample.set_inputs(bottom.row(b), [&](int64_t s) {
                         T* const to = kept.data() ? kept.row(b) + s * width : nullptr;
                         return sample.rounded(rows.row(b, s), to);
                       });
                       write_row<kLanes>(bottom.row(b), sample, width, out.row(b));
                     });
}

template <typename T>
void backward_on_cpu(const Exec& exec, Matrix<const T> bottom, View<const T, 3> slots,
                     Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots) {
  const int64_t width = bottom.dim(1), n = slots.dim(1);
  ThreadPool& threads = cpu_threads(exec, "interaction_backward");
  if (dots_each_sample<T>(threads, bottom.dim(0), n, width, [&](int64_t b, auto& sample) {
        std::copy_n(bottom.row(b), width, sample.input(0));
        sample.set_slots(slots.row(b));
        sample.backward(dout.row(b), dbottom.row(b), dslots.row(b));
      }))
    return;
  const auto one_sample = [&]<int kLanes>(int64_t b, Sample<T>& sample) {
    sample.set_inputs(bottom.row(b), [&](int64_t s) { return slots.row(b) + s * width; });
    sample.set_outputs(dbottom.row(b), dslots.row(b));
    const float* const verbatim = sample.verbatim(dout.row(b));
    const float* const pairs = sample.pair_gradients(dout.row(b));
    const int64_t rows = sample.rows(), end = sample.padded_width();
    // As many accumulators as the registers hold beside the operands.
    constexpr int kFew = kLanes == 16 ? 9 : 6, kMany = kLanes == 16 ? 6 : 3;
    int64_t at = 0;
    const auto columns = [&]<int kRows, int kVectors>() {
      gradient_columns<kLanes, kRows, kVectors>(sample.inputs(), pairs, rows, end, verbatim,
                                                sample.outputs(), at);
    };
    columns.template operator()<kMany, 4>();
    columns.template operator()<kFew, 2>();
    columns.template operator()<kFew, 1>();
    sample.copy_outputs(dbottom.row(b), dslots.row(b));
  };
  for_each_sample<T>(threads, bottom.dim(0), n, width, one_sample);
}

}  // namespace

template <typename T>
void interaction_forward(const Exec& exec, Matrix<const std::type_identity_t<T>> bottom,
                         View<const std::type_identity_t<T>, 3> slots,
                         Matrix<std::type_identity_t<T>> out) {
  check_shapes(bottom, slots, out.dim(0), out.dim(1), "interaction_forward");
  if (exec.on_gpu()) return kernels::interaction_forward<T>(exec, bottom, slots, out, {});
  if constexpr (kOnCpu<T>)
    forward_on_cpu<T>(exec, bottom, slots, out);
  else
    needs_gpu("interaction_forward");
}

template <typename T>
void interaction_forward_gather(const Exec& exec, Matrix<const std::type_identity_t<T>> bottom,
                                const OneHotRows& rows, Matrix<std::type_identity_t<T>> out,
                                View<std::type_identity_t<T>, 3> slots) {
  const int64_t n = rows.offset.dim(0);
  check_shapes<T>(bottom, {slots.data(), bottom.dim(0), n, bottom.dim(1)}, out.dim(0), out.dim(1),
                  "interaction_forward_gather");
  HLITE_CHECK(rows.table.dim(1) == bottom.dim(1) && rows.keys.dim(0) == bottom.dim(0) &&
                  rows.keys.dim(1) == n,
              "interaction_forward_gather: bottom {}, table {}, offsets {}, keys {}",
              bottom.shape(), rows.table.shape(), rows.offset.shape(), rows.keys.shape());
  HLITE_CHECK(!slots.data() || (slots.dim(0) == bottom.dim(0) && slots.dim(1) == n &&
                                slots.dim(2) == bottom.dim(1)),
              "interaction_forward_gather: bottom {}, {} offsets, slots {}", bottom.shape(), n,
              slots.shape());
  if (exec.on_gpu())
    return kernels::interaction_forward_gather<T>(exec, bottom, rows, out, slots, {});
  if constexpr (kOnCpu<T>)
    gather_on_cpu<T>(exec, bottom, rows, out, slots);
  else
    needs_gpu("interaction_forward_gather");
}

template <typename T>
void interaction_backward(const Exec& exec, Matrix<const std::type_identity_t<T>> bottom,
                          View<const std::type_identity_t<T>, 3> slots,
                          Matrix<const std::type_identity_t<T>> dout,
                          Matrix<std::type_identity_t<T>> dbottom,
                          View<std::type_identity_t<T>, 3> dslots, int32_t* overflow) {
  check_shapes(bottom, slots, dout.dim(0), dout.dim(1), "interaction_backward");
  HLITE_CHECK(dbottom.dim(0) == bottom.dim(0) && dbottom.dim(1) == bottom.dim(1),
              "dbottom {}, bottom {}", dbottom.shape(), bottom.shape());
  HLITE_CHECK(dslots.dim(0) == slots.dim(0) && dslots.dim(1) == slots.dim(1) &&
                  dslots.dim(2) == slots.dim(2),
              "dslots {}, slots {}", dslots.shape(), slots.shape());
  if (exec.on_gpu())
    return kernels::interaction_backward<T>(exec, bottom, slots, dout, dbottom, dslots, overflow,
                                            {});
  if constexpr (kOnCpu<T>)
    backward_on_cpu<T>(exec, bottom, slots, dout, dbottom, dslots);
  else
    needs_gpu("interaction_backward");
  if (overflow) flag_non_finite<T>(exec, Vector<T>(dslots.data(), dslots.size()), overflow);
}

#define HLITE_INSTANTIATE(T)                                                                       \
  template void interaction_forward<T>(const Exec&, Matrix<const T>, View<const T, 3>, Matrix<T>); \
  template void interaction_forward_gather<T>(const Exec&, Matrix<const T>, const OneHotRows&,     \
                                              Matrix<T>, View<T, 3>);                              \
  template void interaction_backward<T>(const Exec&, Matrix<const T>, View<const T, 3>,            \
                                        Matrix<const T>, Matrix<T>, View<T, 3>, int32_t*);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops
