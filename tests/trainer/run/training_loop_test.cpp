#include "hugectr_lite/trainer/run/training_loop.h"

#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using trainer::EndReason;
using trainer::Trainer;
using trainer::TrainingLoop;

// "train 7 0.69", "eval 10 0.51", ...
struct Events : trainer::RunRecord {
  std::vector<std::string> lines = {};
  void train(const trainer::TrainEvent& e) override {
    lines.push_back(fmt::format("train {} {}", e.iter, e.loss));
  }
  void eval(int64_t iter, const trainer::EvalResult& result) override {
    lines.push_back(fmt::format("eval {} {}", iter, result.auc.value()));
  }
  void test(int64_t iter, const trainer::EvalResult& result) override {
    lines.push_back(fmt::format("test {} {}", iter, result.auc.value()));
  }
};

// A trainer of this run that has been started, and its events.
struct Started {
  Started(const SmallRun& run, const std::vector<std::string>& changes,
          const trainer::Options& options, const cuda::Backend* gpu = nullptr)
      : config(config::load_train_config(run / "config.json", changes)),
        trainer(*config, options, {.threads = 2, .gpu = gpu}) {
    auto record = std::make_unique<Events>();
    events = record.get();
    trainer.context().records.add(std::move(record));
  }
  std::unique_ptr<config::TrainConfig> config;
  Trainer trainer;
  Events* events = nullptr;
};

std::vector<std::string> kinds(const std::vector<std::string>& lines) {
  std::vector<std::string> kinds;
  for (const std::string& line : lines) kinds.push_back(line.substr(0, line.rfind(' ')));
  return kinds;
}

EndReason to_end(TrainingLoop& loop) {
  for (;;)
    if (const auto reason = loop.advance()) return *reason;
}

}  // namespace

TEST_CASE("the loop of a caller has the events and weights of a run") {
  for (const cuda::Backend* const gpu : {static_cast<const cuda::Backend*>(nullptr),
                                         static_cast<const cuda::Backend*>(&emulated_cuda())}) {
    INFO((gpu ? "a GPU" : "the CPU"));
    const SmallRun run;
    const std::vector<std::string> changes = {"solver.max_iter=23",
                                              "solver.display=7",
                                              "solver.eval_interval=10",
                                              "solver.snapshot=15",
                                              "layers.data.test_source=eval.bin",
                                              "solver.snapshot_prefix=" + (run / "snapshot_"),
                                              "solver.algorithm_search=false"};
    Started program(run, changes, {.export_path = run / "program", .quiet = true}, gpu);
    CHECK(program.trainer.run() == kExitDone);
    CHECK(std::filesystem::remove_all(run / "snapshot_15") > 0);

    Started caller(run, changes, {.quiet = true}, gpu);
    caller.trainer.start();
    int64_t steps = 0;
    TrainingLoop loop(caller.trainer, [&] { ++steps; });
    loop.begin();
    // Every event is there when its iteration is over.
    for (bool more = true; more;) {
      more = !loop.advance();
      const std::string last = kinds(caller.events->lines).back();
      CHECK(last.substr(last.find(' ') + 1) == std::to_string(steps));
      if (steps == 7) caller.trainer.evaluations().evaluate();  // changes nothing
    }
    loop.finish();
    caller.trainer.saver().export_weights(run / "caller");
    CHECK(kinds(caller.events->lines) == std::vector<std::string>{"train 7", "eval 10", "train 14",
                                                                  "eval 20", "train 21", "train 23",
                                                                  "test 23"});
    auto& lines = caller.events->lines;
    lines.erase(lines.begin() + 5);  // the last iteration's
    CHECK(lines == program.events->lines);
    CHECK((read_text(run / "caller") == read_text(run / "program")));
    CHECK_FALSE(std::filesystem::exists(run / "snapshot_15"));

    loop.begin(4);
    CHECK(to_end(loop) == EndReason::kMaxIter);
    CHECK(steps == 27);
    CHECK(kinds(lines).back() == "train 27");
  }
}

TEST_CASE("evaluations begin at eval_start") {
  const SmallRun run;
  for (const auto& [start, evaluations] :
       {std::pair("20", std::vector<std::string>{"eval 20", "eval 30"}),
        std::pair("21", std::vector<std::string>{"eval 30"})}) {
    Started started(run,
                    {"solver.max_iter=33", "solver.display=0", "solver.eval_interval=10",
                     std::string("solver.eval_start=") + start},
                    {.quiet = true});
    CHECK(started.trainer.run() == kExitDone);
    CHECK(kinds(started.events->lines) == evaluations);
  }
}

