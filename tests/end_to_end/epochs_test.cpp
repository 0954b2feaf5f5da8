// Training by epochs: samples shuffled, evaluations of whole sets, rates cut, the best weights
// back.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// 500 samples in batches of 32: 16 a pass, the last one of 20; 333 to evaluate.
constexpr int64_t kPass = 16;

class Epochs : public SmallRun {
 public:
  // Ends in that code, with these changes to the config.
  ProgramResult run(std::vector<std::string> sets, std::vector<std::string> more, int code) const {
    std::filesystem::remove(*this / "m.jsonl");
    std::vector<std::string> command = {"--metrics", *this / "m.jsonl"};
    command.insert(command.end(), more.begin(), more.end());
    for (
        const char* set :
        {R"(layers[0].async_param.shuffle=false)", "layers[0].shuffle_samples=true",
         "layers[0].test_source=eval.bin", "solver.eval_interval=0", "solver.eval_batches=0",
         "solver.eval_every_epochs=1", "solver.lr_plateau={}",
         R"(solver.early_stop={"patience":2})", "solver.display=16",
         R"(optimizer={"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-8,"corrected_epsilon":true}})"})
      sets.insert(sets.begin(), set);
    Json config = Json::parse(small_config());
    config["solver"].erase("max_iter");
    config["solver"]["num_epochs"] = 40;
    write_text(*this / "config.json", config.dump());
    for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
    auto result = train(command);
    INFO(result.err);
    REQUIRE(result.code == code);
    return result;
  }
  // Of a run that ends well.
  std::vector<Json> events(std::vector<std::string> sets,
                           std::vector<std::string> more = {}) const {
    run(std::move(sets), std::move(more), 0);
    return events_in(*this / "m.jsonl");
  }
};

std::vector<Json> of_kind(const std::vector<Json>& events, const std::string& kind) {
  std::vector<Json> some;
  for (const Json& e : events)
    if (e["event"] == kind) some.push_back(e);
  return some;
}

}  // namespace

TEST_CASE("epochs end in an evaluation, cuts and the end follow, and the best weights come back") {
  const Epochs run;
  const std::string screen = run.run({}, {"--export", run / "end.safetensors"}, 0).err;
  const auto events = run.events({}, {"--export", run / "end.safetensors"});
  const auto evals = of_kind(events, "eval"), train = of_kind(events, "train");
  REQUIRE(evals.size() >= 3);
  REQUIRE(evals.size() < 40);
  double best = 0;
  int64_t waited = 0, cuts = 0;
  Json of_best;
  for (size_t i = 0; i < evals.size(); ++i) {
    CHECK(evals[i]["iter"] == static_cast<int64_t>(i + 1) * kPass);
    CHECK(evals[i]["samples"] == 333);
    CHECK(train[i]["iter"] == evals[i]["iter"]);
    CHECK(train[i]["lr"].get<double>() ==
          Approx(std::max(0.01 * std::pow(0.1, static_cast<double>(cuts)), 1e-6)).epsilon(1e-6));
    const double auc = evals[i]["auc"];
    waited = auc >= best + 1e-6 ? 0 : waited + 1;
    if (waited > 0) ++cuts;
    if (waited > 0) continue;
    best = auc;
    of_best = evals[i];
  }
  CHECK(cuts >= 2);
  CHECK(waited == 2);
  const Json end = events.back();
  CHECK(end["event"] == "end");
  CHECK(end["reason"] == "early_stop");
  // The samples of whole passes, with their last batches.
  CHECK(end["samples"] == 500 * static_cast<int64_t>(evals.size()));
  const auto tests = of_kind(events, "test");
  REQUIRE(tests.size() == 1);
  for (const char* key : {"auc", "loss", "samples"}) CHECK(tests[0][key] == of_best[key]);
  check_contains(screen, {"of the config's: no improvement in 1 evaluation.\n",
                          "Stopping early: no improvement in 2 evaluations.\n",
                          fmt::format("Restored the best weights (AUC {:.5f}, iteration {}).\n",
                                      best, of_best["iter"].get<int64_t>()),
                          "evaluation AUC ", " (iter 16)  ", "ETA at most "});
}

