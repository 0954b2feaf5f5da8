#include "hugectr_lite/ops/gru.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

struct GruShape {
  int64_t batch, positions, n;
  bool attention = true;
  [[nodiscard]] int64_t rows() const { return batch * positions; }
};
constexpr GruShape kGruShapes[] = {
    {0, 3, 2},   {1, 1, 1},  {5, 1, 4, false}, {7, 5, 3, false},  {7, 5, 3},         {13, 7, 17},
    {6, 11, 33}, {70, 3, 8}, {3, 2, 521},      {67, 5, 1, false}, {9, 17, 12, false}};

// What a GRU is given; padding holds NaN, which nothing may read.
template <typename T>
struct GruCase {
  GruShape shape;
  std::vector<float> lengths, attention, recurrent, p, dstates;

  explicit GruCase(const GruShape& s)
      : shape(s),
        attention(random_values<T>(s.rows(), 1)),
        recurrent(random_values(3 * s.n * s.n, 2)),
        p(random_values<T>(3 * s.n * s.rows(), 3)),
        dstates(random_values<T>(s.n * s.rows(), 4)) {
    for (float& r : recurrent) r /= std::sqrt(static_cast<float>(s.n));
    for (int64_t b = 0; b < s.batch; ++b) {
      // 0, 1, all and others, in turns.
      const int64_t length = b % 4 == 3 ? s.positions : b % 4 < 2 ? b % 4 : b % (s.positions + 1);
      lengths.push_back(static_cast<float>(length));
      for (int64_t row = b * s.positions + length; row < (b + 1) * s.positions; ++row) {
        attention[static_cast<size_t>(row)] = NAN;
        std::fill_n(p.begin() + row * 3 * s.n, 3 * s.n, NAN);
        std::fill_n(dstates.begin() + row * s.n, s.n, NAN);
      }
    }
  }
  // That of sample b alone.
  [[nodiscard]] GruCase sample(int64_t b) const {
    GruCase one = *this;
    one.shape.batch = 1;
    const auto cut = [&](std::vector<float>& of) {
      const int64_t n = std::ssize(of) / shape.batch;
      of = std::vector<float>(of.begin() + b * n, of.begin() + (b + 1) * n);
    };
    for (auto* of : {&one.lengths, &one.attention, &one.p, &one.dstates}) cut(*of);
    return one;
  }
};

struct GruResult {
  std::vector<float> states, dp, products, dattention;
};

