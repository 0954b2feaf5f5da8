#include "hugectr_lite/ops/sequence.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

void check_lengths(const char* op, const Vector<const float>& lengths, int64_t batch) {
  HLITE_CHECK(!lengths.data() || lengths.dim(0) == batch, "{}: {} samples, lengths {}", op, batch,
              lengths.shape());
}

// Samples of `operations` each for the threads; body(sample).
template <typename T, typename Body>
void for_each_sample(const Exec& exec, const char* op, int64_t batch, int64_t operations,
                     const Body& body) {
  wide_for<T>(exec, op, batch, kElementGrain / (operations + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t sample = begin; sample < end; ++sample) body(sample);
              });
}

}  // namespace

template <typename T>
void sequence_mask(const Exec& exec, Vector<const float> from, Vector<const float> to, bool causal,
                   ViewOf<T, 3> mask) {
  constexpr const char* kName = "sequence_mask";
  check_lengths(kName, from, mask.dim(0));
  check_lengths(kName, to, mask.dim(0));
  if (exec.on_gpu()) return kernels::sequence_mask<T>(exec, from, to, causal, mask);
  const int64_t rows = mask.dim(1), columns = mask.dim(2);
  for_each_sample<T>(exec, kName, mask.dim(0), rows * columns, [&](int64_t sample) {
    const int64_t i_end = valid_rows(from, sample, rows), j_end = valid_rows(to, sample, columns);
    T* const out = mask.row(sample);
    std::fill_n(out, rows * columns, from_float<T>(0));
    for (int64_t i = 0; i < i_end; ++i)
      std::fill_n(out + i * columns, causal ? std::min(i + 1, j_end) : j_end, from_float<T>(1));
  });
}

void count_rows(const Exec& exec, Vector<const float> before, Vector<const float> lengths,
                int64_t n, Vector<float> after) {
  check_lengths("count_rows", before, after.dim(0));
  check_lengths("count_rows", lengths, after.dim(0));
  if (exec.on_gpu()) return kernels::count_rows(exec, before, lengths, n, after);
  for (int64_t b = 0; b < after.dim(0); ++b)
    after.data()[b] =
        (before.data() ? before.data()[b] : 0.0f) + static_cast<float>(valid_rows(lengths, b, n));
}

template <typename T>
void move_rows(const Exec& exec, const RowMove& how, ViewOf<const T, 3> from, ViewOf<T, 3> to) {
  constexpr const char* kName = "move_rows";
  HLITE_CHECK(from.dim(0) == to.dim(0) && from.dim(2) == to.dim(2), "{}: {} to {}", kName,
              from.shape(), to.shape());
  for (const Vector<const float>& of : {how.lengths, how.begin, how.end})
    check_lengths(kName, of, to.dim(0));
  if (exec.on_gpu()) return kernels::move_rows<T>(exec, how, from, to);
  const int64_t n = from.dim(1), m = to.dim(1), width = to.dim(2);
  const bool joins = how.kind == RowMove::Kind::kJoin;
  for_each_sample<T>(exec, kName, to.dim(0), m * width, [&](int64_t sample) {
    const int64_t rows = how.to_rows.count(sample, m);
    const sequence::Window w =
        sequence::window_of(how, sample, how.from_rows.count(sample, n), rows);
    T* const out = to.data() + how.to_rows.begin(sample, m) * width;
    if (!joins) std::fill_n(out, w.first * width, from_float<T>(0));
    std::copy_n(from.data() + (how.from_rows.begin(sample, n) + w.from) * width,
                (w.last - w.first) * width, out + w.first * width);
    if (!joins || how.is_last)
      std::fill(out + w.last * width, out + rows * width, from_float<T>(0));
  });
}

template <typename T>
static void check_positions(const char* op, const View<const T, 3>& x,
                            const Vector<const float>& lengths, int64_t rows, int64_t columns) {
  HLITE_CHECK(x.dim(1) == rows && x.dim(2) == columns, "{}: {}, weight [{},{}]", op, x.shape(),
              rows, columns);
  check_lengths(op, lengths, x.dim(0));
}

template <typename T>
void add_positions(const Exec& exec, ViewOf<const T, 3> x, Vector<const float> lengths,
                   bool from_end, MatrixOf<const T> weight, ViewOf<T, 3> y,
                   const PackedRows& rows) {
  constexpr const char* kName = "add_positions";
  check_positions<T>(kName, x, lengths, weight.dim(0), weight.dim(1));
  check_positions<T>(kName, y, lengths, weight.dim(0), weight.dim(1));
  if (exec.on_gpu()) return kernels::add_positions<T>(exec, x, lengths, from_end, weight, y, rows);
  const int64_t n = x.dim(1), width = x.dim(2);
  for_each_sample<T>(exec, kName, x.dim(0), n * width, [&](int64_t sample) {
    const int64_t valid = valid_rows(lengths, sample, n), skipped = rows.first(sample);
    const int64_t begin = rows.begin(sample, n) * width, all = rows.count(sample, n);
    const int64_t counted = std::min(valid - skipped, all);
    for (int64_t i = 0; i < counted; ++i) {
      const T* const from = x.data() + begin + i * width;
      const T* const w = weight.row(sequence::position_of(skipped + i, valid, from_end));
      T* const to = y.data() + begin + i * width;
#pragma GCC ivdep  // in place, maybe
      for (int64_t j = 0; j < width; ++j) to[j] = from_float<T>(to_float(from[j]) + to_float(w[j]));
    }
    T* const end = y.data() + begin;
    std::fill(end + counted * width, end + all * width, from_float<T>(0));
  });
}

template <typename T>
void position_gradients(const Exec& exec, ViewOf<const T, 3> dy, Vector<const float> lengths,
                        bool from_end, Vector<float> workspace, Matrix<float> dweight,
                        const PackedRows& rows) {
  constexpr const char* kName = "position_gradients";
  check_positions<T>(kName, dy, lengths, dweight.dim(0), dweight.dim(1));
  if (exec.on_gpu()) {
    HLITE_CHECK(workspace.size() >= positions_workspace(dweight.size()), "{}: {}, workspace {}",
                kName, dy.shape(), workspace.shape());
    return kernels::position_gradients<T>(exec, dy, lengths, from_end, workspace, dweight, rows);
  }
  constexpr int64_t kChunk = 256;  // columns whose sums live in L1
  const int64_t batch = dy.dim(0), n = dy.dim(1), width = dy.dim(2);
  for_each_sample<T>(exec, kName, n, batch * width, [&](int64_t position) {
    for (int64_t first = 0; first < width; first += kChunk) {
      const int64_t columns = std::min(kChunk, width - first);
      double sums[kChunk] = {};
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t valid = valid_rows(lengths, b, n);
        const int64_t i = sequence::position_of(position, valid, from_end) - rows.first(b);
        if (position >= valid || i < 0) continue;
        const T* const from = dy.data() + (rows.begin(b, n) + i) * width + first;
        for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<double>(to_float(from[j]));
      }
      for (int64_t j = 0; j < columns; ++j)
        dweight.row(position)[first + j] = static_cast<float>(sums[j]);
    }
  });
}

HLITE_INSTANTIATE_FLOATS(sequence_mask)
HLITE_INSTANTIATE_FLOATS(move_rows)
HLITE_INSTANTIATE_FLOATS(add_positions)
HLITE_INSTANTIATE_FLOATS(position_gradients)

}  // namespace hlite::ops
