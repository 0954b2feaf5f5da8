// Runs `train` on a golden run and compares it, number by number.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/core/file.h"
#include "tests/end_to_end/golden_data.h"
#include "tests/support/compare.h"
#include "tests/support/metrics_events.h"
#include "tests/support/mpirun.h"
#include "tests/support/program.h"
#include "tests/support/sanitized.h"

namespace hlite::test {

inline std::vector<std::vector<double>> read_csv(const std::string& path) {
  std::istringstream in(read_text(path));
  std::string line;
  std::getline(in, line);  // header
  std::vector<std::vector<double>> rows;
  while (std::getline(in, line)) {
    std::vector<double> row;
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) row.push_back(std::stod(field));
    rows.push_back(std::move(row));
  }
  return rows;
}

inline constexpr const char* kFamilyRuns[] = {"wdl", "deepfm", "dcn", "dcnv2_multihot", "mmoe"};

using Tensors = std::map<std::string, std::vector<float>>;

inline Tensors read_weights(const std::string& path) {
  const ReadFile file(path);
  const checkpoint::SafetensorsReader reader(file);
  Tensors tensors;
  for (const auto& e : reader.tensors()) {
    auto& values = tensors[e.name];
    if (e.dtype == DType::kU32) {
      const auto words = reader.read_words(e.name);
      values.assign(words.begin(), words.end());
      continue;
    }
    values.resize(static_cast<size_t>((e.end - e.begin) / dtype_bytes(e.dtype)));
    reader.read(e.name, values);
  }
  return tensors;
}

// All weights and states of a checkpoint, without the numbers that a GPU's hash tables gave rows.
inline Tensors everything(const std::string& directory) {
  Tensors all = read_weights(directory + "/weights.safetensors");
  all.merge(read_weights(directory + "/optimizer.safetensors"));
  std::erase_if(all, [](const auto& tensor) { return tensor.first.ends_with(".rows"); });
  return all;
}

inline void check_close_tensors(const Tensors& got, const Tensors& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (const auto& [name, values] : want) {
    REQUIRE(got.count(name) == 1);
    check_close(std::span<const float>(got.at(name)), std::span<const float>(values),
                {.absolute = tolerance, .relative = tolerance}, name.c_str());
  }
}

