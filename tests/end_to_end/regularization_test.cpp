// Penalties and clipping against their definitions: from the weights before a step and after one
// without them, both of which the program exports.
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

constexpr double kRate = 0.5;

struct Step {
  Tensors weights;
  double loss = 0;
};

// One iteration of SGD with that rate.
Step one_step(const SmallRun& run, double rate, const std::vector<std::string>& changes,
              const std::vector<std::string>& place) {
  const std::string sgd = R"({"type":"SGD","update_type":"Global","sgd_hparam":{"learning_rate":)" +
                          std::to_string(rate) + "}}";
  std::vector<std::string> command = {"--export", run / "w.safetensors", "--metrics",
                                      run / "m.jsonl"};
  std::vector<std::string> sets = {"optimizer=" + sgd, "layers.emb.optimizer=" + sgd,
                                   "solver.max_iter=1", "solver.eval_interval=0",
                                   "solver.display=1"};
  sets.insert(sets.end(), place.begin(), place.end());
  sets.insert(sets.end(), changes.begin(), changes.end());
  REQUIRE(run.train(command, sets).code == 0);
  return {read_weights(run / "w.safetensors"), events_in(run / "m.jsonl").front()["loss"]};
}

bool is_table(const std::string& name) { return name.starts_with("emb.table_"); }

void check_tensors(const Tensors& found, const std::map<std::string, std::vector<double>>& want) {
  REQUIRE(found.size() == want.size());
  for (const auto& [name, values] : want) {
    INFO(name);
    check_close(found.at(name), values, {1e-6, 1e-5}, name.c_str());
  }
}

std::vector<std::string> emb_penalty(const char* type, const char* lambda) {
  const std::string at = "layers.emb.sparse_embedding_hparam.";
  return {at + "regularizer=" + type, at + "lambda=" + lambda};
}

// On one rank, two, and two nodes of two, where some rows are replicated; where no rank has rows of
// its own; and where one of four has none.
const std::vector<std::string> kPlaces[] = {
    {gpu("[0]")},
    {gpu("[0,1]")},
    {gpu("[[0,1],[2,3]]")},
    {gpu("[0,1]"), "layers.emb.sparse_embedding_hparam.sharding=replicate"},
    {gpu("[0,1,2,3]"), "layers.emb.sparse_embedding_hparam.sharding=slot"}};

TEST_CASE("a penalty on tables pulls every row, and is in the loss") {
  const SmallRun run;
  for (const auto& place : kPlaces)
    for (const bool l1 : {true, false}) {
      INFO(place.front() << place.back() << (l1 ? " L1" : " L2"));
      const Step before = one_step(run, 0, {}, place), plain = one_step(run, kRate, {}, place),
                 found = one_step(run, kRate, emb_penalty(l1 ? "L1" : "L2", "0.25"), place);
      std::map<std::string, std::vector<double>> want;
      double penalty = 0;
      for (const auto& [name, values] : plain.weights) {
        for (size_t i = 0; i < values.size(); ++i) {
          const double w = before.weights.at(name)[i], sign = w > 0 ? 1 : w < 0 ? -1 : 0;
          want[name].push_back(values[i] - (is_table(name) ? kRate * 0.25 * (l1 ? sign : w) : 0));
          if (is_table(name)) penalty += 0.25 * (l1 ? std::abs(w) : w * w / 2);
        }
      }
      check_tensors(found.weights, want);
      CHECK(found.loss == Approx(plain.loss + penalty).epsilon(1e-6));
      CHECK(penalty > 0.4);
    }
}

