#include "hugectr_lite/ops/sequence.h"

#include <cmath>

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using Kind = ops::RowMove::Kind;

struct SequenceShape {
  int64_t batch, n, width;
  [[nodiscard]] int64_t size() const { return batch * n * width; }
};
constexpr SequenceShape kSequenceShapes[] = {{0, 3, 2},   {1, 1, 1},  {5, 4, 8},  {9, 7, 3},
                                             {33, 5, 16}, {3, 67, 5}, {2, 2, 301}};

// 0 to n, and beyond what a sample has.
std::vector<float> some_lengths(int64_t batch, int64_t n, int64_t seed) {
  std::vector<float> lengths;
  for (int64_t b = 0; b < batch; ++b)
    lengths.push_back(static_cast<float>((b * 3 + seed) % (n + 2)));
  return lengths;
}

int64_t valid_of(const std::vector<float>& lengths, size_t b, int64_t n) {
  return std::min(n, static_cast<int64_t>(lengths[b]));
}

// All devices of T, shapes and offsets: body(on, shape, offset).
template <typename T, typename Body>
void for_each_sequence(Body&& body) {
  for (const OpDevice& on : op_devices<T>())
    for (const SequenceShape& s : kSequenceShapes)
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << s.batch << "," << s.n << "," << s.width << "], offset "
                       << offset);
        body(on, s, offset);
      }
}

template <typename T>
std::vector<float> position_gradients_on(const OpDevice& on, const SequenceShape& s, bool from_end,
                                         int64_t offset = 0) {
  const int64_t weights = s.n * s.width;
  const DeviceTensor<T> dy(on, random_values<T>(s.size(), 2), offset);
  const DeviceTensor<float> lengths(on, some_lengths(s.batch, s.n, 1));
  const DeviceTensor<float> workspace(on, nans(ops::positions_workspace(weights)));
  const DeviceTensor<float> dw(on, nans(weights));
  ops::position_gradients<T>(on.exec(), dy.view(s.batch, s.n, s.width), lengths, from_end,
                             workspace, dw.view(s.n, s.width));
  return dw.host();
}

}  // namespace

TEMPLATE_TEST_CASE("sequence_mask agrees with its definition", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for_each_sequence<T>([](const OpDevice& on, const SequenceShape& s, int64_t offset) {
    for (const bool causal : {false, true}) {
      const auto from = some_lengths(s.batch, s.n, 0), to = some_lengths(s.batch, s.width, 2);
      const DeviceTensor<float> on_from(on, from), on_to(on, to);
      const DeviceTensor<T> mask(on, nans(s.size()), offset);
      ops::sequence_mask<T>(on.exec(), on_from, on_to, causal, mask.view(s.batch, s.n, s.width));
      std::vector<float> want;
      for (size_t b = 0; b < from.size(); ++b)
        for (int64_t i = 0; i < s.n; ++i)
          for (int64_t j = 0; j < s.width; ++j)
            want.push_back(static_cast<float>(i) < from[b] && static_cast<float>(j) < to[b] &&
                                   (!causal || j <= i)
                               ? 1.0f
                               : 0.0f);
      CHECK(same_values(mask.host(), want));
    }
  });
}

// Values are copied, so the bits are the same. Row by row: which row of `from`, -1 for zeros.
TEMPLATE_TEST_CASE("rows of histories move where they should", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for_each_sequence<T>([](const OpDevice& on, const SequenceShape& s, int64_t offset) {
    for (const Kind kind : {Kind::kValid, Kind::kLatest, Kind::kFromLatest})
      for (const int64_t m : {s.n, s.n + 2, (s.n + 1) / 2}) {
        if (kind == Kind::kValid && m != s.n) continue;
        const bool back = kind == Kind::kFromLatest;
        const int64_t history = back ? m : s.n, count = back ? s.n : m;
        const auto lengths = some_lengths(s.batch, history, 1);
        const auto x = random_values<T>(s.size(), 1);
        const DeviceTensor<T> from(on, x, offset), to(on, nans(s.batch * m * s.width), offset);
        const DeviceTensor<float> on_lengths(on, lengths);
        ops::move_rows<T>(on.exec(), {.kind = kind, .lengths = on_lengths},
                          from.view(s.batch, s.n, s.width), to.view(s.batch, m, s.width));
        std::vector<float> want;
        for (size_t b = 0; b < lengths.size(); ++b)
          for (int64_t row = 0; row < m; ++row) {
            const int64_t valid = valid_of(lengths, b, history);
            int64_t source = row;  // of a history: back from the place where it was put
            if (kind == Kind::kLatest) source = row + valid - count;
            if (back) source = row < valid ? row - valid + count : -1;
            if (kind == Kind::kValid && row >= valid) source = -1;
            for (int64_t j = 0; j < s.width; ++j)
              want.push_back(source < 0
                                 ? 0.0f
                                 : x[static_cast<size_t>(
                                       (static_cast<int64_t>(b) * s.n + source) * s.width + j)]);
          }
        CHECK(same_values(to.host(), want));
      }
  });
}