// `name`: of the folder, or "folder/config". `changes` of the config, `environment` of the program;
// `processes` > 0: under mpirun. Under sanitizers a changed run ends after 40 iterations.
inline void check_run(const std::string& name, int threads,
                      const std::vector<std::string>& changes = {}, int processes = 0,
                      std::vector<std::string> environment = {}) {
  INFO(name << ", " << threads << " threads, " << fmt::format("{}", fmt::join(changes, " ")) << ", "
            << processes << " processes");
  const std::string folder = name.substr(0, name.find('/'));
  const GoldenRun run(folder);
  std::vector<std::string> base = std::move(environment);
  const auto mpirun = mpirun_prefix(processes);
  base.insert(base.end(), mpirun.begin(), mpirun.end());
  base.insert(base.end(),
              {HLITE_TRAIN, "--config",
               run / (folder == name ? "config.json" : name.substr(folder.size() + 1)), "--init",
               run / "init.safetensors", "--quiet", "--threads", std::to_string(threads)});
  for (const std::string& change : changes) base.insert(base.end(), {"--set", change});
  auto expected = read_csv(run / "expected_losses.csv");
  auto expected_evals = read_csv(run / "expected_eval.csv");
  auto whole = base;
  whole.insert(whole.end(), {"--set", "solver.display=1", "--metrics", run / "metrics.jsonl"});
  const bool shortened = kSanitized && !changes.empty();
  if (shortened) {
    std::erase_if(expected, [](const auto& row) { return row[0] > 40; });
    std::erase_if(expected_evals, [](const auto& row) { return row[0] > 40; });
    whole.insert(whole.end(), {"--set", "solver.max_iter=40", "--set", "solver.eval_interval=40"});
  }
  REQUIRE(run_program(whole).code == 0);

  std::map<int, nlohmann::json> losses, evals;
  const auto events = events_in(run / "metrics.jsonl");
  for (const auto& event : events) {
    if (event["event"] == "train") losses[event["iter"]] = event;
    if (event["event"] == "eval") evals[event["iter"]] = event;
  }
  const auto& last = events.back();
  CHECK(last["event"] == "end");
  CHECK(last["reason"] == "max_iter");

  REQUIRE(losses.size() == expected.size());
  double sum = 0;
  for (const auto& row : expected) {
    const int iter = static_cast<int>(row[0]);
    const double off = std::abs(losses[iter]["batch_loss"].get<double>() - row[2]) / row[2];
    INFO("iteration " << iter);
    CHECK(losses[iter]["lr"].get<double>() == Approx(row[1]).epsilon(1e-6));
    CHECK(off <= (iter <= 50 ? 1e-5 : 5e-3));
    sum += off;
  }
  CHECK(sum / static_cast<double>(expected.size()) <= 5e-4);
  REQUIRE(evals.size() == (shortened ? 1 : expected_evals.size()));
  for (const auto& row : expected_evals) {
    const auto& got = evals[static_cast<int>(row[0])];
    CHECK(std::abs(got["auc"].get<double>() - row[1]) <= 1e-3);
    CHECK(got["loss"].get<double>() == Approx(row[2]).epsilon(5e-3));
    for (size_t task = 0; 3 + task < row.size(); ++task)
      CHECK(std::abs(got["tasks"][task]["auc"].get<double>() - row[3 + task]) <= 1e-3);
  }

  auto twenty = base;
  twenty.insert(twenty.end(), {"--set", "solver.max_iter=20", "--export", run / "got.safetensors"});
  REQUIRE(run_program(twenty).code == 0);
  auto got = read_weights(run / "got.safetensors");
  std::erase_if(got, [](const auto& tensor) {
    return tensor.first.ends_with(".keys") || tensor.first.find(".running_") != std::string::npos;
  });
  check_close_tensors(got, read_weights(run / "weights_20.safetensors"), 1e-5);
}

// Of a whole golden run: losses within 2 %, AUC within 0.004 at every evaluation.
inline void check_run_16_bits(const std::string& name, const std::vector<std::string>& changes,
                              const std::vector<std::string>& prefix = {}) {
  INFO(name << ", " << fmt::format("{} {}", fmt::join(prefix, " "), fmt::join(changes, " ")));
  const GoldenRun run(name);
  std::vector<std::string> command = prefix;
  command.insert(command.end(),
                 {HLITE_TRAIN, "--config", run / "config.json", "--init", run / "init.safetensors",
                  "--quiet", "--device", "cpu", "--threads", "2", "--set", "solver.display=1",
                  "--metrics", run / "metrics.jsonl"});
  for (const std::string& change : changes) command.insert(command.end(), {"--set", change});
  REQUIRE(run_program(command).code == 0);
  std::map<int, double> losses, areas;
  for (const auto& event : events_in(run / "metrics.jsonl")) {
    if (event["event"] == "train") losses[event["iter"]] = event["batch_loss"];
    if (event["event"] == "eval") areas[event["iter"]] = event["auc"];
  }
  const auto expected = read_csv(run / "expected_losses.csv");
  const auto expected_evals = read_csv(run / "expected_eval.csv");
  REQUIRE(losses.size() == expected.size());
  REQUIRE(areas.size() == expected_evals.size());
  double off = 0;
  for (const auto& row : expected) {
    INFO("iteration " << row[0]);
    CHECK(losses[static_cast<int>(row[0])] == Approx(row[2]).epsilon(0.02));
    off += std::abs(losses[static_cast<int>(row[0])] - row[2]);
  }
  CHECK(off > 0.001);  // it was not float
  for (const auto& row : expected_evals) {
    INFO("after iteration " << row[0]);
    CHECK(std::abs(areas[static_cast<int>(row[0])] - row[1]) <= 0.004);
  }
}

}  // namespace hlite::test
