// A trainer that is driven step by step, beside one that runs.
#include "hugectr_lite/trainer/run/trainer.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cmath>
#include <sstream>

#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using trainer::Options;
using trainer::RankOptions;
using trainer::Trainer;

struct Case {
  const char* name;
  const cuda::Backend* gpu = nullptr;
  std::vector<std::string> changes = {};
};

std::vector<Case> cases() {
  return {{"one rank"},
          {"two nodes with two ranks", nullptr, {gpu("[[0,1],[2,3]]")}},
          {"a GPU with graphs", &emulated_cuda(), {"solver.algorithm_search=false"}}};
}

std::unique_ptr<config::TrainConfig> config_of(const SmallRun& run, const Case& c,
                                               std::vector<std::string> changes) {
  changes.insert(changes.end(), c.changes.begin(), c.changes.end());
  return config::load_train_config(run / "config.json", changes);
}

// body(trainer) on every rank of the config.
template <typename Body>
void on_ranks(const config::TrainConfig& config, const Options& options, const Case& c,
              Body&& body) {
  const auto topology = std::make_shared<const comm::Topology>(trainer::topology_of(config.solver));
  const auto placements = trainer::make_placements(config, *topology, true);
  comm::run_ranks(*topology, [&](comm::Communicator& world) {
    Trainer trainer(config, options,
                    {.ranks = {world.rank(), topology, &world},
                     .placements = placements,
                     .threads = 1,
                     .gpu = c.gpu});
    body(trainer);
  });
}

std::map<int64_t, double> areas_in(const std::string& metrics) {
  std::map<int64_t, double> areas;
  std::istringstream lines(read_text(metrics));
  for (std::string line; std::getline(lines, line);)
    if (const auto event = nlohmann::json::parse(line); event["event"] == "eval")
      areas[event["iter"]] = event["auc"];
  return areas;
}

}  // namespace

TEST_CASE("a trainer driven step by step gives the bits of one that runs") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const SmallRun run;
    const auto config = config_of(run, c, {"solver.max_iter=23", "solver.eval_interval=10"});
    const Options options{
        .export_path = run / "run.safetensors", .metrics = run / "metrics", .quiet = true};
    on_ranks(*config, options, c, [](Trainer& trainer) {
      if (trainer.run() != kExitDone) raise<Error>("the run did not end");
    });
    const auto areas = areas_in(run / "metrics");
    REQUIRE(areas.size() == 2);

    std::map<int64_t, double> driven;
    std::vector<double> losses;
    int64_t samples = 0;
    on_ranks(*config, {.quiet = true}, c, [&](Trainer& trainer) {
      const bool first = trainer.ranks().rank == 0;
      trainer.start();
      while (!trainer.finished()) {
        trainer.step();
        const double loss = trainer.loss();
        trainer.check_weights();
        if (first) losses.push_back(loss);
        if (trainer.iteration() % 10 != 0) continue;
        const auto result = trainer.evaluate();
        if (first) driven[trainer.iteration()] = result.value().auc.value();
      }
      if (first) samples = trainer.samples();
      trainer.export_weights(run / "driven.safetensors");
    });
    CHECK(driven == areas);
    CHECK(losses.size() == 23);
    CHECK(losses.front() > losses.back());
    CHECK(samples == 500 + 7 * 32);  // an epoch of 16 batches, the last one partial
    CHECK((read_text(run / "driven.safetensors") == read_text(run / "run.safetensors")));
  }
}

TEST_CASE("a trainer that goes on from a checkpoint gives the bits of one that did not stop") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const SmallRun run;
    const auto config = config_of(run, c, {"solver.max_iter=20"});
    const auto train = [&](const Options& options, int64_t steps, const std::string& to) {
      on_ranks(*config, options, c, [&](Trainer& trainer) {
        trainer.start();
        while (trainer.iteration() < steps) trainer.step();
        trainer.save(run / to);
      });
    };
    train({.quiet = true}, 20, "whole");
    train({.quiet = true}, 9, "half");
    train({.resume = run / "half", .quiet = true}, 20, "resumed");
    for (const char* file : {"/weights.safetensors", "/optimizer.safetensors"})
      CHECK((read_text(run / "resumed" + file) == read_text(run / "whole" + file)));
  }
}

TEST_CASE("weights that are not finite on one rank alone end all ranks, with one message") {
  const SmallRun run;
  const Case ranks{"two ranks", nullptr, {gpu("[[0,1]]")}};
  const auto config = config_of(run, ranks, {"solver.max_iter=9"});
  std::atomic<int> told = 0;
  const auto train = [&](int broken) {
    on_ranks(*config, {.quiet = true}, ranks, [&](Trainer& trainer) {
      trainer.start();
      trainer.step();
      const auto& network = *trainer.model().layers().network;
      const float nan = std::nanf("");
      if (trainer.ranks().rank == broken)
        trainer.model().buffers().write(network.parameters()[1].buffers.value, 2,
                                        std::span(&nan, 1));
      try {
        trainer.check_weights();
      } catch (const DataError&) {
        ++told;
        throw;
      }
      trainer.step();
    });
  };
  CHECK_NOTHROW(train(-1));
  for (const int broken : {0, 1}) {
    told = 0;
    check_contains(message_of<DataError>([&] { train(broken); }),
                   {"iteration 1: expected finite weights, found nan in \"", "element 2"});
    CHECK(told == 1);
  }
}

TEST_CASE("a trainer evaluates when asked, whatever the config's interval") {
  const SmallRun run;
  const Case one = cases()[0];
  const auto config = config_of(run, one, {"solver.eval_interval=0"});
  Trainer trainer(*config, {.threads = 2, .quiet = true},
                  trainer::one_rank(*config, {.threads = 2}));
  CHECK(trainer.threads() == 2);
  trainer.start();
  trainer.step();
  const auto result = trainer.evaluate();
  REQUIRE(result.has_value());
  CHECK(result->samples == 333);
  CHECK(result->auc.has_value());
  const auto four = config_of(run, cases()[1], {});
  check_contains(message_of<ConfigError>([&] { static_cast<void>(trainer::one_rank(*four, {})); }),
                 {"solver.gpu", "expected one rank, found 4"});
}

}  // namespace hlite::test
