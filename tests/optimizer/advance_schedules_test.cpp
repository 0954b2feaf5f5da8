#include "hugectr_lite/optimizer/advance_schedules.h"

#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using optimizer::LrSchedule;

// Their pieces all fall into the first thirty steps.
std::vector<LrSchedule> some_schedules(size_t count) {
  std::vector<LrSchedule> list;
  for (size_t i = 0; i < count; ++i) {
    const auto k = static_cast<int64_t>(i);
    list.push_back({.base = 0.1 + 0.01 * static_cast<double>(i),
                    .warmup_steps = 1 + k % 5,
                    .decay_start = k % 3 == 2 ? 0 : 8 + k,
                    .decay_steps = 9,
                    .decay_power = 1 + 0.5 * static_cast<double>(i % 4),
                    .end = 0.003,
                    .decay = static_cast<config::LrDecay>(i % 5 % 3),
                    .decay_rate = 0.9});
  }
  return list;
}

TEST_CASE("advance_schedules counts the step and gives every schedule its rate", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    for (const size_t count : {0u, 1u, 3u, 16u, 17u, 20u, 40u}) {
      INFO(on.name() << ", " << count << " schedules");
      const auto schedules = some_schedules(count);
      const DeviceTensor<int64_t> step(on, {0});
      const DeviceTensor<float> scale(on, {0.1f});  // as after a plateau
      const DeviceTensor<float> rates(on, nans(static_cast<int64_t>(count)));
      std::vector<float*> to;
      for (size_t i = 0; i < count; ++i) to.push_back(rates.data() + i);
      for (int64_t t = 1; t <= 30; ++t) {
        optimizer::advance_schedules(on.exec(), schedules, step.data(), scale.data(), to);
        REQUIRE(step.host()[0] == t);
        std::vector<double> want;
        std::vector<float> rounded;
        for (const auto& s : schedules) {
          want.push_back(static_cast<double>(0.1f) * optimizer::learning_rate(s, t));
          rounded.push_back(static_cast<float>(want.back()));
        }
        // A GPU's pow() may differ in the last bits of a double.
        check_close(rates.host(), want, {0, 0x1p-24 * 1.001}, "rate");
        if (!on.on_gpu()) CHECK(rates.host() == rounded);
      }
    }
  }
}

TEST_CASE("advance_schedules refuses lists that do not match") {
  const OpDevice on(1);
  const std::vector<LrSchedule> schedules(2);
  float rate = 0;
  float* const one[] = {&rate};
  int64_t step = 0;
  CHECK_THROWS_AS(optimizer::advance_schedules(on.exec(), schedules, &step, &rate, one), Error);
  CHECK_THROWS_AS(optimizer::advance_schedules(on.exec(), {}, nullptr, &rate, {}), Error);
  CHECK_THROWS_AS(optimizer::advance_schedules(on.exec(), {}, &step, nullptr, {}), Error);
}

}  // namespace
}  // namespace hlite::test
