// A trainer that is driven step by step, compared with one that runs.
#include "hugectr_lite/trainer/run/trainer.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <sstream>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/all_metrics.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

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
  for (const auto& event : events_in(metrics, "eval")) areas[event["iter"]] = event["auc"];
  return areas;
}

}  // namespace

TEST_CASE("a line's loss is the mean of all samples since the line before") {
  auto all = cases();
  all.push_back({"two ranks whose lists grow",
                 nullptr,
                 {gpu("[[0,1]]"), "layers.emb.sparse_embedding_hparam.exchange_capacity=1"}});
  for (const Case& c : all) {
    INFO(c.name);
    const SmallRun run;
    const auto train = [&](int every) {
      const auto config = config_of(run, c,
                                    {"layers.data.async_param.shuffle=false", "solver.max_iter=37",
                                     fmt::format("solver.display={}", every)});
      on_ranks(*config,
               {.export_path = run / fmt::format("{}.w", every),
                .metrics = run / fmt::format("{}.m", every),
                .quiet = true},
               c, [](Trainer& trainer) { trainer.run(); });
      return events_in(run / fmt::format("{}.m", every), "train");
    };
    const auto batches = train(1), lines = train(7);
    REQUIRE(batches.size() == 37);
    REQUIRE(lines.size() == 5);
    double sum = 0, samples = 0;
    for (const auto& batch : batches) {
      const int64_t iter = batch["iter"];
      const double of_batch = iter % 16 == 0 ? 20 : 32;  // the last of an epoch is smaller
      CHECK(batch["loss"] == batch["batch_loss"]);
      sum += batch["batch_loss"].get<double>() * of_batch;
      samples += of_batch;
      if (iter % 7 != 0) continue;
      const auto& line = lines[static_cast<size_t>(iter / 7 - 1)];
      CHECK(line["iter"] == iter);
      CHECK(line["batch_loss"] == batch["batch_loss"]);
      CHECK(line["loss"] == sum / samples);
      sum = samples = 0;
    }
    CHECK(read_text(run / "1.w") == read_text(run / "7.w"));
  }
}

TEST_CASE("a run reports the share of keys that its key_policy replaced") {
  constexpr int64_t kRows = 200;  // of the third table, whose keys are below 300
  const auto share = [&](const std::string& records, int64_t samples) {
    int64_t outside = 0;
    for (int64_t i = 0; i < samples; ++i) {
      uint32_t key;
      std::memcpy(&key, records.data() + 24 * i + 20, sizeof(key));
      outside += key >= kRows;
    }
    return static_cast<double>(outside) / static_cast<double>(3 * samples);
  };
  for (const bool shuffled : {false, true})
    for (const Case& c : cases()) {
      INFO(c.name << (shuffled ? ", shuffled" : ""));
      const SmallRun run;
      std::vector<std::string> changes = {
          "solver.max_iter=32",
          "solver.display=16",
          "solver.eval_interval=32",
          "layers.data.key_policy=clamp",
          "layers.data.test_source=eval.bin",
          "layers.data.async_param.shuffle=false",
          fmt::format("layers.emb.sparse_embedding_hparam.slot_size_array=[40,5,{}]", kRows)};
      if (shuffled) changes.emplace_back("layers.data.shuffle_samples=true");
      const auto config = config_of(run, c, changes);
      on_ranks(*config, {.metrics = run / "m", .report = run / "r", .quiet = true}, c,
               [](Trainer& trainer) { trainer.run(); });
      const double train = share(read_text(run / "train.bin"), 500),
                   eval = share(read_text(run / "eval.bin"), 333);
      REQUIRE(train != eval);
      for (const auto& [kind, expected] :
           {std::pair{"train", train}, {"eval", eval}, {"test", eval}, {"end", train}}) {
        const auto events = events_in(run / "m", kind);
        CHECK(events.size() == (kind == std::string("train") ? 2 : 1));
        for (const auto& event : events)
          CHECK(event.value("replaced_share", -1.0) == Approx(expected).epsilon(1e-12));
      }
      check_contains(read_text(run / "r"),
                     {fmt::format(R"(["{:.1f} %","of training keys replaced)", 100 * train),
                      "\"replaced_share\":"});
    }
  // Without a policy there is nothing to report.
  const SmallRun run;
  const Case one = cases()[0];
  const auto config = config_of(run, one, {"solver.max_iter=10"});
  on_ranks(*config, {.metrics = run / "m", .quiet = true}, one,
           [](Trainer& trainer) { trainer.run(); });
  CHECK(read_text(run / "m").find("replaced_share") == std::string::npos);
}

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
      const bool first = trainer.context().ranks.rank == 0;
      trainer.start();
      while (!trainer.finished()) {
        trainer.step();
        const double loss = trainer.batch_loss();
        trainer.check_weights();
        if (first) losses.push_back(loss);
        if (trainer.iteration() % 10 != 0) continue;
        const auto result = trainer.evaluations().evaluate();
        if (first) driven[trainer.iteration()] = result.value().auc.value();
      }
      if (first) samples = trainer.context().samples;
      trainer.saver().export_weights(run / "driven.safetensors");
    });
    CHECK(driven == areas);
    CHECK(losses.size() == 23);
    CHECK(losses.front() > losses.back());
    CHECK(samples == 500 + 7 * 32);  // an epoch of 16 batches, the last one partial
    CHECK((read_text(run / "driven.safetensors") == read_text(run / "run.safetensors")));
  }
}

