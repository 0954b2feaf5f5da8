#include "hugectr_lite/ops/attention.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

enum class Mask { kNone, kPrefixes, kCausal, kRandom, kNothing };

struct AttentionShape {
  int64_t batch, f, t, heads, width;
  Mask mask = Mask::kNone;
  [[nodiscard]] int64_t h() const { return heads * width; }
  [[nodiscard]] int64_t scores() const { return batch * f * t; }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} of [{},{}] x {}, {} heads, mask {}", batch, f, width, t, heads,
                       static_cast<int>(mask));
  }
};
constexpr AttentionShape kAttentionShapes[] = {
    {0, 2, 3, 1, 4},
    {2, 1, 1, 1, 1},
    {3, 1, 50, 1, 32, Mask::kPrefixes},
    {3, 13, 7, 2, 5, Mask::kRandom},
    {2, 37, 41, 3, 7, Mask::kRandom},
    {3, 50, 50, 4, 8, Mask::kPrefixes},
    {2, 50, 50, 1, 32, Mask::kPrefixes},
    {2, 67, 35, 1, 19, Mask::kNone},
    {2, 33, 70, 2, 16, Mask::kCausal},
    {1, 5, 131, 1, 67, Mask::kRandom},
    {2, 9, 11, 1, 3, Mask::kNothing},
};

std::vector<float> mask_of(const AttentionShape& s) {
  std::vector<float> mask = random_values(s.scores(), 5);
  for (int64_t i = 0; i < s.scores(); ++i) {
    const int64_t b = i / (s.f * s.t), row = i / s.t % s.f, key = i % s.t;
    // Of the first sample, everything; of the last, as good as nothing.
    const int64_t rows = b == 0 ? s.f : s.f * (2 * b + 1) / (4 * b + 4);
    const int64_t keys = b == 0 ? s.t : s.t * (2 * b + 1) / (5 * b + 4);
    float& m = mask[static_cast<size_t>(i)];
    if (s.mask == Mask::kNothing) m = 0;
    if (s.mask == Mask::kPrefixes) m = row < rows && key < keys ? 1.0f : 0.0f;
    if (s.mask == Mask::kCausal) m = key <= row ? 1.0f : 0.0f;
    if (s.mask == Mask::kRandom) m = m > 0 && row % 5 != 1 ? 1.0f : 0.0f;
  }
  return mask;
}

template <typename T>
struct AttentionValues {
  explicit AttentionValues(const AttentionShape& s)
      : q(random_values<T>(s.batch * s.f * s.h(), 1)),
        k(random_values<T>(s.batch * s.t * s.h(), 2)),
        v(random_values<T>(s.batch * s.t * s.h(), 3)),
        dy(random_values<T>(s.batch * s.f * s.h(), 4)),
        mask(mask_of(s)) {
    // Some scores are far from others.
    for (size_t i = 0; i < q.size(); i += 7) q[i] = as<T>({20 * q[i]})[0];
  }
  std::vector<float> q, k, v, dy, mask;
};

// y, dq, dk, dv one after another.
template <typename T>
std::vector<std::vector<float>> attention_on(const OpDevice& on, const AttentionShape& s,
                                             int64_t offset = 0) {
  const AttentionValues<T> in(s);
  const auto place = [&](const std::vector<float>& values) {
    return DeviceTensor<T>(on, values, offset);
  };
  const auto q = place(in.q), k = place(in.k), v = place(in.v), mask = place(in.mask);
  const auto dy = place(in.dy), y = place(nans(q.size())), dq = place(nans(q.size())),
             dk = place(nans(k.size())), dv = place(nans(k.size()));
  const DeviceTensor<float> statistics(on, nans(s.batch * s.heads * s.f * 2));
  const auto rows = [&](const DeviceTensor<T>& x) { return x.view(s.batch, s.f, s.h()); };
  const auto keys = [&](const DeviceTensor<T>& x) { return x.view(s.batch, s.t, s.h()); };
  ops::AttentionInputs<T> inputs{rows(q), keys(k), keys(v), {}, s.heads};
  if (s.mask != Mask::kNone) inputs.mask = mask.view(s.batch, s.f, s.t);
  const auto kept = statistics.view(s.batch, s.heads * s.f, 2);
  ops::attention_forward<T>(on.exec(), inputs, kept, rows(y));
  ops::attention_backward<T>(on.exec(), inputs, kept, rows(y), rows(dy), rows(dq), keys(dk),
                             keys(dv));
  return {y.host(), dq.host(), dk.host(), dv.host()};
}