TEMPLATE_TEST_CASE("histories are joined, and what was joined is parted", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  for_each_sequence<T>([](const OpDevice& on, const SequenceShape& s, int64_t offset) {
    const int64_t fixed = 2, all = 2 * s.n + fixed;
    const auto first = some_lengths(s.batch, s.n, 1), last = some_lengths(s.batch, s.n, 2);
    const DeviceTensor<float> on_first(on, first), on_last(on, last);
    const DeviceTensor<float> end1(on, nans(s.batch)), end2(on, nans(s.batch)),
        end3(on, nans(s.batch));
    ops::count_rows(on.exec(), {}, on_first, s.n, end1);
    ops::count_rows(on.exec(), end1, {}, fixed, end2);
    ops::count_rows(on.exec(), end2, on_last, s.n, end3);
    const auto a = random_values<T>(s.size(), 1), c = random_values<T>(s.size(), 3);
    const auto b = random_values<T>(s.batch * fixed * s.width, 2);
    const DeviceTensor<T> on_a(on, a, offset), on_b(on, b, offset), on_c(on, c, offset);
    const DeviceTensor<T> y(on, nans(s.batch * all * s.width), offset);
    const auto join = [&](const DeviceTensor<T>& x, int64_t n, Vector<const float> begin,
                          Vector<const float> end, bool is_last) {
      ops::move_rows<T>(on.exec(),
                        {.kind = Kind::kJoin, .begin = begin, .end = end, .is_last = is_last},
                        x.view(s.batch, n, s.width), y.view(s.batch, all, s.width));
    };
    join(on_a, s.n, {}, end1, false);
    join(on_b, fixed, end1, end2, false);
    join(on_c, s.n, end2, end3, true);
    std::vector<float> want, counts, parted;
    const auto add_rows = [&](std::vector<float>& to, const std::vector<float>& x, size_t sample,
                              int64_t n, int64_t count) {
      const auto begin = x.begin() + static_cast<int64_t>(sample) * n * s.width;
      to.insert(to.end(), begin, begin + count * s.width);
    };
    for (size_t i = 0; i < first.size(); ++i) {
      const int64_t one = valid_of(first, i, s.n), three = valid_of(last, i, s.n);
      add_rows(want, a, i, s.n, one);
      add_rows(want, b, i, fixed, fixed);
      add_rows(want, c, i, s.n, three);
      want.resize((i + 1) * static_cast<size_t>(all * s.width), 0.0f);
      counts.push_back(static_cast<float>(one + fixed + three));
      add_rows(parted, c, i, s.n, three);
      parted.resize((i + 1) * static_cast<size_t>(s.n * s.width), 0.0f);
    }
    CHECK(same_values(y.host(), want));
    CHECK(same_values(end3.host(), counts));
    const DeviceTensor<T> dx(on, nans(s.size()), offset);
    ops::move_rows<T>(on.exec(), {.kind = Kind::kFromJoin, .begin = end2, .end = end3},
                      y.view(s.batch, all, s.width), dx.view(s.batch, s.n, s.width));
    CHECK(same_values(dx.host(), parted));
  });
}

TEMPLATE_TEST_CASE("positions are added to valid rows, and their gradients summed", "[gpu]", float,
                   bf16, fp16) {
  using T = TestType;
  for_each_sequence<T>([](const OpDevice& on, const SequenceShape& s, int64_t offset) {
    for (const bool from_end : {false, true}) {
      const auto x = random_values<T>(s.size(), 1), dy = random_values<T>(s.size(), 2);
      const auto w = random_values<T>(s.n * s.width, 3);
      const auto lengths = some_lengths(s.batch, s.n, 1);
      std::vector<double> y(x.size()), dw(w.size());
      for (size_t b = 0; b < lengths.size(); ++b)
        for (int64_t i = 0; i < valid_of(lengths, b, s.n); ++i)
          for (int64_t j = 0; j < s.width; ++j) {
            const int64_t position = from_end ? valid_of(lengths, b, s.n) - 1 - i : i;
            const auto at = static_cast<size_t>((static_cast<int64_t>(b) * s.n + i) * s.width + j);
            const auto of = static_cast<size_t>(position * s.width + j);
            y[at] = static_cast<double>(x[at]) + w[of];
            dw[of] += dy[at];
          }
      const DeviceTensor<T> on_x(on, x, offset), on_w(on, w, offset),
          to(on, nans(s.size()), offset);
      const DeviceTensor<float> on_lengths(on, lengths);
      ops::add_positions<T>(on.exec(), on_x.view(s.batch, s.n, s.width), on_lengths, from_end,
                            on_w.view(s.n, s.width), to.view(s.batch, s.n, s.width));
      check_close(to.host(), y, {1e-7, kRounding<T>}, "y");
      check_close(position_gradients_on<T>(on, s, from_end, offset), dw, {1e-6, 1e-6}, "dw");
    }
  });
}

TEST_CASE("gradients of positions have the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    return position_gradients_on<T>(on, {389, 7, 5}, true);
  });
}

TEST_CASE("ops of histories refuse what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(64);
  const View<float, 3> x(m.data(), 2, 3, 4), wide(m.data(), 2, 3, 5);
  const Vector<float> two(m.data(), 2), three(m.data(), 3);
  const Matrix<float> w(m.data(), 3, 4), short_w(m.data(), 2, 4);
  CHECK_THROWS_AS(ops::sequence_mask(on.exec(), two, three, false, x), Error);
  CHECK_THROWS_AS(ops::count_rows(on.exec(), three, two, 4, two), Error);
  CHECK_THROWS_AS(ops::move_rows(on.exec(), {.lengths = two}, x, wide), Error);
  CHECK_THROWS_AS(ops::move_rows(on.exec(), {.lengths = three}, x, x), Error);
  CHECK_THROWS_AS(ops::add_positions(on.exec(), x, two, false, short_w, x), Error);
  CHECK_THROWS_AS(ops::add_positions(on.exec(), x, three, false, w, x), Error);
  CHECK_THROWS_AS(ops::position_gradients(on.exec(), x, two, false, {}, short_w), Error);
}

}  // namespace hlite::test
