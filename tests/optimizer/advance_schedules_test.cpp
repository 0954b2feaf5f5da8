#include "hugectr_lite/optimizer/advance_schedules.h"

#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/optimizer/schedule_cases.h"
#include "tests/support/catch.h"

using namespace hlite;
using optimizer::LrSchedule;

TEST_CASE("advance_schedules counts the step and gives every schedule its rate") {
  ThreadPool pool(1);
  const Exec exec{.pool = &pool};
  for (const size_t count : {0u, 1u, 3u, 20u}) {
    const std::vector<LrSchedule> schedules = test::some_schedules(count);
    std::vector<float> rates(count, -1);
    std::vector<float*> to;
    for (float& rate : rates) to.push_back(&rate);
    int64_t step = 0;
    for (int64_t t = 1; t <= 30; ++t) {
      optimizer::advance_schedules(exec, schedules, &step, to);
      REQUIRE(step == t);
      for (size_t i = 0; i < count; ++i)
        CHECK(rates[i] == static_cast<float>(optimizer::learning_rate(schedules[i], t)));
    }
  }
}

TEST_CASE("advance_schedules refuses lists that do not match") {
  ThreadPool pool(1);
  const Exec exec{.pool = &pool};
  const std::vector<LrSchedule> schedules(2);
  float rate = 0;
  float* const one[] = {&rate};
  int64_t step = 0;
  CHECK_THROWS_AS(optimizer::advance_schedules(exec, schedules, &step, one), Error);
  CHECK_THROWS_AS(optimizer::advance_schedules(exec, {}, nullptr, {}), Error);
}
