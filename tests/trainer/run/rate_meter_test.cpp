#include "hugectr_lite/trainer/run/rate_meter.h"

#include "tests/support/catch.h"

namespace hlite::trainer {

TEST_CASE("rates count training time only, from the last lap on") {
  RateMeter meter;
  CHECK(meter.samples_per_second(5, 100) == 0);  // nothing has run
  meter.resume(10);
  CHECK(meter.samples_per_second(12, 100) == 50);
  CHECK(meter.wait_share(12, 0.5) == 0.25);
  meter.pause(12);  // an evaluation
  meter.resume(20);
  CHECK(meter.samples_per_second(22, 200) == 50);  // 200 samples in 2 + 2 seconds
  CHECK(meter.total_seconds(22) == 4);
  meter.start_lap(22, 200, 0.5);
  CHECK(meter.samples_per_second(23, 230) == 30);
  CHECK(meter.wait_share(24, 1.5) == 0.5);
  meter.pause(24);
  CHECK(meter.total_seconds(100) == 6);
}

}  // namespace hlite::trainer