TEST_CASE("the norm of all or of dense gradients together is cut, penalties counted in") {
  const SmallRun run;
  for (const auto& place : kPlaces)
    for (const auto& [penalized, tables] :
         {std::pair(false, true), std::pair(true, true), std::pair(true, false)}) {
      INFO(place.front() << place.back() << (penalized ? ", with a penalty" : "")
                         << (tables ? "" : ", dense"));
      auto changes = penalized ? emb_penalty("L2", "0.125") : std::vector<std::string>();
      const Step before = one_step(run, 0, {}, place), free = one_step(run, kRate, changes, place);
      double squares = 0;
      std::map<std::string, std::vector<double>> gradients;
      for (const auto& [name, values] : free.weights)
        for (size_t i = 0; i < values.size(); ++i) {
          const double w = before.weights.at(name)[i], g = (w - values[i]) / kRate;
          gradients[name].push_back(g);
          if (tables || !is_table(name)) squares += g * g;
        }
      const double norm = std::sqrt(squares), most = norm / 3, cut_by = most / (norm + 1e-6);
      changes.push_back(std::string("solver.gradient_clip_scope=") + (tables ? "all" : "dense"));
      changes.push_back("solver.gradient_clip_norm=" + std::to_string(most));
      const Step cut = one_step(run, kRate, changes, place);
      std::map<std::string, std::vector<double>> want;
      for (const auto& [name, values] : before.weights)
        for (size_t i = 0; i < values.size(); ++i)
          want[name].push_back(values[i] - kRate * gradients[name][i] *
                                               (tables || !is_table(name) ? cut_by : 1));
      check_tensors(cut.weights, want);
      changes.back() = "solver.gradient_clip_norm=" + std::to_string(norm * 1.5);
      const Step whole = one_step(run, kRate, changes, place);
      std::map<std::string, std::vector<double>> same;
      for (const auto& [name, values] : free.weights)
        same[name].assign(values.begin(), values.end());
      check_tensors(whole.weights, same);
    }
}

TEST_CASE("Adam with penalty and clipping comes to the same on any ranks") {
  const SmallRun run;
  const auto trained = [&](const std::vector<std::string>& place) {
    std::vector<std::string> changes = emb_penalty("L2", "0.01");
    changes.insert(changes.end(), place.begin(), place.end());
    changes.insert(changes.end(), {"solver.max_iter=40", "solver.gradient_clip_norm=0.05"});
    REQUIRE(run.train({"--export", run / "w.safetensors"}, changes).code == 0);
    return read_weights(run / "w.safetensors");
  };
  const Tensors one = trained(kPlaces[0]);
  for (const auto& place : std::span(kPlaces).subspan(1))
    for (const auto& [name, values] : trained(place)) {
      INFO(place.front() << place.back() << " " << name);
      check_close(values, std::vector<double>(one.at(name).begin(), one.at(name).end()),
                  {2e-4, 2e-3}, name.c_str());
    }
}

TEST_CASE("what cannot be penalized or clipped is refused") {
  const SmallRun run;
  const std::string local =
      R"(layers.emb.optimizer={"type":"Adam","update_type":"Local","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.99,"epsilon":1e-8}})";
  const auto refused = [&](const std::vector<std::string>& changes,
                           const std::vector<std::string>& says) {
    const auto result = run.train({}, changes);
    INFO(result.err);
    CHECK(result.code == 2);
    for (const std::string& text : says) CHECK(result.err.find(text) != std::string::npos);
  };
  auto changes = emb_penalty("L2", "0.1");
  changes.push_back(local);
  refused(changes, {"layers[1].optimizer",
                    "expected update_type \"Global\" with the regularizer "
                    "of \"emb\"",
                    "found \"Local\""});
  refused({local, "solver.gradient_clip_norm=1"},
          {"layers[1].optimizer",
           "expected update_type \"Global\" with "
           "solver.gradient_clip_norm, found \"Local\" for \"emb\""});
  changes = emb_penalty("L2", "0.1");
  changes.insert(changes.end(), {"layers.emb.type=LocalizedSlotSparseEmbeddingHash"});
  refused(changes, {"layers[1].sparse_embedding_hparam.regularizer",
                    "expected a type whose tables have all their rows from the start",
                    "found LocalizedSlotSparseEmbeddingHash"});
  refused({"layers.emb.type=LocalizedSlotSparseEmbeddingHash",
           "layers.emb.sparse_embedding_hparam.init_stddev=0.1"},
          {"layers[1].sparse_embedding_hparam.init_stddev", "uniform values"});
}

}  // namespace
}  // namespace hlite::test