template <typename T>
GruResult gru_on(const OpDevice& on, const GruCase<T>& c, int64_t offset = 0) {
  const auto& [batch, positions, n, attentive] = c.shape;
  const int64_t rows = c.shape.rows();
  const DeviceTensor<float> lengths(on, c.lengths), recurrent(on, c.recurrent, offset),
      turned(on, nans(3 * n * n), offset);
  const DeviceTensor<T> attention(on, c.attention, offset), gates(on, c.p, offset),
      products(on, nans(3 * n * rows), offset), states(on, nans(n * rows), offset),
      dstates(on, c.dstates, offset), dattention(on, nans(rows), offset);
  ops::GruTensors<T> gru = {.lengths = lengths,
                            .attention = attention.view(batch, positions),
                            .recurrent = recurrent.view(n, 3 * n),
                            .gates = gates.view(batch, positions, 3 * n),
                            .products = products.view(batch, positions, 3 * n),
                            .states = states.view(batch, positions, n)};
  if (!attentive) gru.attention = {};
  ops::gru_forward<T>(on.exec(), gru);
  ops::gru_backward<T>(on.exec(), gru, dstates.view(batch, positions, n), turned.view(3 * n, n),
                       attentive ? dattention.view(batch, positions) : Matrix<T>());
  return {states.host(), gates.host(), products.host(),
          attentive ? dattention.host() : std::vector<float>(static_cast<size_t>(rows))};
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// From the definition, sample by sample, in double.
struct GruOracle {
  std::vector<double> states, dp, products, dattention;

  template <typename T>
  explicit GruOracle(const GruCase<T>& c)
      : states(c.dstates.size()),
        dp(c.p.size()),
        products(c.p.size()),
        dattention(c.attention.size()) {
    const auto n = static_cast<size_t>(c.shape.n),
               positions = static_cast<size_t>(c.shape.positions);
    for (size_t b = 0; b < c.lengths.size(); ++b) {
      const size_t first = b * positions, length = static_cast<size_t>(c.lengths[b]);
      const auto a = [&](size_t row) { return c.shape.attention ? c.attention[row] : 1.0; };
      const auto h = [&](size_t row, size_t j) {
        return row == first ? 0.0 : states[(row - 1) * n + j];
      };
      std::vector<double> gates(positions * 3 * n), candidates(positions * n);
      for (size_t t = 0; t < length; ++t) {
        const size_t row = first + t;
        double* const gate = gates.data() + t * 3 * n;
        for (size_t j = 0; j < n; ++j) {
          double sums[3] = {};
          for (size_t k = 0; k < n; ++k)
            for (size_t g = 0; g < 3; ++g)
              sums[g] += h(row, k) * static_cast<double>(c.recurrent[k * 3 * n + g * n + j]);
          const auto p = [&](size_t g) {
            return static_cast<double>(c.p[row * 3 * n + g * n + j]);
          };
          gate[j] = sigmoid_of(p(0) + sums[0]);
          gate[n + j] = sigmoid_of(p(1) + sums[1]);
          gate[2 * n + j] = std::tanh(p(2) + gate[j] * sums[2]);
          candidates[t * n + j] = sums[2];
          states[row * n + j] =
              h(row, j) + a(row) * (1 - gate[n + j]) * (gate[2 * n + j] - h(row, j));
        }
      }
      std::vector<double> carried(n);
      for (size_t t = length; t-- > 0;) {
        const size_t row = first + t;
        const double* const gate = gates.data() + t * 3 * n;
        std::vector<double> below(n), d(3 * n);
        for (size_t j = 0; j < n; ++j) {
          const double g = carried[j] + static_cast<double>(c.dstates[row * n + j]);
          const double r = gate[j], z = gate[n + j], x = gate[2 * n + j], before = h(row, j);
          const double inner = g * a(row) * (1 - z) * (1 - x * x);
          d[j] = inner * candidates[t * n + j] * r * (1 - r);
          d[n + j] = g * a(row) * (before - x) * z * (1 - z);
          d[2 * n + j] = inner * r;
          for (size_t i = 0; i < 2; ++i) dp[row * 3 * n + i * n + j] = d[i * n + j];
          dp[row * 3 * n + 2 * n + j] = inner;
          below[j] = g * (1 - a(row) * (1 - z));
          dattention[row] += c.shape.attention ? g * (1 - z) * (x - before) : 0;
        }
        for (size_t j = 0; j < n; ++j)
          for (size_t k = 0; k < 3 * n; ++k)
            below[j] += d[k] * static_cast<double>(c.recurrent[j * 3 * n + k]);
        if (t > 0)
          std::copy(d.begin(), d.end(), products.begin() + static_cast<int64_t>(row * 3 * n));
        carried = below;
      }
    }
  }
};

}  // namespace

TEMPLATE_TEST_CASE("a GRU agrees with its definition, forward and backward", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  for (const GruShape& s : kGruShapes) {
    const GruCase<T> c(s);
    const GruOracle want(c);
    // Backward reads gates and states as T has them.
    const double bound = 3e-6 + 4 * kRounding<T>;
    for (const OpDevice& on : op_devices<T>())
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << s.batch << "," << s.positions << "," << s.n << "], attention "
                       << s.attention << ", offset " << offset);
        const GruResult got = gru_on<T>(on, c, offset);
        check_close(got.states, want.states, {2e-6, kRounding<T>}, "states");
        check_close(got.dp, want.dp, {bound, bound}, "dp");
        check_close(got.products, want.products, {bound, bound}, "products");
        check_close(got.dattention, want.dattention,
                    {bound * std::sqrt(static_cast<double>(s.n)), bound}, "dattention");
      }
  }
}