TEST_CASE("a trainer that goes on knows the last eviction, and how many samples there were") {
  const SmallRun run;
  const Case one = cases()[0];
  const auto config =
      config_of(run, one,
                {"layers.emb.type=DistributedSlotSparseEmbeddingHash",
                 R"(layers.emb.sparse_embedding_hparam={"max_vocabulary_size_per_gpu":345,)"
                 R"("embedding_vec_size":4,"combiner":0,"eviction":{"interval":0,"min_count":5}})",
                 "layers.emb.optimizer.update_type=Local"});
  const auto train = [&](const Options& options, const std::vector<int64_t>& saves,
                         const std::string& to) {
    int64_t rare = 0;
    on_ranks(*config, options, one, [&](Trainer& trainer) {
      trainer.start();
      for (const int64_t save : saves) {
        while (trainer.iteration() < save) trainer.step();
        trainer.saver().save(run / fmt::format("{}_{}", to, save));
      }
      rare = trainer.vocabularies().vocabulary()->layers[0].counts.rare;
    });
    return rare;
  };
  // The first save finds no row that has not been used since the eviction before.
  const int64_t rare = train({.quiet = true}, {9, 20}, "whole");
  CHECK(rare > 50);
  CHECK(train({.resume = run / "whole_9", .quiet = true}, {20}, "resumed") == rare);
  for (const char* file : {"/weights.safetensors", "/optimizer.safetensors"})
    CHECK((read_text(run / "resumed_20" + file) == read_text(run / "whole_20" + file)));
  // Epochs of 16 batches, the last one partial.
  CHECK(checkpoint::read_manifest(run / "whole_20").samples == 500 + 4 * 32);
  CHECK(checkpoint::read_manifest(run / "resumed_20").samples == 500 + 4 * 32);
}

TEST_CASE("weights that are not finite on one rank alone end all ranks, with one message", "") {
  const SmallRun run;
  const Case ranks{"two ranks", nullptr, {gpu("[[0,1]]")}};
  const auto config = config_of(run, ranks, {"solver.max_iter=9"});
  std::atomic<int> reports = 0;
  const auto train = [&](int broken) {
    on_ranks(*config, {.quiet = true}, ranks, [&](Trainer& trainer) {
      trainer.start();
      trainer.step();
      const auto& network = *trainer.model().layers().network;
      const float nan = std::nanf("");
      if (trainer.context().ranks.rank == broken)
        trainer.model().buffers().write(network.parameters()[1].buffers.value, 2,
                                        std::span(&nan, 1));
      try {
        trainer.check_weights();
      } catch (const DataError&) {
        ++reports;
        throw;
      }
      trainer.step();
    });
  };
  CHECK_NOTHROW(train(-1));
  for (const int broken : {0, 1}) {
    reports = 0;
    check_contains(message_of<DataError>([&] { train(broken); }),
                   {"iteration 1: expected finite weights, found nan in \"", "element 2"});
    CHECK(reports == 1);
  }
}

TEST_CASE("a trainer evaluates when asked, whatever the config's interval") {
  const SmallRun run;
  const Case one = cases()[0];
  const auto config = config_of(run, one, {"solver.eval_interval=0"});
  Trainer trainer(*config, {.threads = 2, .quiet = true},
                  trainer::one_rank(*config, {.threads = 2}));
  CHECK(trainer.context().pool.threads() == 2);
  trainer.start();
  trainer.step();
  const auto result = trainer.evaluations().evaluate();
  REQUIRE(result.has_value());
  CHECK(result->samples == 333);
  CHECK(result->auc.has_value());
  const auto four = config_of(run, cases()[1], {});
  check_contains(message_of<ConfigError>([&] { static_cast<void>(trainer::one_rank(*four, {})); }),
                 {"solver.gpu", "expected one rank, found 4"});
}

