#include "hugectr_lite/ops/hstu_attention.h"

#include <fmt/ranges.h>

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

struct HstuShape {
  std::vector<float> lengths;
  int64_t n, heads, a, c;
  ops::HstuMask mask = {};
  bool packed = false;
  bool calm = false;  // all scores are small, and each pair counts

  [[nodiscard]] int64_t batch() const { return static_cast<int64_t>(lengths.size()); }
  [[nodiscard]] int64_t length(int64_t sample) const {
    return std::clamp<int64_t>(static_cast<int64_t>(lengths[static_cast<size_t>(sample)]), 0, n);
  }
  [[nodiscard]] std::vector<int64_t> offsets() const {
    std::vector<int64_t> all = {0};
    for (int64_t b = 0; b < batch(); ++b) all.push_back(all.back() + (packed ? length(b) : n));
    return all;
  }
  [[nodiscard]] float scale() const { return calm ? 1 : 1 / static_cast<float>(n); }
  [[nodiscard]] int64_t width() const { return 2 * heads * (a + c); }
  [[nodiscard]] std::string text() const {
    return fmt::format(
        "[{}] of {}, {} heads of {} and {}, {}, window {}, context {}, candidates {}",
        fmt::join(lengths, ","), n, heads, a, c, mask.causal ? "causal" : "all", mask.window,
        mask.context, mask.candidates);
  }
};
const std::vector<HstuShape> kHstuShapes = {
    {{}, 5, 1, 3, 4},
    {{1}, 1, 1, 1, 1},
    {{0, 0}, 3, 2, 2, 3},
    {{5, 0, 1, 7, 9}, 7, 2, 5, 3},
    {{5, 0, 1, 7, 9}, 7, 2, 5, 3, {}, true},
    {{31, 22, 13}, 31, 2, 8, 8, {.causal = false}},
    {{97, 48, 49, 96}, 97, 1, 19, 33, {}, true},
    {{97, 33, 64}, 97, 3, 16, 9, {.window = 17}},
    {{67, 33, 20}, 67, 1, 4, 12, {.causal = false, .window = 5}, true},
    {{67, 33, 3}, 67, 1, 4, 12, {.window = 1}},
    {{101, 40, 2}, 101, 2, 8, 4, {.context = 5}},
    {{101, 40, 2}, 101, 2, 8, 4, {.window = 9, .context = 70}, true},
    {{101, 60, 4}, 101, 2, 8, 4, {.candidates = 5}},
    {{211, 60, 2, 131}, 211, 2, 8, 4, {.window = 60, .context = 3, .candidates = 70}, true},
    {{211, 60, 2, 131}, 211, 1, 8, 4, {.causal = false, .context = 90, .candidates = 140}},
    {{293, 17}, 293, 1, 33, 32},
    // On tensor cores, which take weights of 16 bits.
    {{161, 0, 1, 128, 33}, 161, 2, 16, 32, {}, false, true},
    {{130, 65, 7}, 130, 1, 64, 48, {.window = 40, .context = 3, .candidates = 9}, false, true},
    {{70, 33}, 70, 2, 48, 112, {.causal = false, .window = 20}, true, true},
    {{99, 40}, 99, 1, 16, 128, {.context = 40, .candidates = 50}, false, true},
    {{75, 20}, 75, 1, 160, 256, {.candidates = 3}, false, true},
};

template <typename T>
struct HstuValues {
  explicit HstuValues(const HstuShape& s)
      : rows(s.offsets().back()),
        uvqk(random_values<T>(rows * s.width(), 1)),
        dy(random_values<T>(rows * s.heads * s.c, 2)) {
    // Some scores are far from others.
    for (size_t i = 0; i < uvqk.size() && !s.calm; i += 11) uvqk[i] = as<T>({20 * uvqk[i]})[0];
  }
  int64_t rows;
  std::vector<float> uvqk, dy;
};
constexpr float kHstuLeft = 7;  // in the gradients of u