TEST_CASE("the best weights are kept next to the model or in TMPDIR, and none are left") {
  const Epochs run;
  const TemporaryDirectory temporary;
  setenv("TMPDIR", temporary.path().c_str(), 1);  // where the program's output goes, too
  const std::shared_ptr<void> at_end(nullptr, [](void*) { unsetenv("TMPDIR"); });
  const auto left = [&] {
    long files = 0;
    for (const std::string& folder : {temporary.path(), run.path()})
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename();
        files += name.find("best") != std::string::npos || name.starts_with(".hlite_");
      }
    return files;
  };
  run.events({});
  CHECK(left() == 0);
  check_contains(run.run({}, {}, 0).err, {"the trained model will not be kept"});
  run.events({}, {"--save", run / "model"});
  CHECK(left() == 0);
  CHECK(std::filesystem::exists(run / "model/best.safetensors"));
}

TEST_CASE("an evaluation set of one class is warned of, and the loss is watched") {
  for (const char* const ranks : {"[0]", "[0,1]"}) {
    CAPTURE(ranks);
    const Epochs run;
    std::string records = read_text(run / "eval.bin");
    for (size_t at = 0; at < records.size(); at += 24) records[at] = 0;  // labels
    write_text(run / "eval.bin", records);
    const Words changes = {gpu(ranks), "layers.drop.rate=0"};
    const auto result = run.run(changes, {}, 0);
    const std::string all = result.err + result.out;
    const size_t warning = all.find("eval.bin: expected labels of both classes, found one");
    REQUIRE(warning != std::string::npos);
    CHECK(warning < all.find("evaluation: AUC undefined"));
    CHECK(all.find("eval.bin: expected labels", warning + 1) == std::string::npos);  // once

    const auto events = run.events(changes);
    const auto evals = of_kind(events, "eval"), train = of_kind(events, "train");
    double best = 1e9;
    int64_t waited = 0, cuts = 0;
    for (size_t i = 0; i < evals.size(); ++i) {
      CHECK(evals[i]["auc"].is_null());
      CHECK(train[i]["lr"].get<double>() ==
            Approx(std::max(0.01 * std::pow(0.1, static_cast<double>(cuts)), 1e-6)).epsilon(1e-6));
      const double loss = evals[i]["loss"];
      waited = loss <= best - 1e-6 ? 0 : waited + 1;
      if (waited > 0)
        ++cuts;
      else
        best = loss;
    }
    CHECK(evals.size() >= 3);
    CHECK((waited == 2 || evals.size() == 40));
    CHECK(of_kind(events, "test")[0]["loss"].get<double>() == Approx(best).epsilon(1e-6));
  }
  // With both classes there is no such warning.
  const Epochs run;
  const auto result = run.run({"solver.num_epochs=1"}, {}, 0);
  CHECK(result.err.find("expected labels of both classes") == std::string::npos);
}

TEST_CASE("a test set needs no evaluation set") {
  const SmallRun run;
  Json config = Json::parse(small_config());
  for (const char* key : {"eval_source", "eval_num_samples", "cache_eval_data"})
    config["layers"][0].erase(key);
  config["layers"][0]["test_source"] = "eval.bin";
  for (const char* key : {"eval_interval", "eval_batches"}) config["solver"].erase(key);
  write_text(run / "config.json", config.dump());
  REQUIRE(run.train({"--metrics", run / "m.jsonl"}).code == 0);
  const std::string metrics = read_text(run / "m.jsonl");
  check_contains(metrics, {R"({"event":"test")"});
  CHECK(metrics.find(R"({"event":"eval")") == std::string::npos);
}

