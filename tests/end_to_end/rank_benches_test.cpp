// tests/bench/comm_bench and exchange_bench: their measurements are there, and counted alike on CPU
// ranks and GPUs. Times are not checked.
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <sstream>

#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using nlohmann::json;

const Words kTwoGpus = {kFourGpus[0], kFourGpus[1], "HLITE_EMULATED_DEVICES=2"};

// The JSON objects that a benchmark prints.
std::vector<json> numbers_of(const Words& command) {
  auto result = run_program(command);
  // On a busy machine a small message may take longer than a large one: it is measured again.
  while (result.err.find("expected exchanges that take longer") != std::string::npos)
    result = run_program(command);
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());  // --quiet
  std::vector<json> numbers;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) numbers.push_back(json::parse(line));
  return numbers;
}

json comm_bench(const Words& before, const Words& options) {
  const auto numbers =
      numbers_of(before + Words{HLITE_COMM_BENCH, "--seconds", "0.0003", "--quiet"} + options);
  REQUIRE(numbers.size() == 1);
  return numbers[0];
}

TEST_CASE("comm_bench measures every collective and gives an estimate its link") {
  const SmallRun run;
  write_text(run / "machine.json", R"({"flops":{"fp32":1e11},"memory_bytes_per_s":1e10,
"between":{"bytes_per_s":1e9,"seconds":1e-5}})");
  const json cpu = comm_bench({}, {"--sizes", "1K,4M", "--machine", run / "machine.json"});
  const json& calls = cpu["calls"];
  REQUIRE(calls.size() == 10);
  std::set<std::string> names;
  for (const json& call : calls) {
    names.insert(call["name"].get<std::string>());
    CHECK(call["us"].get<double>() > 0);
    CHECK(call["model_us"].get<double>() > 0);
    CHECK(call["graph_us"].get<double>() == 0);
    CHECK(call["between"].get<double>() == 0);
    // Of two ranks: a slice there and a slice back, or one of the two slices, or all of it.
    const double bytes = call["bytes"].get<double>();
    const bool whole = call["name"] == "all_reduce" || call["name"] == "broadcast";
    CHECK(call["in_node"].get<double>() == (whole ? bytes : bytes / 2));
  }
  CHECK(names.size() == 5);
  const json machine = json::parse(read_text(run / "machine.json"));
  CHECK(machine["in_node"]["bytes_per_s"].get<double>() > 0);
  CHECK(machine["in_node"]["kind"] == "memory");
  CHECK(machine["between"]["bytes_per_s"].get<double>() == 1e9);  // as it was
  CHECK(run.train({"--set", gpu("[[0,1]]"), "--estimate", "1x2 " + (run / "machine.json")}).code ==
        0);
}

TEST_CASE("comm_bench goes by rails between nodes, and captures on GPUs that no ranks share") {
  const json nodes = comm_bench({}, {"--ranks", "4", "--nodes", "2", "--sizes", "1K", "--only",
                                     "all_reduce,broadcast", "--system", "dgx_h100"});
  REQUIRE(nodes["calls"].size() == 3);
  const json &flat = nodes["calls"][0], &rails = nodes["calls"][2];
  CHECK(rails["route"] == "rails");
  CHECK(rails["between"].get<double>() < flat["between"].get<double>());
  CHECK(flat["model_us"].get<double>() > 2 * (7 + 25));  // two turns over both links
  for (const int ranks : {2, 4}) {
    const json gpus = comm_bench(
        kTwoGpus, {"--device", "cuda", "--ranks", std::to_string(ranks), "--sizes", "1K"});
    REQUIRE(gpus["calls"].size() == 5);
    for (const json& call : gpus["calls"]) {
      CHECK(call["us"].get<double>() > 0);
      CHECK((call["graph_us"].get<double>() > 0) == (ranks == 2));
    }
  }
  const auto refused = [](const Words& options) {
    const auto result = run_program(Words{HLITE_COMM_BENCH} + options);
    CHECK(result.code == 1);
    return result.err;
  };
  check_contains(refused({"--ranks", "3", "--nodes", "2"}), {"3 ranks on 2 nodes"});
  check_contains(refused({"--sizes", "100"}), {"--sizes", "found 100"});
  check_contains(refused({"--system", "cray"}), {"dgx_a100", "\"cray\""});
  check_contains(
      refused({"--sizes", "1K", "--ranks", "1", "--seconds", "0", "--machine", "m.json"}),
      {"--machine", "1 ranks on 1 nodes"});
}

// Of each step what it sent, of every run of the benchmark.
std::vector<std::map<std::string, double>> sent_by_steps(const Words& before,
                                                         const Words& options) {
  std::vector<std::map<std::string, double>> all;
  for (const json& run : numbers_of(before +
                                    Words{HLITE_EXCHANGE_BENCH, "--shape", "tiny", "--cap", "100",
                                          "--seconds", "0.0003", "--quiet"} +
                                    options)) {
    CHECK(run["iteration_ms"].get<double>() > 0);
    auto& steps = all.emplace_back();
    for (const json& step : run["steps"]) {
      CHECK(step["ms"].get<double>() > 0);
      CHECK(step["bytes"].get<double>() > 0);
      steps[step["name"].get<std::string>()] =
          step["in_node"].get<double>() + step["between"].get<double>();
    }
  }
  return all;
}

TEST_CASE("exchange_bench times an embedding's steps and counts alike on CPU ranks and GPUs") {
  const Words two = {"--ranks", "2", "--batch", "32", "--alpha", "0,1.05"};
  const auto cpu = sent_by_steps({}, two);
  REQUIRE(cpu.size() == 2);
  for (const auto& steps : cpu) {
    std::string names;
    for (const auto& [name, bytes] : steps) names += name + " ";
    CHECK(names ==
          "gather grads_exchange keys_exchange pool reduce route rows_exchange sort update ");
    CHECK(steps.at("rows_exchange") > 0);
    CHECK(steps.at("route") == 0);
  }
  // Skewed keys are fewer distinct rows.
  CHECK(cpu[1].at("rows_exchange") < cpu[0].at("rows_exchange"));
  const auto gpus = sent_by_steps(
      kTwoGpus, {"--ranks", "2", "--batch", "32", "--alpha", "1.05", "--device", "cuda"});
  REQUIRE(gpus.size() == 1);
  for (const char* step : {"keys_exchange", "rows_exchange", "grads_exchange"})
    CHECK(gpus[0].at(step) == cpu[1].at(step));
  const auto shared = sent_by_steps(kTwoGpus, {"--ranks", "1,3", "--batch", "33", "--alpha", "1.05",
                                               "--device", "cuda", "--precision", "bf16"});
  REQUIRE(shared.size() == 2);
  CHECK(shared[0].count("lookup") == 1);
  CHECK(shared[1].count("sort") == 1);
  const auto odd = run_program({HLITE_EXCHANGE_BENCH, "--ranks", "3"});
  CHECK(odd.code == 1);
  check_contains(odd.err, {"multiple of the 3 ranks", "found 8192"});
}

}  // namespace
}  // namespace hlite::test