// y, duvqk.
template <typename T>
std::vector<std::vector<float>> hstu_on(const OpDevice& on, const HstuShape& s,
                                        const HstuValues<T>& in, int64_t offset = 0,
                                        const std::vector<int64_t>& queries = {}) {
  const DeviceTensor<T> uvqk(on, in.uvqk, offset), dy(on, in.dy, offset),
      y(on, nans(dy.size()), offset),
      duvqk(on, std::vector<float>(in.uvqk.size(), kHstuLeft), offset);
  const DeviceTensor<float> lengths(on, s.lengths);
  const DeviceTensor<int64_t> offsets(on, s.offsets()), first_queries(on, queries);
  const int64_t made = queries.empty() ? in.rows : queries.back();
  const auto rows = [&](const DeviceTensor<T>& x, int64_t width) { return x.view(in.rows, width); };
  const ops::HstuTensors<T> tensors{
      .uvqk = rows(uvqk, s.width()),
      .lengths = lengths,
      .offsets = s.packed ? Vector<const int64_t>(offsets) : Vector<const int64_t>(),
      .queries = queries.empty() ? Vector<const int64_t>() : Vector<const int64_t>(first_queries),
      .n = s.n,
      .heads = s.heads,
      .attention_dim = s.a,
      .hidden_dim = s.c,
      .scale = s.scale(),
      .mask = s.mask};
  ops::hstu_attention_forward<T>(on.exec(), tensors, y.view(made, s.heads * s.c));
  ops::hstu_attention_backward<T>(on.exec(), tensors, dy.view(made, s.heads * s.c),
                                  rows(duvqk, s.width()));
  return {y.host(), duvqk.host()};
}
template <typename T>
std::vector<std::vector<float>> hstu_on(const OpDevice& on, const HstuShape& s) {
  return hstu_on<T>(on, s, HstuValues<T>(s));
}

// Whether row i of `length` sees key j, by the words of the paper's authors.
bool hstu_sees(const ops::HstuMask& mask, int64_t i, int64_t j, int64_t length) {
  const bool is_candidate = j >= length - mask.candidates;
  if (is_candidate) return i == j;
  if (i < mask.context || j < mask.context) return true;
  if (mask.causal && j > i) return false;
  return mask.window == 0 || std::abs(i - j) < mask.window;
}

// The same by the definition.
template <typename T>
std::vector<std::vector<double>> hstu_oracle(const HstuShape& s) {
  const HstuValues<T> in(s);
  std::vector<double> y(in.dy.size()), d(in.uvqk.size());
  const std::vector<int64_t> offsets = s.offsets();
  const double root = 1 / std::sqrt(static_cast<double>(s.a)), scale = s.scale();
  for (size_t i = 0; i < d.size(); ++i)
    if (static_cast<int64_t>(i) % s.width() < s.heads * s.c) d[i] = kHstuLeft;
  for (int64_t b = 0; b < s.batch(); ++b)
    for (int64_t head = 0; head < s.heads; ++head)
      for (int64_t i = 0; i < s.length(b); ++i)
        for (int64_t j = 0; j < s.length(b); ++j) {
          if (!hstu_sees(s.mask, i, j, s.length(b))) continue;
          const auto at = [&](int64_t row, int64_t column) {
            return static_cast<size_t>((offsets[static_cast<size_t>(b)] + row) * s.width() +
                                       column);
          };
          const size_t q = at(i, 2 * s.heads * s.c + head * s.a),
                       k = at(j, 2 * s.heads * s.c + (s.heads + head) * s.a),
                       v = at(j, (s.heads + head) * s.c),
                       o = static_cast<size_t>((offsets[static_cast<size_t>(b)] + i) * s.heads +
                                               head) *
                           static_cast<size_t>(s.c);
          double score = 0, above = 0;
          for (size_t p = 0; p < static_cast<size_t>(s.a); ++p)
            score += root * in.uvqk[q + p] * in.uvqk[k + p];
          for (size_t p = 0; p < static_cast<size_t>(s.c); ++p)
            above += static_cast<double>(in.dy[o + p]) * in.uvqk[v + p];
          const double sigma = 1 / (1 + std::exp(-score));
          const double ds = root * scale * above * sigma * (1 + score * (1 - sigma));
          for (size_t p = 0; p < static_cast<size_t>(s.c); ++p) {
            y[o + p] += scale * score * sigma * in.uvqk[v + p];
            d[v + p] += scale * score * sigma * in.dy[o + p];
          }
          for (size_t p = 0; p < static_cast<size_t>(s.a); ++p) {
            d[q + p] += ds * in.uvqk[k + p];
            d[k + p] += ds * in.uvqk[q + p];
          }
        }
  return {y, d};
}

