#include "hugectr_lite/optimizer/lr_schedule.h"

#include "tests/support/catch.h"

using namespace hlite;
using optimizer::learning_rate;
using optimizer::LrSchedule;

namespace {
constexpr double kTight = 1e-14;  // relative
double relative_error(double got, double want) { return std::abs(got - want) / std::abs(want); }
}  // namespace

TEST_CASE("learning_rate follows a reference run through warm-up, plateau and decay") {
  const LrSchedule schedule{.base = 0.12,
                            .warmup_steps = 50,
                            .decay_start = 200,
                            .decay_steps = 200,
                            .decay_power = 2,
                            .end = 0.01};
  // From an independent implementation.
  const std::pair<int64_t, double> reference[] = {{1, 0.0024},
                                                  {2, 0.0048},
                                                  {11, 0.026399999999999996},
                                                  {49, 0.1176},
                                                  {50, 0.12},
                                                  {51, 0.12},
                                                  {200, 0.12},
                                                  {201, 0.118803},
                                                  {202, 0.117612},
                                                  {250, 0.0675},
                                                  {299, 0.030602999999999998},
                                                  {300, 0.03}};
  for (const auto& [step, lr] : reference) {
    INFO("step " << step);
    CHECK(relative_error(learning_rate(schedule, step), lr) < kTight);
  }
}

TEST_CASE("learning_rate: edges of the pieces") {
  LrSchedule s{.base = 2,
               .warmup_steps = 4,
               .decay_start = 10,
               .decay_steps = 5,
               .decay_power = 1,
               .end = 0.5};
  CHECK(learning_rate(s, 1) == 0.5);
  CHECK(learning_rate(s, 4) == 2);
  CHECK(learning_rate(s, 5) == 2);
  CHECK(learning_rate(s, 10) == 2);
  CHECK(relative_error(learning_rate(s, 11), 2 * 4.0 / 5) < kTight);
  CHECK(relative_error(learning_rate(s, 13), 2 * 2.0 / 5) < kTight);
  CHECK(learning_rate(s, 14) == 0.5);  // 0.4 is below the end
  CHECK(learning_rate(s, 15) == 0.5);
  CHECK(learning_rate(s, 16) == 0.5);
  CHECK(learning_rate(s, int64_t{1} << 40) == 0.5);
  s.end = 0;
  CHECK(learning_rate(s, 15) == 0);
  CHECK(learning_rate(s, 16) == 0);
}

// The definitions with numbers of their own: left and done are counted from other ends there.
TEST_CASE("learning_rate: cosine decay goes along half a wave, then stays at the end") {
  const LrSchedule s{.base = 0.75,
                     .warmup_steps = 3,
                     .decay_start = 5,
                     .decay_steps = 7,
                     .end = 0.125,
                     .decay = config::LrDecay::kCosine};
  CHECK(learning_rate(s, 1) == 0.25);
  CHECK(learning_rate(s, 3) == 0.75);
  CHECK(learning_rate(s, 5) == 0.75);
  for (int64_t done = 1; done <= 7; ++done) {
    INFO("done " << done);
    const double wave = 1 + std::cos(std::acos(-1.0) * static_cast<double>(done) / 7);
    CHECK(relative_error(learning_rate(s, 5 + done), 0.125 + 0.625 * wave / 2) < kTight);
  }
  CHECK(learning_rate(s, 12) == 0.125);
  CHECK(learning_rate(s, 13) == 0.125);
  CHECK(learning_rate(s, int64_t{1} << 40) == 0.125);
}

TEST_CASE("learning_rate: exponential decay multiplies by its rate, down to the end") {
  LrSchedule s{.base = 2,
               .warmup_steps = 4,
               .decay_start = 4,
               .decay_steps = 3,
               .decay = config::LrDecay::kExponential,
               .decay_rate = 0.5};
  CHECK(learning_rate(s, 2) == 1);
  CHECK(learning_rate(s, 4) == 2);
  for (int64_t done = 1; done < 40; ++done)
    CHECK(relative_error(learning_rate(s, 4 + done),
                         2 * std::exp(-static_cast<double>(done) / 3 * std::log(2.0))) < 1e-13);
  s.end = 0.3;
  CHECK(learning_rate(s, 4 + 8) > 0.3);
  CHECK(learning_rate(s, 4 + 9) == 0.3);
  CHECK(learning_rate(s, int64_t{1} << 40) == 0.3);
  s.decay_rate = 1;
  CHECK(learning_rate(s, 1000) == 2);
}

TEST_CASE(
    "learning_rate: without decay it stays at the base; a config's defaults have no warm-up") {
  const LrSchedule s{.base = 0.3};
  CHECK(learning_rate(s, 1) == 0.3);
  CHECK(learning_rate(s, 1000000) == 0.3);
}
