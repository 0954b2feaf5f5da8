#include "hugectr_lite/trainer/estimate/machine.h"

#include <fstream>

#include "hugectr_lite/core/error.h"
#include "tests/bench/measured_machine.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::trainer;
using test::check_contains;
using test::message_of;

TEST_CASE("a machine's JSON is read as it was written") {
  for (const Machine& m : known_machines()) {
    const Machine again = parse_machine(config::JsonNode::parse(bench::json_of(m), "m.json"));
    CHECK(again.name == m.name);
    CHECK(again.gpu == m.gpu);
    CHECK(again.flops_fp32 == m.flops_fp32);
    CHECK(again.flops_tf32 == m.flops_tf32);
    CHECK(again.flops_16 == m.flops_16);
    CHECK(again.memory_bytes_per_s == m.memory_bytes_per_s);
    CHECK(again.host_bytes_per_s == m.host_bytes_per_s);
    CHECK(again.step_seconds == m.step_seconds);
    CHECK(again.in_node.kind == m.in_node.kind);
    CHECK(again.in_node.bytes_per_s == m.in_node.bytes_per_s);
    CHECK(again.in_node.seconds == m.in_node.seconds);
    CHECK(again.between.bytes_per_s == m.between.bytes_per_s);
    CHECK(again.between.seconds == m.between.seconds);
    CHECK(again.nics == m.nics);
  }
}

TEST_CASE("a machine needs two rates, and the rest has values") {
  const Machine m = parse_machine(
      config::JsonNode::parse(R"({"flops":{"fp32":1e11},"memory_bytes_per_s":5e9})", "m.json"));
  CHECK(!m.gpu);
  CHECK(m.flops_16 == 1e11);
  CHECK(m.host_bytes_per_s == 5e9);
  CHECK(m.disk_read_bytes_per_s > 0);
  const Machine disk = parse_machine(config::JsonNode::parse(
      R"({"flops":{"fp32":1e11},"memory_bytes_per_s":5e9,"disk_read_bytes_per_s":1e8,"disk_written_bytes_per_s":2e8})",
      "m.json"));
  CHECK(disk.disk_read_bytes_per_s == 1e8);
  CHECK(disk.disk_written_bytes_per_s == 2e8);
  CHECK(m.between.bytes_per_s == 0);
}

TEST_CASE("a broken machine is an error with its place") {
  const auto error = [](const char* text) {
    return message_of<ConfigError>(
        [&] { (void)parse_machine(config::JsonNode::parse(text, "m.json")); });
  };
  check_contains(error(R"({"memory_bytes_per_s":5e9})"), {"m.json", "flops"});
  check_contains(error(R"({"flops":{"fp32":0},"memory_bytes_per_s":5e9})"),
                 {"flops.fp32", ">= 1", "found 0"});
  check_contains(error(R"({"flops":{"fp32":1e9},"memory_bytes_per_s":5e9,"speed":1})"), {"speed"});
  check_contains(
      error(R"({"flops":{"fp32":1e9},"memory_bytes_per_s":5e9,"between":{"seconds":1e-6}})"),
      {"between", "bytes_per_s"});
  check_contains(error(R"({"device":"tpu","flops":{"fp32":1e9},"memory_bytes_per_s":5e9})"),
                 {"device", "\"cpu\"", "\"gpu\""});
}

TEST_CASE("a system is a topology and a machine") {
  const System s = parse_system("14x8 dgx_a100");
  CHECK(s.nodes == 14);
  CHECK(s.ranks_of_node == 8);
  CHECK(s.machine.name == "dgx_a100");
  CHECK(parse_system("h200").nodes == 0);
  const auto error = [](const std::string& text) {
    return message_of<ConfigError>([&] { (void)parse_system(text); });
  };
  check_contains(error("dgx_a10"), {"dgx_a100", "dgx_h100", "h200", "\"dgx_a10\""});
  for (const char* shape : {"8", "0x8", "8x", "x", "-1x8", "8x8x8", "1x9999"})
    check_contains(error(std::string(shape) + " h200"), {"nodes x ranks", shape});
  test::TemporaryDirectory dir;
  std::ofstream(dir.path() + "/own.json") << R"({"flops":{"fp32":1e11},"memory_bytes_per_s":5e9})";
  CHECK(parse_system("2x1 " + dir.path() + "/own.json").machine.flops_fp32 == 1e11);
}