TEST_CASE("a run that is resumed amid its epochs comes to the same bits") {
  const Epochs run;
  run.events({"solver.snapshot=40"}, {"--export", run / "whole.safetensors"});
  const std::string evals = read_text(run / "m.jsonl");
  size_t resumed = 0;
  for (const int at : {40, 80}) {
    const std::string snapshot = run / ("snap_" + std::to_string(at));
    if (!std::filesystem::exists(snapshot)) continue;
    ++resumed;
    CHECK(std::filesystem::exists(snapshot + "/best.safetensors"));
    const auto rest = of_kind(
        run.events({}, {"--resume", snapshot, "--export", run / "rest.safetensors"}), "eval");
    CHECK((read_text(run / "rest.safetensors") == read_text(run / "whole.safetensors")));
    for (const Json& e : rest)
      check_contains(evals, {"\"iter\":" + e["iter"].dump() + ",\"auc\":" + e["auc"].dump()});
  }
  CHECK(resumed >= 1);
}

TEST_CASE("a checkpoint of a run that stopped early goes on from its last weights") {
  const Epochs run;
  const auto state = [&](const char* checkpoint) {
    std::string all;
    for (const char* file : {"/weights.safetensors", "/optimizer.safetensors", "/best.safetensors"})
      all += read_text(run / (std::string(checkpoint) + file));
    return all;
  };
  const auto end = run.events({}, {"--save", run / "stopped", "--export", run / "best"}).back();
  CHECK(end["reason"] == "early_stop");
  CHECK((read_text(run / "stopped/weights.safetensors") != read_text(run / "best")));
  CHECK((read_text(run / "stopped/best.safetensors") == read_text(run / "best")));
  const Words longer = {R"(solver.early_stop={"patience":4})"};
  const auto whole = run.events(longer, {"--save", run / "whole", "--export", run / "w"});
  CHECK(whole.back()["iter"] > end["iter"]);
  const auto rest = run.events(
      longer, {"--resume", run / "stopped", "--save", run / "rest", "--export", run / "r"});
  CHECK(rest.back()["iter"] == whole.back()["iter"]);
  CHECK((state("rest") == state("whole")));
  CHECK((read_text(run / "r") == read_text(run / "w")));
  // With the same patience it has ended, as the whole run has.
  const auto again = run.events({}, {"--resume", run / "stopped", "--export", run / "again"});
  CHECK(again.back()["reason"] == "early_stop");
  CHECK(again.back()["iter"] == end["iter"]);
  CHECK(of_kind(again, "eval").empty());
  CHECK((read_text(run / "again") == read_text(run / "best")));
  // Others take the best weights.
  run.events({"solver.num_epochs=1", "optimizer.adam_hparam.learning_rate=0",
              "layers.emb.optimizer.adam_hparam.learning_rate=0"},
             {"--init", run / "stopped", "--export", run / "taken"});
  CHECK((read_text(run / "taken") == read_text(run / "best")));
}