// The same by the definition.
template <typename T>
std::vector<std::vector<double>> attention_oracle(const AttentionShape& s) {
  const AttentionValues<T> in(s);
  std::vector<double> y(in.q.size()), dq(in.q.size()), dk(in.k.size()), dv(in.k.size());
  const double scale = 1 / std::sqrt(static_cast<double>(s.width));
  const auto n = static_cast<size_t>(s.t), width = static_cast<size_t>(s.width);
  const auto row_stride = static_cast<size_t>(s.h());
  std::vector<double> p(n), dp(n);
  for (int64_t at = 0; at < s.batch * s.heads * s.f; ++at) {
    const int64_t b = at / (s.heads * s.f), head = at / s.f % s.heads, i = at % s.f;
    const auto row = static_cast<size_t>((b * s.f + i) * s.h() + head * s.width);
    const auto key = static_cast<size_t>(b * s.t * s.h() + head * s.width);
    double most = -INFINITY, total = 0, mean = 0;
    const auto seen = [&](size_t j) {
      return s.mask == Mask::kNone || in.mask[static_cast<size_t>((b * s.f + i) * s.t) + j] != 0;
    };
    for (size_t j = 0; j < n; ++j) {
      p[j] = dp[j] = 0;
      for (size_t c = 0; c < width; ++c) {
        p[j] += scale * in.q[row + c] * in.k[key + j * row_stride + c];
        dp[j] += static_cast<double>(in.dy[row + c]) * in.v[key + j * row_stride + c];
      }
      if (seen(j)) most = std::max(most, p[j]);
    }
    for (size_t j = 0; j < n; ++j) total += p[j] = seen(j) ? std::exp(p[j] - most) : 0;
    if (total == 0) continue;
    for (size_t j = 0; j < n; ++j) mean += (p[j] /= total) * dp[j];
    for (size_t j = 0; j < n; ++j)
      for (size_t c = 0; c < width; ++c) {
        const size_t other = key + j * row_stride + c;
        const double ds = scale * p[j] * (dp[j] - mean);
        y[row + c] += p[j] * in.v[other];
        dq[row + c] += ds * in.k[other];
        dk[other] += ds * in.q[row + c];
        dv[other] += p[j] * in.dy[row + c];
      }
  }
  return {y, dq, dk, dv};
}

template <typename T>
void check_attention_on(const OpDevice& on, const AttentionShape& s, int64_t offset,
                        const std::vector<std::vector<double>>& want) {
  INFO(on.name() << ", " << s.text() << ", offset " << offset);
  const auto got = attention_on<T>(on, s, offset);
  // A GPU finds the mean of dy . v from y, which is rounded to T.
  const double rounding = std::is_same_v<T, float> ? 2e-5 : 2 * kRounding<T>;
  const char* const names[] = {"y", "dq", "dk", "dv"};
  for (size_t i = 0; i < 4; ++i)
    check_close(got[i], want[i], {i == 0 || i == 3 ? rounding : 20 * rounding, 2 * rounding},
                names[i]);
}

}  // namespace

TEMPLATE_TEST_CASE("attention agrees with its definition, forward and backward", "[gpu]", float,
                   bf16, fp16) {
  using T = TestType;
  const auto devices = op_devices<T>();
  for (const AttentionShape& s : kAttentionShapes) {
    const auto want = attention_oracle<T>(s);
    for (const OpDevice& on : devices)
      for (const int64_t offset : {0, 1}) check_attention_on<T>(on, s, offset, want);
  }
}

TEST_CASE("attention over ten thousand keys agrees with its definition", "[gpu]") {
  const AttentionShape s = {1, 3, 10000, 1, 16, Mask::kRandom};
  const auto want = attention_oracle<float>(s);
  for (const OpDevice& on : op_devices<float>()) check_attention_on<float>(on, s, 0, want);
}