// Each sample has the bits that it has in a batch, packed or not.
template <typename T>
void check_alone(const OpDevice& on, const HstuShape& shape) {
  const auto padded = hstu_on<T>(on, shape);
  const HstuValues<T> in(shape);
  for (size_t b = 0; b < shape.lengths.size(); ++b) {
    HstuShape one = shape;
    one.lengths = {shape.lengths[b]};
    one.packed = b % 2 == 1;
    HstuValues<T> of(one);
    const auto cut = [&](const std::vector<float>& all, int64_t width) {
      const auto from = all.begin() + static_cast<int64_t>(b) * shape.n * width;
      return std::vector<float>(from, from + of.rows * width);
    };
    of.uvqk = cut(in.uvqk, shape.width());
    of.dy = cut(in.dy, shape.heads * shape.c);
    const auto got = hstu_on<T>(on, one, of);
    CHECK(got[0] == cut(padded[0], shape.heads * shape.c));
    // Beyond a packed sample there is nothing.
    CHECK(got[1] == cut(padded[1], shape.width()));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("HSTU's attention agrees with its definition, forward and backward", "[gpu]",
                   float, bf16, fp16) {
  using T = TestType;
  const auto devices = op_devices<T>();
  for (const HstuShape& s : kHstuShapes) {
    const auto want = hstu_oracle<T>(s);
    for (const OpDevice& on : devices) {
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", " << s.text() << ", offset " << offset);
        const auto got = hstu_on<T>(on, s, HstuValues<T>(s), offset);
        const double rounding = std::is_same_v<T, float> ? 1e-5 : 2 * kRounding<T>;
        check_close(got[0], want[0], {rounding, 2 * rounding}, "y");
        check_close(got[1], want[1], {10 * rounding, 2 * rounding}, "duvqk");
      }
    }
  }
}

TEST_CASE("HSTU's attention gives the same bits on any threads, in any batch, packed or not") {
  const ops::HstuMask mask = {.window = 50, .context = 2, .candidates = 3};
  const HstuShape shape = {{150, 3, 0, 77, 1, 160, 40}, 160, 2, 9, 12, mask};
  const HstuShape in_tiles = {{150, 3, 0, 161}, 170, 1, 32, 16, mask};
  for (const HstuShape& s : {shape, in_tiles})
    check_same_bits([&]<typename T>(const OpDevice& on) {
      auto r = hstu_on<T>(on, s);
      r[0].insert(r[0].end(), r[1].begin(), r[1].end());
      return r[0];
    });
  check_alone<float>(OpDevice(2), shape);
  check_alone<float>(emulated_device(), shape);
  check_alone<bf16>(emulated_device(), in_tiles);
}

TEMPLATE_TEST_CASE("HSTU's attention of the last rows alone is theirs", "", float, bf16) {
  using T = TestType;
  const OpDevice on(2);
  for (const HstuShape& s : kHstuShapes)
    for (const int64_t last : {int64_t{1}, int64_t{2}, int64_t{50}}) {
      if (!s.packed) continue;
      INFO(s.text() << ", the last " << last);
      const int64_t hidden = s.heads * s.c;
      HstuValues<T> in(s);
      const std::vector<int64_t> offsets = s.offsets();
      std::vector<int64_t> queries = {0};
      std::vector<float> few, y;
      const auto all = hstu_on<T>(on, s, in)[0];
      for (size_t b = 0; b < s.lengths.size(); ++b) {
        const int64_t end = offsets[b + 1], first = std::max(offsets[b], end - last);
        queries.push_back(queries.back() + end - first);
        std::fill(in.dy.begin() + offsets[b] * hidden, in.dy.begin() + first * hidden, 0.0f);
        few.insert(few.end(), in.dy.begin() + first * hidden, in.dy.begin() + end * hidden);
        y.insert(y.end(), all.begin() + first * hidden, all.begin() + end * hidden);
      }
      const auto want = hstu_on<T>(on, s, in)[1];
      in.dy = few;
      const auto got = hstu_on<T>(on, s, in, 0, queries);
      // Which panels of keys are passed over, and so the order of sums, differs.
      const double rounding = std::is_same_v<T, float> ? 1e-5 : kRounding<T>;
      check_close(std::span<const float>(got[0]), std::span<const float>(y), {rounding, rounding},
                  "y");
      check_close(std::span<const float>(got[1]), std::span<const float>(want),
                  {rounding, rounding}, "duvqk");
    }
}