TEST_CASE("a run ends for a reason") {
  const SmallRun run;
  const std::vector<std::string> early = {"solver.eval_interval=5",
                                          R"(solver.early_stop={"patience":1,"min_delta":0.9})",
                                          "solver.snapshot_prefix=" + (run / "early_")};
  const auto reason = [&](const std::vector<std::string>& changes) {
    Started started(run, changes, {.quiet = true});
    started.trainer.start();
    TrainingLoop loop(started.trainer);
    loop.begin();
    return to_end(loop);
  };
  CHECK(reason({"solver.max_iter=9"}) == EndReason::kMaxIter);
  std::string epochs = small_config();
  epochs.replace(epochs.find("\"max_iter\": 200"), 15, "\"num_epochs\": 1");
  write_text(run / "config.json", epochs);
  CHECK(reason({}) == EndReason::kEpochs);
  write_text(run / "config.json", small_config());
  CHECK(reason({R"(solver.eval_metrics=["AUC:0.01"])"}) == EndReason::kTarget);
  CHECK(reason(early) == EndReason::kEarlyStop);

  // A partial run is no end of the config: test_source is left alone.
  std::vector<std::string> changes = early;
  changes.emplace_back("layers.data.test_source=eval.bin");
  Started first(run, changes, {.quiet = true});
  first.trainer.start();
  TrainingLoop loop(first.trainer, [] {});
  loop.begin(3);
  CHECK(to_end(loop) == EndReason::kMaxIter);
  loop.finish();
  CHECK(kinds(first.events->lines) == std::vector<std::string>{"train 3"});
  loop.begin();
  CHECK(to_end(loop) == EndReason::kEarlyStop);
  loop.finish();
  CHECK(kinds(first.events->lines).back() == "test 10");
  loop.policy().save(run / "stopped");

  // Evaluations before a resume have ended training, unless the caller wants more.
  Started second(run, changes, {.resume = run / "stopped", .quiet = true});
  second.trainer.start();
  TrainingLoop more(second.trainer, [] {});
  more.begin();
  CHECK(to_end(more) == EndReason::kEarlyStop);
  CHECK(second.trainer.iteration() == 10);
  more.begin(2);
  CHECK(to_end(more) == EndReason::kMaxIter);
  CHECK(second.trainer.iteration() == 12);
}

TEST_CASE("epochs on other data are counted from their start") {
  const SmallRun run;
  Started first(run, {"solver.max_iter=5", "solver.eval_interval=0"}, {.quiet = true});
  first.trainer.start();
  TrainingLoop loop(first.trainer, [] {});
  loop.begin();
  CHECK(to_end(loop) == EndReason::kMaxIter);
  loop.policy().save(run / "first");

  // 16 batches an epoch.
  std::string epochs = small_config();
  epochs.replace(epochs.find("\"max_iter\": 200"), 15, "\"num_epochs\": 2");
  epochs.replace(epochs.find("\"eval_interval\": 50"), 19, "\"eval_every_epochs\": 1");
  write_text(run / "config.json", epochs);
  for (const bool grow : {false, true}) {
    INFO((grow ? "other data" : "the same data"));
    Started second(
        run, {"solver.display=0"},
        {.resume = run / "first", .allow_other_data = true, .grow = grow, .quiet = true});
    second.trainer.start();
    TrainingLoop more(second.trainer);
    more.begin();
    CHECK(to_end(more) == EndReason::kEpochs);
    CHECK(kinds(second.events->lines) == (grow ? std::vector<std::string>{"eval 21", "eval 37"}
                                               : std::vector<std::string>{"eval 16", "eval 32"}));
  }
}

TEST_CASE("a run needs data") {
  const SmallRun run;
  Started started(run, {}, {.without_data = true, .quiet = true});
  started.trainer.start();
  TrainingLoop loop(started.trainer);
  check_contains(message_of<ConfigError>([&] { loop.begin(); }), {"expected data"});
}

TEST_CASE("training goes on from the last weights and states, wherever rows are") {
  const std::vector<std::string> tables[] = {
      {},
      {"layers.emb.type=DistributedSlotSparseEmbeddingHash",
       R"(layers.emb.sparse_embedding_hparam={"max_vocabulary_size_per_gpu":345,)"
       R"("embedding_vec_size":4,"combiner":0})"},
      {"beyond memory"}};
  for (std::vector<std::string> changes : tables) {
    INFO((changes.empty() ? "in memory" : changes[0]));
    const SmallRun run;
    if (!changes.empty() && changes[0] == "beyond memory")
      changes = {R"(solver.embedding_memory={"host_gb":0.02519,"disk":")" + run.path() + "\"}"};
    changes.insert(changes.end(), {"solver.eval_interval=5", "solver.batchsize_eval=32",
                                   R"(solver.early_stop={"patience":1,"min_delta":0.9})",
                                   "layers.emb.optimizer.update_type=Local",
                                   "solver.snapshot_prefix=" + (run / "early_")});
    for (const bool uses_best : {false, true}) {
      Started started(run, changes, {.quiet = true});
      started.trainer.start();
      TrainingLoop loop(started.trainer, [] {});
      loop.begin();
      CHECK(to_end(loop) == EndReason::kEarlyStop);
      if (uses_best) {
        loop.finish();
        started.trainer.saver().export_weights(run / "best");
        loop.policy().save(run / "both");
        loop.policy().use_last();
      }
      for (int i = 0; i < 7; ++i) started.trainer.step();
      started.trainer.saver().save(run / (uses_best ? "after" : "straight"));
    }
    for (const char* file : {"/weights.safetensors", "/optimizer.safetensors"})
      CHECK((read_text((run / "after") + file) == read_text((run / "straight") + file)));
    CHECK((read_text(run / "best") != read_text(run / "straight/weights.safetensors")));
    CHECK_FALSE(std::filesystem::exists(run / "early_last.safetensors"));
  }
}

}  // namespace hlite::test