TEST_CASE("attention gives the same bits on any threads and in any batch") {
  const AttentionShape shape = {7, 29, 31, 3, 12, Mask::kRandom};
  const auto all_of = []<typename T>(const OpDevice& on, const AttentionShape& s) {
    auto r = attention_on<T>(on, s);
    for (const size_t i : {1u, 2u, 3u}) r[0].insert(r[0].end(), r[i].begin(), r[i].end());
    return r[0];
  };
  check_same_bits(
      [&]<typename T>(const OpDevice& on) { return all_of.template operator()<T>(on, shape); });
  const OpDevice on(2);
  const auto all = attention_on<float>(on, shape);
  const auto one = attention_on<float>(on, {1, 29, 31, 3, 12, Mask::kRandom});
  for (size_t i = 0; i < 4; ++i) CHECK(std::equal(one[i].begin(), one[i].end(), all[i].begin()));
}

TEST_CASE("attention computes only the gradients that are wanted", "[gpu]") {
  const AttentionShape s = {2, 5, 9, 2, 3};
  const AttentionValues<float> in(s);
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const auto want = attention_on<float>(on, s);
    const DeviceTensor<float> q(on, in.q), k(on, in.k), v(on, in.v), dy(on, in.dy),
        y(on, nans(q.size())), statistics(on, nans(2 * 2 * 5 * 2));
    const ops::AttentionInputs<float> inputs{
        q.view(2, 5, 6), k.view(2, 9, 6), v.view(2, 9, 6), {}, 2};
    const auto kept = statistics.view(2, 10, 2);
    ops::attention_forward(on.exec(), inputs, kept, y.view(2, 5, 6));
    for (size_t i = 1; i < 4; ++i) {
      const DeviceTensor<float> d(on, nans(i == 1 ? q.size() : k.size()));
      const View<float, 3> to = d.view(2, i == 1 ? 5 : 9, 6), none;
      ops::attention_backward(on.exec(), inputs, kept, y.view(2, 5, 6), dy.view(2, 5, 6),
                              i == 1 ? to : none, i == 2 ? to : none, i == 3 ? to : none);
      CHECK(same_values(d.host(), want[i]));
    }
  }
}

TEST_CASE("attention of a row that is not a number shows in that row alone") {
  const AttentionShape s = {1, 9, 9, 1, 8};
  AttentionValues<float> in(s);
  in.q[8] = NAN;
  const OpDevice on(1);
  const DeviceTensor<float> q(on, in.q), k(on, in.k), v(on, in.v), y(on, in.q),
      statistics(on, nans(18));
  ops::attention_forward(on.exec(), {q.view(1, 9, 8), k.view(1, 9, 8), v.view(1, 9, 8), {}, 1},
                         statistics.view(1, 9, 2), y.view(1, 9, 8));
  const auto got = y.host();
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i / 8 == 1));
}

TEST_CASE("attention refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(64);
  const View<float, 3> rows(m.data(), 2, 3, 4), keys(m.data(), 2, 5, 4), mask(m.data(), 2, 3, 5),
      kept(m.data(), 2, 6, 2), other(m.data(), 2, 5, 3);
  using In = ops::AttentionInputs<float>;
  const auto forward = [&](const In& in, View<float, 3> statistics, View<float, 3> y) {
    ops::attention_forward(on.exec(), in, statistics, y);
  };
  CHECK_THROWS_AS(forward({rows, keys, other, mask, 2}, kept, rows), Error);
  CHECK_THROWS_AS(forward({rows, other, keys, mask, 2}, kept, rows), Error);
  CHECK_THROWS_AS(forward({rows, keys, keys, other, 2}, kept, rows), Error);
  CHECK_THROWS_AS(forward({rows, keys, keys, mask, 3}, kept, rows), Error);
  CHECK_THROWS_AS(forward({rows, keys, keys, mask, 1}, kept, rows), Error);
  CHECK_THROWS_AS(forward({rows, keys, keys, mask, 2}, kept, keys), Error);
  const auto backward = [&](View<float, 3> dq, View<float, 3> dk, View<float, 3> dv) {
    ops::attention_backward(on.exec(), In{rows, keys, keys, mask, 2}, kept, rows, rows, dq, dk, dv);
  };
  CHECK_THROWS_AS(backward(keys, keys, keys), Error);
  CHECK_THROWS_AS(backward(rows, rows, keys), Error);
  CHECK_THROWS_AS(backward(rows, keys, rows), Error);
}

}  // namespace hlite::test