TEST_CASE("a resume with another metric forgets evaluations, and says what has changed") {
  const Epochs run;
  write_text(run / "other.bin", small_samples(333, 3));
  const auto end = run.events({}, {"--save", run / "stopped"}).back();
  REQUIRE(end["reason"] == "early_stop");
  const auto resume = [&](const std::string& change, int code = 0) {
    return run.run({"solver.num_epochs=100", change}, {"--resume", run / "stopped"}, code).err;
  };
  const auto says = [](const std::string& text, const std::string& word) {
    return text.find(word) != std::string::npos;
  };
  const std::string anew = "what evaluations have led to", still = "nothing to train";
  for (const char* change : {"layers[0].eval_source=other.bin", "layers[0].eval_num_samples=200",
                             "layers.emb.sparse_embedding_hparam.combiner=mean",
                             "layers.emb.type=LocalizedSlotSparseEmbeddingOneHot",
                             R"(solver.early_stop={"patience":2,"monitor":"AverageLoss"})"}) {
    INFO(change);
    const std::string text = resume(change);
    const std::string key = std::string(change).substr(0, std::string(change).find('='));
    CHECK(says(text, key.substr(key.rfind('.') + 1)));
    CHECK(says(text, "the checkpoint " + run / "stopped" + " has"));
    CHECK(says(text, anew));
    CHECK(!says(text, still));
  }
  // Goes on with other batches, or in another way, and knows its evaluations.
  for (const char* change :
       {"layers[0].shuffle_samples=false", "layers[0].num_samples=400",
        "optimizer.adam_hparam.learning_rate=0.001", "solver.gradient_clip_norm=3"}) {
    INFO(change);
    const std::string text = resume(change);
    CHECK(says(text, ": the run goes on with "));
    CHECK(!says(text, anew));
    CHECK(says(text, still));
  }
  // The same data by another name, and what is free to change.
  for (const char* change : {"layers[0].eval_source=./eval.bin", "solver.display=3"}) {
    INFO(change);
    const std::string text = resume(change);
    CHECK(!says(text, "the run goes on with"));
    CHECK(says(text, still));
  }
  for (const auto& [change, refusal] :
       {std::pair(R"(optimizer={"type":"SGD","sgd_hparam":{"learning_rate":0.1}})",
                  "optimizer.type: expected \"Adam\", that of"),
        std::pair("solver.table_precision=bf16",
                  "solver.table_precision: expected \"fp32\", that of"),
        std::pair("layers.t1.fc_param.num_output=8",
                  "layers[5].fc_param.num_output: expected 16, that of")}) {
    const std::string text = resume(change, 2);
    INFO(text);
    CHECK(says(text, refusal));
    CHECK(says(text, ", found "));
  }
}

TEST_CASE("a run with early_stop that epochs end goes on to the same bits") {
  const Epochs run;
  const Words patient = {R"(solver.early_stop={"patience":40})"};
  const auto train = [&](int epochs, Words more, const std::string& to) {
    Words sets = patient;
    sets.push_back(fmt::format("solver.num_epochs={}", epochs));
    more.insert(more.end(), {"--save", run / to});
    return run.events(sets, more).back();
  };
  CHECK(train(7, {}, "part")["reason"] == "epochs");
  train(9, {}, "whole");
  train(9, {"--resume", run / "part"}, "rest");
  for (const char* file : {"/weights.safetensors", "/optimizer.safetensors", "/best.safetensors"})
    CHECK((read_text(run / "rest" + file) == read_text(run / "whole" + file)));
}

TEST_CASE("a checkpoint whose best weights are damaged is refused") {
  const Epochs run;
  run.events({"solver.snapshot=40"});
  const std::string file = run / "snap_40/best.safetensors";
  std::string bytes = read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(file, bytes);
  const auto result = run.run({}, {"--resume", run / "snap_40"}, 3);
  check_contains(result.err, {"best.safetensors: it is damaged"});
}

TEST_CASE("epochs come to the same on several ranks, as do further metrics") {
  const Epochs run;
  const std::vector<std::string> more = {
      R"(solver.eval_metrics=["AUC","Calibration","GAUC","NDCG@3","HitRate@2"])",
      "solver.eval_group_slot=1", "solver.num_epochs=2", "layers.drop.rate=0"};
  const auto one = run.events(more);
  auto on_two = more;
  on_two.push_back(gpu("[0,1]"));
  const auto two = run.events(on_two);
  const auto a = of_kind(one, "eval"), b = of_kind(two, "eval");
  REQUIRE(a.size() == 2);
  REQUIRE(b.size() == 2);
  for (size_t i = 0; i < 2; ++i)
    for (const char* key : {"auc", "loss", "calibration", "gauc", "ndcg@3", "hit_rate@2"}) {
      INFO(key);
      CHECK(a[i][key].get<double>() == Approx(b[i][key].get<double>()).epsilon(2e-3));
      CHECK(a[i][key].get<double>() > 0.1);
    }
  CHECK(of_kind(one, "test")[0].contains("ndcg@3"));
}

}  // namespace hlite::test
