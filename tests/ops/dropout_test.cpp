#include "hugectr_lite/ops/dropout.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {
constexpr uint64_t kSeed = 42, kStream = 7;

TEST_CASE("dropout follows the counter-based random numbers, forward and backward") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t n : {0, 1, 7, 33, 1031, 20011}) {
      for (const uint64_t first : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 40}) {
        constexpr float kRate = 0.3f;
        const auto x = test::random_values(n, 1), dy = test::random_values(n, 2);
        std::vector<float> want_y, want_dx;
        for (size_t i = 0; i < x.size(); ++i) {
          const bool kept = random::uniform(random::word(kSeed, kStream, first + i)) >= kRate;
          want_y.push_back(kept ? x[i] * (1 / (1 - kRate)) : 0);
          want_dx.push_back(kept ? dy[i] * (1 / (1 - kRate)) : 0);
        }
        std::vector<float> y(x.size(), NAN), dx(x.size(), NAN);
        dropout_forward(threads.exec(), {x.data(), n}, {y.data(), n}, kRate, kSeed, kStream, first);
        dropout_backward(threads.exec(), {dy.data(), n}, {dx.data(), n}, kRate, kSeed, kStream,
                         first);
        CAPTURE(count, n, first);
        CHECK(y == want_y);
        CHECK(dx == want_dx);
        auto in_place = x;
        dropout_forward(threads.exec(), {in_place.data(), n}, {in_place.data(), n}, kRate, kSeed,
                        kStream, first);
        CHECK(in_place == want_y);
      }
    }
  }
}

TEST_CASE("dropout drops at its rate and keeps the mean") {
  test::Threads threads(2);
  constexpr int64_t kSize = 200000;
  const std::vector<float> x(kSize, 1.0f);
  std::vector<float> y(x.size());
  for (const float rate : {0.1f, 0.5f, 0.9f}) {
    dropout_forward(threads.exec(), {x.data(), kSize}, {y.data(), kSize}, rate, kSeed, kStream, 0);
    const auto zeros = static_cast<double>(std::count(y.begin(), y.end(), 0.0f));
    const double expected = static_cast<double>(rate) * kSize;
    const double deviation = std::sqrt(expected * (1 - static_cast<double>(rate)));
    CAPTURE(rate);
    CHECK(std::abs(zeros - expected) < 4 * deviation);
    CHECK(*std::max_element(y.begin(), y.end()) == 1 / (1 - rate));
  }
}

TEST_CASE("dropout of rate 0 copies; other seeds and streams give other masks") {
  test::Threads threads(1);
  const auto x = test::random_values(1000, 1);
  const auto run = [&](float rate, uint64_t seed, uint64_t stream) {
    std::vector<float> y(x.size());
    dropout_forward(threads.exec(), {x.data(), 1000}, {y.data(), 1000}, rate, seed, stream, 0);
    return y;
  };
  CHECK(run(0, kSeed, kStream) == x);
  const auto y = run(0.5f, kSeed, kStream);
  CHECK(run(0.5f, kSeed + 1, kStream) != y);
  CHECK(run(0.5f, kSeed, kStream + 1) != y);
  CHECK(run(0.5f, kSeed, kStream) == y);
}

TEST_CASE("dropout refuses wrong rates and sizes") {
  test::Threads threads(1);
  std::vector<float> m(5);
  const Vector<float> four(m.data(), 4), five(m.data(), 5);
  CHECK_THROWS_AS(dropout_forward(threads.exec(), four, five, 0.5f, 0, 0, 0), Error);
  CHECK_THROWS_AS(dropout_forward(threads.exec(), four, four, 1.0f, 0, 0, 0), Error);
  CHECK_THROWS_AS(dropout_backward(threads.exec(), four, four, -0.1f, 0, 0, 0), Error);
  CHECK_THROWS_AS(dropout_backward(threads.exec(), four, four, NAN, 0, 0, 0), Error);
}

}  // namespace
}  // namespace hlite::ops