TEST_CASE("HSTU's attention does not read padding, and what is not a number shows") {
  const auto check = []<typename T>(const OpDevice& on, int64_t width) {
    INFO(on.name() << ", " << width);
    const HstuShape s = {{20, 50}, 50, 1, width, width};
    HstuValues<T> in(s);
    const auto row = [&](int64_t i) { return in.uvqk.begin() + i * s.width(); };
    const auto want = hstu_on<T>(on, s, in);
    std::fill(row(20), row(50), NAN);
    std::fill(in.dy.begin() + 20 * width, in.dy.begin() + 50 * width, NAN);
    CHECK(hstu_on<T>(on, s, in) == want);
    *(row(60) + 2 * width) = NAN;  // of q of row 10 of the second sample
    const auto y = hstu_on<T>(on, s, in)[0];
    for (int64_t i = 0; i < std::ssize(y); ++i)
      CHECK(std::isnan(y[static_cast<size_t>(i)]) == (i / width == 60));
  };
  check.operator()<float>(OpDevice(1), 8);
  for (const int64_t width : {8, 16}) check.operator()<bf16>(emulated_device(), width);
}

TEST_CASE("HSTU's attention over two thousand rows agrees with its definition") {
  const HstuShape s = {{2048, 700}, 2048, 1, 16, 24, {.candidates = 300}, true};
  const auto want = hstu_oracle<float>(s);
  const auto got = hstu_on<float>(OpDevice(2), s);
  check_close(got[0], want[0], {1e-5, 1e-5}, "y");
  check_close(got[1], want[1], {1e-4, 1e-5}, "duvqk");
}

TEST_CASE("HSTU's attention refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(256);
  std::vector<int64_t> of(3);
  const Vector<float> lengths(m.data(), 2);
  const auto rows = [&](int64_t n, int64_t width) { return Matrix<float>(m.data(), n, width); };
  const ops::HstuTensors<float> good{.uvqk = rows(6, 20),
                                     .lengths = lengths,
                                     .n = 3,
                                     .heads = 2,
                                     .attention_dim = 2,
                                     .hidden_dim = 3};
  const auto refuses = [&](auto change, int64_t n = 6, int64_t width = 6) {
    ops::HstuTensors<float> in = good;
    change(in);
    CHECK_THROWS_AS(ops::hstu_attention_forward(on.exec(), in, rows(n, width)), Error);
    CHECK_THROWS_AS(ops::hstu_attention_backward(on.exec(), in, rows(n, width), rows(6, 20)),
                    Error);
  };
  const auto as_is = [](auto&) {};
  ops::hstu_attention_forward(on.exec(), good, rows(6, 6));
  refuses(as_is, 5);
  refuses(as_is, 6, 5);
  refuses([](auto& in) { in.heads = 1; });
  refuses([](auto& in) { in.hidden_dim = 2; });
  refuses([](auto& in) { in.n = 4; });
  refuses([](auto& in) { in.mask.window = -1; });
  refuses([&](auto& in) { in.offsets = {of.data(), 2}; });
  CHECK_THROWS_AS(ops::hstu_attention_backward(on.exec(), good, rows(6, 6), rows(6, 19)), Error);
}

}  // namespace hlite::test
