#include "tests/bench/measured_machine.h"

#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::bench;

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

TEST_CASE("a link is fitted to exchanges by their relative errors") {
  constexpr double kRate = 3e9, kLatency = 5e-6;
  std::vector<MeasuredExchange> exact;
  for (double bytes = 1024; bytes < 1e8; bytes *= 4)
    for (const int turns : {1, 2})
      exact.push_back({bytes, turns, turns * kLatency + bytes / kRate});
  const MachineLink link = measured_link("memory", exact);
  CHECK(link.kind == "memory");
  CHECK(link.bytes_per_s == Approx(kRate));
  CHECK(link.seconds == Approx(kLatency));
  // Relative errors of 10 % either way, in turn: a large message counts no more than a small one.
  for (size_t i = 0; i < exact.size(); ++i) exact[i].seconds *= i % 2 == 0 ? 1.1 : 0.9;
  const MachineLink near = measured_link("memory", exact);
  CHECK(near.bytes_per_s == Approx(kRate).epsilon(0.1));
  CHECK(near.seconds == Approx(kLatency).epsilon(0.15));
  // What would need a latency below 0.
  const MachineLink without =
      measured_link("", std::vector<MeasuredExchange>{{1e3, 1, 1e-7}, {1e6, 1, 3e-4}});
  CHECK(without.seconds == 0);
  CHECK(without.bytes_per_s > 1e9);
  test::check_contains(
      test::message_of<ConfigError>([] {
        (void)measured_link("", std::vector<MeasuredExchange>{{1e3, 1, 1e-3}, {1e6, 1, 1e-6}});
      }),
      {"a link's rate", "found 2"});
  test::check_contains(test::message_of<ConfigError>([] { (void)measured_link("", {}); }),
                       {"found 0"});
}

TEST_CASE("an exchange takes its turns and its bytes on both links, and adapters are shared") {
  Machine m;
  m.in_node = {"nvlink", 1e11, 7e-6};
  m.between = {"", 2e10, 25e-6};
  m.nics = 2;
  const ExchangeSeconds s = exchange_seconds(
      m, {.nodes = 2, .ranks_of_node = 8, .in_node = 1e6, .between = 2e6, .turns = 2});
  CHECK(s.in_node == Approx(14e-6 + 1e-5));
  CHECK(s.between == Approx(50e-6 + 4e-4));
  const ExchangeSeconds one_node = exchange_seconds(m, {.ranks_of_node = 2, .in_node = 1e6});
  CHECK(one_node.in_node == Approx(17e-6));
  CHECK(one_node.between == 0);
}
