#include "hugectr_lite/ops/interaction.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/bf16_dot.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/ops/interaction_dot.h"
#include "hugectr_lite/ops/interaction_loops.h"
#include "hugectr_lite/ops/non_finite.h"

namespace hlite::ops {
namespace {

constexpr int64_t kTaskSamples = 32;

// This thread's, of a sample of those sizes.
template <typename Workspace>
Workspace& sample_workspace(int64_t slots, int64_t width) {
  thread_local Workspace sample(slots, width);
  if (!sample.fits(slots, width)) sample = Workspace(slots, width);
  return sample;
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
    auto& sample = sample_workspace<FloatSample<T>>(slots, width);
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
void write_row(const T* bottom, FloatSample<T>& sample, int64_t width, T* row) {
  // The sums across lanes are the work of short rows: they are fewer in shorter registers.
  if (sample.padded_width() <= 2 * kMaxLanes)
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
      threads, bottom.dim(0), n, width, [&]<int kLanes>(int64_t b, FloatSample<T>& sample) {
        sample.set_inputs(bottom.row(b), [&](int64_t s) { return slots.row(b) + s * width; });
        write_row<kLanes>(bottom.row(b), sample, width, out.row(b));
      });
}

template <typename T>
void backward_on_cpu(const Exec& exec, Matrix<const T> bottom, View<const T, 3> slots,
                     Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots) {
  const int64_t width = bottom.dim(1), n = slots.dim(1);
  ThreadPool& threads = cpu_threads(exec, "interaction_backward");
  // The width below which spreading the pairs' gradients over a square is more work than it saves.
  constexpr int64_t kNarrow = 16;
  if (width > kNarrow &&
      dots_each_sample<T>(threads, bottom.dim(0), n, width, [&](int64_t b, auto& sample) {
        std::copy_n(bottom.row(b), width, sample.input(0));
        sample.set_slots(slots.row(b));
        sample.backward(dout.row(b), dbottom.row(b), dslots.row(b));
      }))
    return;
  const auto one_sample = [&]<int kLanes>(int64_t b, FloatSample<T>& sample) {
    sample.set_inputs(bottom.row(b), [&](int64_t s) { return slots.row(b) + s * width; });
    sample.set_outputs(dbottom.row(b), dslots.row(b));
    const float* const verbatim = sample.verbatim(dout.row(b));
    const float* const pairs = sample.pair_gradients(dout.row(b));
    const int64_t rows = sample.rows(), end = sample.padded_width();
    // The number of accumulators that the registers hold in addition to the operands.
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
void interaction_forward(const Exec& exec, MatrixOf<const T> bottom, ViewOf<const T, 3> slots,
                         MatrixOf<T> out) {
  check_shapes(bottom, slots, out.dim(0), out.dim(1), "interaction_forward");
  if (exec.on_gpu()) return kernels::interaction_forward<T>(exec, bottom, slots, out, {});
  if constexpr (kOnCpu<T>)
    forward_on_cpu<T>(exec, bottom, slots, out);
  else
    needs_gpu("interaction_forward");
}

// Of MLPerf's DLRM, 65,536 samples on an H200, lookup, bottom network and interaction take 178, 94
// and 130 us, and lookup and interaction in one 190 to 215. So in one they gain, even if the lookup
// hid all of the bottom network; and it does not: all overlap of all lanes saves 77 us of the
// iteration. What they save, a read of the slots, shrinks with the batch, but the bottom network's
// launches do not, beside which the lookup of few samples is over: below 16,384 samples, 109 MB of
// slots, nothing is gained.
bool interaction_gains_by_rows(const cuda::Backend* gpu, int64_t bytes) {
  int64_t l2_bytes = int64_t{50} << 20;
  if (gpu && kernels::interaction_l2_bytes.is_in(*gpu))
    l2_bytes = kernels::interaction_l2_bytes({.device = Device::kCuda, .cuda = gpu});
  return bytes > 2 * l2_bytes;
}

template <typename T>
void interaction_forward_of_rows(const Exec& exec, MatrixOf<const T> bottom,
                                 const InteractionRows& rows, ViewOf<T, 3> slots, MatrixOf<T> out) {
  const char* const op = "interaction_forward_of_rows";
  check_shapes<T>(bottom, slots, out.dim(0), out.dim(1), op);
  const int64_t n = slots.dim(1), width = slots.dim(2), end = rows.first_column + n;
  HLITE_CHECK(rows.table.dim(1) == width && rows.numbers.dim(0) == slots.dim(0) &&
                  rows.first_column >= 0 && end <= rows.numbers.dim(1) &&
                  interaction_takes_rows(n, width),
              "{}: slots {}, rows {}, numbers {} from column {} on", op, slots.shape(),
              rows.table.shape(), rows.numbers.shape(), rows.first_column);
  if constexpr (std::is_same_v<T, float>)
    throw Error(std::string(op) + ": 16 bits only");
  else if (exec.on_gpu())
    kernels::interaction_forward_of_rows<T>(exec, bottom, rows, slots, out, {});
  else
    needs_gpu(op);
}

template <typename T>
void interaction_backward(const Exec& exec, MatrixOf<const T> bottom, ViewOf<const T, 3> slots,
                          MatrixOf<const T> dout, MatrixOf<T> dbottom, ViewOf<T, 3> dslots,
                          int32_t* gradient_overflow, bool relu) {
  check_shapes(bottom, slots, dout.dim(0), dout.dim(1), "interaction_backward");
  HLITE_CHECK(dbottom.dim(0) == bottom.dim(0) && dbottom.dim(1) == bottom.dim(1),
              "dbottom {}, bottom {}", dbottom.shape(), bottom.shape());
  HLITE_CHECK(dslots.dim(0) == slots.dim(0) && dslots.dim(1) == slots.dim(1) &&
                  dslots.dim(2) == slots.dim(2),
              "dslots {}, slots {}", dslots.shape(), slots.shape());
  if (exec.on_gpu())
    return kernels::interaction_backward<T>(exec, bottom, slots, dout, dbottom, dslots,
                                            gradient_overflow, relu, {});
  if constexpr (kOnCpu<T>) {
    backward_on_cpu<T>(exec, bottom, slots, dout, dbottom, dslots);
    if (relu) bias_relu_backward<T>(exec, bottom, dbottom, {});
  } else {
    needs_gpu("interaction_backward");
  }
  if (gradient_overflow)
    flag_non_finite<T>(exec, Vector<T>(dslots.data(), dslots.size()), gradient_overflow);
}

HLITE_INSTANTIATE_FLOATS(interaction_forward)
HLITE_INSTANTIATE_FLOATS(interaction_forward_of_rows)
HLITE_INSTANTIATE_FLOATS(interaction_backward)

}  // namespace hlite::ops
