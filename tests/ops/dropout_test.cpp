#include "hugectr_lite/ops/dropout.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

// The mask of step 3, unless another one is given, in a device's memory.
struct Dropped {
  ops::DropoutMask mask;
  DeviceTensor<int64_t> step;

  explicit Dropped(const OpDevice& on, float rate, int64_t first_element = 0, int64_t at = 3)
      : mask{.rate = rate, .seed = 42, .stream = 7, .first_element = first_element},
        step(on, {at}) {
    mask.step = step.data();
  }
  template <typename T>
  std::vector<float> forward(const OpDevice& on, const std::vector<float>& x) const {
    const DeviceTensor<T> from(on, x), y(on, nans(from.size()));
    ops::dropout<T>(on.exec(), from, y, mask);
    return y.host();
  }
};

TEMPLATE_TEST_CASE("dropout follows the counter-based random numbers, forward and backward",
                   "[gpu]", float, bf16, fp16) {
  using T = TestType;
  constexpr float kRate = 0.3f;
  for (const int64_t first : {0L, 1L, 3L, 4L, 6L, 8L, 1029L, 1L << 39})
    for_each_size<T>([&](const OpDevice& on, int64_t n, int64_t offset) {
      if (n == kManyElements && first != 3) return;
      INFO("from " << first);
      const auto x = random_values<T>(n, 1), dy = random_values<T>(n, 2);
      std::vector<float> want_y, want_dx;
      for (size_t i = 0; i < x.size(); ++i) {
        const uint64_t index = (uint64_t{3} << 40) + static_cast<uint64_t>(first) + i;
        const bool kept = random::uniform(random::word(42, 7, index)) >= kRate;
        want_y.push_back(kept ? x[i] * (1 / (1 - kRate)) : 0);
        want_dx.push_back(kept ? dy[i] * (1 / (1 - kRate)) : 0);
      }
      const Dropped dropped(on, kRate, first);
      const DeviceTensor<T> from(on, x, offset), gradient(on, dy, offset);
      const DeviceTensor<T> y(on, nans(n), offset), dx(on, nans(n), offset);
      ops::dropout<T>(on.exec(), from, y, dropped.mask);
      CHECK(same_values(y.host(), as<T>(want_y)));
      ops::dropout<T>(on.exec(), gradient, dx, dropped.mask);
      CHECK(same_values(dx.host(), as<T>(want_dx)));
      ops::dropout<T>(on.exec(), from, from, dropped.mask);
      CHECK(same_values(from.host(), as<T>(want_y)));
    });
}

TEST_CASE("dropout drops at its rate and keeps the mean", "[gpu]") {
  constexpr int64_t kSize = 200000;
  for (const OpDevice& on : op_devices<float>()) {
    for (const float rate : {0.1f, 0.5f, 0.9f}) {
      INFO(on.name() << ", rate " << rate);
      const auto y = Dropped(on, rate).forward<float>(on, std::vector<float>(kSize, 1.0f));
      const auto zeros = static_cast<double>(std::count(y.begin(), y.end(), 0.0f));
      const double expected = static_cast<double>(rate) * kSize;
      const double deviation = std::sqrt(expected * (1 - static_cast<double>(rate)));
      CHECK(std::abs(zeros - expected) < 4 * deviation);
      CHECK(*std::max_element(y.begin(), y.end()) == 1 / (1 - rate));
    }
  }
}

TEST_CASE("dropout of rate 0 copies; other seeds, streams and steps give other masks", "[gpu]") {
  const auto x = random_values(1000, 1);
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    CHECK(Dropped(on, 0).forward<float>(on, x) == x);
    Dropped other(on, 0.5f);
    const auto y = other.forward<float>(on, x);
    CHECK(Dropped(on, 0.5f).forward<float>(on, x) == y);
    ++other.mask.seed;
    CHECK(other.forward<float>(on, x) != y);
    --other.mask.seed, ++other.mask.stream;
    CHECK(other.forward<float>(on, x) != y);
    CHECK(Dropped(on, 0.5f, 0, 4).forward<float>(on, x) != y);
  }
}

TEST_CASE("dropout gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    return Dropped(on, 0.5f, 3).forward<T>(on, random_values<T>(4099, 1));
  });
}

TEST_CASE("dropout refuses wrong rates and sizes") {
  const OpDevice on(1);
  const DeviceTensor<float> four(on, nans(4)), five(on, nans(5));
  const auto mask_of = [step = int64_t{3}](float rate) {
    return ops::DropoutMask{.rate = rate, .step = &step};
  };
  CHECK_THROWS_AS(ops::dropout(on.exec(), four, five, mask_of(0.5f)), Error);
  CHECK_THROWS_AS(ops::dropout(on.exec(), four, four, mask_of(1.0f)), Error);
  CHECK_THROWS_AS(ops::dropout(on.exec(), four, four, mask_of(-0.1f)), Error);
  CHECK_THROWS_AS(ops::dropout(on.exec(), four, four, mask_of(NAN)), Error);
  CHECK_THROWS_AS(ops::dropout(on.exec(), four, four, {.rate = 0.5f}), Error);
}

}  // namespace
}  // namespace hlite::test