TEST_CASE("metrics are the same on any number of ranks, and every rank has them") {
  const SmallRun run;
  std::vector<trainer::EvalResult> results;
  std::mutex mutex;
  for (const char* const ranks : {"[0]", "[[0,1]]", "[[0,1],[2,3]]"}) {
    const Case c{ranks, nullptr, {gpu(ranks)}};
    const auto config = config_of(run, c, with_all_metrics());
    on_ranks(*config, {.quiet = true}, c, [&](Trainer& trainer) {
      trainer.start();
      const auto result = trainer.evaluations().evaluate();
      const std::lock_guard lock(mutex);
      results.push_back(result.value());
    });
  }
  REQUIRE(results.size() == 7);
  for (const trainer::EvalResult& result : results) {
    CHECK(result.samples == 333);
    CHECK(result.auc == results[0].auc);
    REQUIRE(result.more.size() == results[0].more.size());
    for (size_t m = 0; m < result.more.size(); ++m) {
      CHECK(result.more[m].first == results[0].more[m].first);
      CHECK(result.more[m].second.value() ==
            Approx(results[0].more[m].second.value()).epsilon(1e-12));
    }
  }
}

TEST_CASE("what evaluations, tests and checkpoints move is not counted as training's") {
  for (Case c : cases()) {
    INFO(c.name);
    const SmallRun run;
    const bool alone = c.gpu == nullptr && c.changes.empty();
    if (alone)
      c.changes = {R"(solver.embedding_memory={"host_gb":0.1,"disk":"."})",
                   "layers.emb.optimizer.update_type=Local"};
    const auto config = config_of(run, c, {"layers.data.test_source=eval.bin"});
    on_ranks(*config, {.quiet = true}, c, [&](Trainer& trainer) {
      trainer.start();
      for (int i = 0; i < 5; ++i) trainer.step();
      const auto moved = [&] {
        const auto rows = trainer.counts().moved_rows();
        std::vector<int64_t> all = {rows.lookups, rows.fetched, rows.written, rows.read_bytes};
        if (trainer.context().ranks.ranks() == 1) return all;
        for (const auto& step : trainer.counts().traffic().steps)
          for (const auto& [name, at] : comm::kTrafficCounts) all.push_back(step.sum().*at);
        return all;
      };
      const std::vector<int64_t> before = moved();
      const bool none = std::count(before.begin(), before.end(), 0) == std::ssize(before);
      trainer.evaluations().evaluate();
      static_cast<void>(trainer.evaluations().test());
      trainer.saver().save(run / "saved");
      trainer.saver().export_weights(run / "exported");
      if (none != (c.gpu != nullptr) || moved() != before) raise<Error>("{}: other counts", c.name);
    });
  }
}

TEST_CASE("an evaluation after one that was given up halfway is of the whole set") {
  for (const Case& c : cases())
    for (std::vector<std::string> changes :
         {std::vector<std::string>{},
          {R"(solver.eval_metrics=["AUC","GAUC"])", "solver.eval_group_slot=0",
           "layers.data.key_policy=clamp",
           "layers.emb.sparse_embedding_hparam.slot_size_array=[40,5,200]"}}) {
      INFO(c.name << ", " << changes.size() << " changes");
      const SmallRun run;
      changes.emplace_back("solver.eval_interval=0");
      const auto config = config_of(run, c, changes);
      std::vector<trainer::EvalResult> whole;
      on_ranks(*config, {.quiet = true}, c, [&](Trainer& trainer) {
        trainer.start();
        trainer.step();
        trainer::Evaluator evaluator(*config, trainer::evaluation_set(*config), trainer.model(),
                                     trainer.context().exec(), trainer.context().ranks);
        evaluator.allocate();
        for (int batches : {100, 2, 100, 5, 100}) {  // of 6
          if (!evaluator.start([&] { return batches-- == 0; })) continue;
          const trainer::EvalResult result = evaluator.finish();
          if (trainer.context().ranks.rank == 0) whole.push_back(result);
        }
      });
      REQUIRE(whole.size() == 3);
      CHECK(whole[0].samples == 333);
      for (size_t i : {1, 2}) {
        CHECK(whole[i].samples == whole[0].samples);
        CHECK(whole[i].auc == whole[0].auc);
        CHECK(whole[i].loss == whole[0].loss);
        CHECK(whole[i].more == whole[0].more);
        CHECK(whole[i].replaced_share == whole[0].replaced_share);
      }
    }
}

}  // namespace hlite::test