TEMPLATE_TEST_CASE("a sample's states have the same bits in any batch", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  const GruCase<T> c({23, 6, 19});
  for (const OpDevice& on : op_devices<T>()) {
    INFO(on.name());
    const GruResult all = gru_on<T>(on, c);
    for (int64_t b = 0; b < c.shape.batch; ++b) {
      const GruResult one = gru_on<T>(on, c.sample(b));
      const auto is_there = [&](const std::vector<float>& part, const std::vector<float>& of) {
        return std::equal(part.begin(), part.end(), of.begin() + b * std::ssize(part));
      };
      CHECK(is_there(one.states, all.states));
      CHECK(is_there(one.dp, all.dp));
      CHECK(is_there(one.products, all.products));
      CHECK(is_there(one.dattention, all.dattention));
    }
  }
}

TEST_CASE("a GRU gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    GruResult r = gru_on<T>(on, GruCase<T>({37, 5, 11}));
    for (const auto* more : {&r.dp, &r.products, &r.dattention})
      r.states.insert(r.states.end(), more->begin(), more->end());
    return r.states;
  });
}

TEMPLATE_TEST_CASE("gates far from 0 saturate, and NaN stays", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  const float far = kLargest<T>;
  GruCase<T> c({4, 1, 1, false});
  c.lengths = {1, 1, 1, 1};
  // r, z, c: open to +1, open to -1, closed, NaN.
  c.p = {far, -far, far, -far, -far, -far, 0, far, 1, 0, NAN, 0};
  c.dstates = {1, 1, 1, 1};
  for (const OpDevice& on : op_devices<T>()) {
    INFO(on.name());
    const auto states = gru_on<T>(on, c).states;
    CHECK(states[0] == 1);
    CHECK(states[1] == -1);
    CHECK(std::abs(states[2]) < 1e-30f);
    CHECK(std::isnan(states[3]));
  }
}

TEST_CASE("a GRU refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(256);
  const auto cube = [&](int64_t width) { return View<float, 3>(m.data(), 2, 3, width); };
  const ops::GruTensors<float> fits = {.lengths = {m.data(), 2},
                                       .attention = {},
                                       .recurrent = {m.data(), 2, 6},
                                       .gates = cube(6),
                                       .products = cube(6),
                                       .states = cube(2)};
  const auto refuses = [&](auto&& change) {
    auto gru = fits;
    change(gru);
    CHECK_THROWS_AS(ops::gru_forward<float>(on.exec(), gru), Error);
    CHECK_THROWS_AS(ops::gru_backward<float>(on.exec(), gru, cube(2), {m.data(), 6, 2}, {}), Error);
  };
  refuses([&](auto& gru) { gru.lengths = {m.data(), 3}; });
  refuses([&](auto& gru) { gru.recurrent = {m.data(), 2, 5}; });
  refuses([&](auto& gru) { gru.gates = cube(5); });
  refuses([&](auto& gru) { gru.products = cube(5); });
  refuses([&](auto& gru) { gru.attention = {m.data(), 2, 2}; });
  const Matrix<float> turned(m.data(), 6, 2);
  CHECK_THROWS_AS(ops::gru_backward<float>(on.exec(), fits, cube(3), turned, {}), Error);
  CHECK_THROWS_AS(ops::gru_backward<float>(on.exec(), fits, cube(2), {m.data(), 2, 6}, {}), Error);
  CHECK_THROWS_AS(
      ops::gru_backward<float>(on.exec(), fits, cube(2), turned, Matrix<float>(m.data(), 2, 2)),
      Error);
}

}  // namespace hlite::test
