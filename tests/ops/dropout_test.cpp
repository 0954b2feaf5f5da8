#include "hugectr_lite/ops/dropout.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {
constexpr uint64_t kSeed = 42, kStream = 7;
constexpr int64_t kDroppedStep = 3;

DropoutMask mask_of(float rate, int64_t first_element = 0) {
  return {.rate = rate,
          .seed = kSeed,
          .stream = kStream,
          .step = &kDroppedStep,
          .first_element = first_element};
}

TEST_CASE("dropout follows the counter-based random numbers, forward and backward") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t n : {0, 1, 7, 33, 1031, 20011}) {
      for (const int64_t first : {int64_t{0}, int64_t{3}, int64_t{1} << 39}) {
        constexpr float kRate = 0.3f;
        const uint64_t start = (uint64_t{kDroppedStep} << 40) + static_cast<uint64_t>(first);
        const auto x = test::random_values(n, 1), dy = test::random_values(n, 2);
        std::vector<float> want_y, want_dx;
        for (size_t i = 0; i < x.size(); ++i) {
          const bool kept = random::uniform(random::word(kSeed, kStream, start + i)) >= kRate;
          want_y.push_back(kept ? x[i] * (1 / (1 - kRate)) : 0);
          want_dx.push_back(kept ? dy[i] * (1 / (1 - kRate)) : 0);
        }
        std::vector<float> y(x.size(), NAN), dx(x.size(), NAN);
        dropout_forward(threads.exec(), {x.data(), n}, {y.data(), n}, mask_of(kRate, first));
        dropout_backward(threads.exec(), {dy.data(), n}, {dx.data(), n}, mask_of(kRate, first));
        CAPTURE(count, n, first);
        CHECK(y == want_y);
        CHECK(dx == want_dx);
        auto in_place = x;
        dropout_forward(threads.exec(), {in_place.data(), n}, {in_place.data(), n},
                        mask_of(kRate, first));
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
    dropout_forward(threads.exec(), {x.data(), kSize}, {y.data(), kSize}, mask_of(rate));
    const auto zeros = static_cast<double>(std::count(y.begin(), y.end(), 0.0f));
    const double expected = static_cast<double>(rate) * kSize;
    const double deviation = std::sqrt(expected * (1 - static_cast<double>(rate)));
    CAPTURE(rate);
    CHECK(std::abs(zeros - expected) < 4 * deviation);
    CHECK(*std::max_element(y.begin(), y.end()) == 1 / (1 - rate));
  }
}

TEST_CASE("dropout of rate 0 copies; other seeds, streams and steps give other masks") {
  test::Threads threads(1);
  const auto x = test::random_values(1000, 1);
  const auto run = [&](const DropoutMask& mask) {
    std::vector<float> y(x.size());
    dropout_forward(threads.exec(), {x.data(), 1000}, {y.data(), 1000}, mask);
    return y;
  };
  CHECK(run(mask_of(0)) == x);
  const auto y = run(mask_of(0.5f));
  CHECK(run(mask_of(0.5f)) == y);
  DropoutMask other = mask_of(0.5f);
  ++other.seed;
  CHECK(run(other) != y);
  other = mask_of(0.5f);
  ++other.stream;
  CHECK(run(other) != y);
  const int64_t later = kDroppedStep + 1;
  other = mask_of(0.5f);
  other.step = &later;
  CHECK(run(other) != y);
}

TEST_CASE("dropout refuses wrong rates and sizes") {
  test::Threads threads(1);
  std::vector<float> m(5);
  const Vector<float> four(m.data(), 4), five(m.data(), 5);
  CHECK_THROWS_AS(dropout_forward(threads.exec(), four, five, mask_of(0.5f)), Error);
  CHECK_THROWS_AS(dropout_forward(threads.exec(), four, four, mask_of(1.0f)), Error);
  CHECK_THROWS_AS(dropout_backward(threads.exec(), four, four, mask_of(-0.1f)), Error);
  CHECK_THROWS_AS(dropout_backward(threads.exec(), four, four, mask_of(NAN)), Error);
  CHECK_THROWS_AS(dropout_forward(threads.exec(), four, four, {.rate = 0.5f}), Error);
}

}  // namespace
}  // namespace hlite::ops
