#include "hugectr_lite/trainer/estimate/measured_machine.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::trainer;

namespace {

// A step as long as iteration_estimate.h says of a machine of these rates.
constexpr double kFlops = 1e11, kBytes = 2e10, kIdle = 3e-6;
MeasuredStep step(double flops, double bytes) {
  return {.work = {.flops = flops, .bytes = bytes},
          .seconds = kIdle + std::max(flops / kFlops, bytes / kBytes)};
}

}  // namespace

TEST_CASE("a machine's rates are those that its steps reached") {
  // Products; memory; a product that memory bounds; nothing.
  const MeasuredStep steps[] = {step(5e9, 1e6), step(1e9, 1e7), step(0, 4e8), step(1e6, 3e8),
                                step(0, 0)};
  const Machine m = measured_machine("this one", steps);
  CHECK(m.name == "this one");
  CHECK(!m.gpu);
  CHECK(m.flops_fp32 == Approx(kFlops));
  CHECK(m.flops_16 == m.flops_fp32);
  CHECK(m.memory_bytes_per_s == Approx(kBytes));
  CHECK(m.host_bytes_per_s == m.memory_bytes_per_s);
  CHECK(m.step_seconds == Approx(kIdle));
  CHECK(m.between.bytes_per_s == 0);
  const Machine again = parse_machine(config::JsonNode::parse(json_of(m), "m.json"));
  CHECK(again.memory_bytes_per_s == m.memory_bytes_per_s);
}

TEST_CASE("a machine of steps without products, or of products alone, is refused") {
  const auto error = [](std::vector<MeasuredStep> steps) {
    return test::message_of<ConfigError>([&] { (void)measured_machine("m", steps); });
  };
  test::check_contains(error({}), {"products bound", "memory bounds", "0 steps"});
  test::check_contains(error({step(0, 1e8), step(0, 0)}), {"2 steps", "0 FLOPs"});
  test::check_contains(error({step(1e9, 1), step(0, 0)}), {"0 bytes"});
}
