// Several sparse inputs, several embeddings on one of them, and several labels.
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/predict/predict_case.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

constexpr size_t kDense = 2, kKeys = 3;  // of small_samples()

// small_samples() with `labels` labels and the keys `columns`. Label l > 0 is the first one, turned
// round, and of every seventh sample absent.
std::string samples_with(int64_t n, uint64_t seed, size_t labels,
                         const std::vector<size_t>& columns) {
  const std::string plain = small_samples(n, seed);
  std::string bytes;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    uint32_t words[1 + kDense + kKeys];
    std::memcpy(words, plain.data() + i * sizeof(words), sizeof(words));
    const auto put = [&](uint32_t v) { bytes.append(reinterpret_cast<const char*>(&v), 4); };
    put(words[0]);
    for (size_t l = 1; l < labels; ++l) put(i % 7 == 0 ? static_cast<uint32_t>(-1) : 1 - words[0]);
    for (size_t d = 0; d < kDense; ++d) put(words[1 + d]);
    for (const size_t c : columns) put(words[1 + kDense + c]);
  }
  return bytes;
}

struct Embedding {
  std::string name, input, sizes;
  int width;
};

std::string embedding_text(const Embedding& e, const char* type) {
  return fmt::format(
      R"({{"name":"{0}","type":"{1}","bottom":"{2}","top":"{0}","sparse_embedding_hparam":)"
      R"({{"slot_size_array":{3},"embedding_vec_size":{4},"combiner":0}}}},)",
      e.name, type, e.input, e.sizes, e.width);
}

std::string sparse_text(const std::string& top, int slots) {
  return fmt::format(
      R"({{"top":"{}","type":"DistributedSlot","max_feature_num_per_sample":{},"max_nnz":1,"slot_num":{}}})",
      top, slots, slots);
}

// Everything up to the dense layers.
std::string head(const std::string& sparse, int labels = 1) {
  return R"({"solver":{"seed":7,"lr_policy":"fixed","display":10,"max_iter":60,"gpu":[0],"batchsize":32,
  "batchsize_eval":64,"eval_batches":10,"eval_interval":60,"snapshot":1000000,"snapshot_prefix":"./s_"},
 "optimizer":{"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.01,"beta1":0.9,
  "beta2":0.999,"epsilon":1e-6}},
 "layers":[{"name":"data","type":"Data","format":"Raw","source":"train.bin","eval_source":"eval.bin",
  "check":"None","num_samples":500,"eval_num_samples":333,"label":{"top":"label","label_dim":)" +
         std::to_string(labels) + R"(},"dense":{"top":"dense","dense_dim":2},"sparse":[)" + sparse +
         "]},";
}

// Of tables e1 and e3 on slots 0 and 1, and e2 on slot 2.
const char* const kTail = R"(
  {"type":"Reshape","bottom":"e1","top":"r1"},{"type":"Reshape","bottom":"e2","top":"r2"},
  {"type":"Reshape","bottom":"e3","top":"r3"},
  {"type":"Concat","bottom":["r1","r2","r3","dense"],"top":"c"},
  {"name":"f","type":"FusedInnerProduct","bottom":"c","top":"h","fc_param":{"num_output":8}},
  {"name":"z","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
  {"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"}]})";

Tensors weights_of_run(const SmallRun& run, const std::string& config,
                       std::vector<std::string> changes = {}) {
  write_text(run / "config.json", config);
  std::vector<std::string> arguments = {"--quiet", "--threads", "2", "--save", run / "out"};
  REQUIRE(run.train(arguments, changes).code == 0);
  return everything(run / "out");
}

}  // namespace

TEST_CASE("embeddings in any order, and several on one input, train as if each had its own") {
  const SmallRun run;
  const Embedding e1{"e1", "k1", "[40,5]", 4}, e2{"e2", "k2", "[300]", 3};
  Embedding e3{"e3", "k1", "[41,9]", 1};
  for (const char* type : {"HybridSparseEmbedding", "LocalizedSlotSparseEmbeddingOneHot"}) {
    INFO(type);
    const auto layers = [&](const std::vector<Embedding>& list) {
      std::string text;
      for (const Embedding& e : list) text += embedding_text(e, type);
      return text + kTail;
    };
    const std::string inputs = head(sparse_text("k1", 2) + "," + sparse_text("k2", 1));
    const Tensors one = weights_of_run(run, inputs + layers({e1, e2, e3}));
    CHECK((weights_of_run(run, inputs + layers({e3, e2, e1})) == one));
    for (const char* ranks : {"[[0,1]]", "[[0,1],[2,3]]"}) {
      INFO(ranks);
      check_close_tensors(weights_of_run(run, inputs + layers({e2, e3, e1}), {gpu(ranks)}), one,
                          2e-4);
    }
    // With a copy of its keys.
    Embedding own = e3;
    own.input = "k3";
    write_text(run / "train.bin", samples_with(500, 1, 1, {0, 1, 2, 0, 1}));
    write_text(run / "eval.bin", samples_with(333, 2, 1, {0, 1, 2, 0, 1}));
    const std::string copied =
        head(sparse_text("k1", 2) + "," + sparse_text("k2", 1) + "," + sparse_text("k3", 2));
    CHECK((weights_of_run(run, copied + layers({e1, e2, own})) == one));
    write_text(run / "train.bin", small_samples(500, 1));
    write_text(run / "eval.bin", small_samples(333, 2));
  }
}

TEST_CASE("a key must be in the smallest of the tables that its slot has") {
  const SmallRun run;
  write_text(run / "config.json",
             head(sparse_text("k1", 2) + "," + sparse_text("k2", 1)) +
                 embedding_text({"e1", "k1", "[40,5]", 4}, "HybridSparseEmbedding") +
                 embedding_text({"e2", "k2", "[300]", 3}, "HybridSparseEmbedding") +
                 embedding_text({"e3", "k1", "[40,3]", 1}, "HybridSparseEmbedding") + kTail);
  const auto result = run.train();
  CHECK(result.code == 3);
  INFO(result.err);
  check_contains(result.err, {"less than 3"});
}

TEST_CASE("an embedding whose type has a slip is named, not the good one after it") {
  const SmallRun run;
  write_text(run / "config.json",
             head(sparse_text("k1", 2) + "," + sparse_text("k2", 1)) +
                 embedding_text({"e1", "k1", "[40,5]", 4}, "DistributedSlotSparseEmbedding") +
                 embedding_text({"e2", "k2", "[300]", 3}, "HybridSparseEmbedding") +
                 embedding_text({"e3", "k1", "[40,5]", 1}, "HybridSparseEmbedding") + kTail);
  const auto result = run.train({"--check"});
  INFO(result.err);
  CHECK(result.code == 2);
  check_contains(result.err, {"layers[1].type: ", "DistributedSlotSparseEmbeddingHash"});
}

TEST_CASE("several labels: a loss and an AUC for each, absent ones left out, on any ranks",
          "[no-tsan]") {
  const SmallRun run;
  write_text(run / "train.bin", samples_with(500, 1, 2, {0, 1, 2}));
  write_text(run / "eval.bin", samples_with(333, 2, 2, {0, 1, 2}));
  const std::string config =
      head(sparse_text("keys", 3), 2) +
      embedding_text({"e", "keys", "[40,5,300]", 4}, "HybridSparseEmbedding") + R"(
  {"type":"Reshape","bottom":"e","top":"r"},{"type":"Concat","bottom":["r","dense"],"top":"c"},
  {"name":"f","type":"FusedInnerProduct","bottom":"c","top":"h","fc_param":{"num_output":8}},
  {"name":"a","type":"InnerProduct","bottom":"h","top":"za","fc_param":{"num_output":1}},
  {"name":"b","type":"InnerProduct","bottom":"h","top":"zb","fc_param":{"num_output":1}},
  {"type":"Concat","bottom":["za","zb"],"top":"z"},
  {"name":"loss","type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[0.5,2]}]})";
  write_text(run / "config.json", config);
  nlohmann::json one;
  for (const char* ranks : {"[0]", "[[0,1]]", "[[0],[1]]"}) {
    INFO(ranks);
    const std::string saved = fmt::format("model{}", std::strlen(ranks));
    const auto result =
        run.train({"--threads", "2", "--save", run / saved, "--metrics", run / "m.jsonl", "--set",
                   gpu(ranks), "--set", "solver.max_iter=300", "--set", "solver.eval_interval=300",
                   "--set", R"(solver.eval_metrics=["AUC","Calibration","GAUC"])", "--set",
                   "solver.eval_group_slot=1"});
    REQUIRE(result.code == 0);
    check_contains(result.err, {"(by task: 0."});
    const auto e = last_event(run / "m.jsonl", "eval");
    REQUIRE(e["tasks"].size() == 2);
    const auto &a = e["tasks"][0], &b = e["tasks"][1];
    CHECK(a["samples"] == 333);
    CHECK(b["samples"] == 333 - 48);  // every seventh has no second label
    CHECK(a["auc"].get<double>() > 0.6);
    CHECK(b["auc"].get<double>() > 0.6);
    for (const char* name : {"auc", "calibration", "gauc"}) {
      INFO(name);
      CHECK(e[name].get<double>() ==
            Approx((a[name].get<double>() + b[name].get<double>()) / 2).epsilon(1e-12));
    }
    const double loss = 0.5 * a["loss"].get<double>() + 2 * b["loss"].get<double>() * 285 / 333;
    CHECK(e["loss"].get<double>() == Approx(loss / 2).epsilon(1e-9));
    const auto predicted =
        predict(run, {"--model", saved, "--input", "eval.bin", "--out", "s.npy"});
    CHECK(number_after(predicted.err, " AUC ") == Approx(e["auc"].get<double>()).margin(1e-6));
    CHECK(number_after(predicted.err, "log loss ") == Approx(e["loss"].get<double>()).margin(1e-6));
    CHECK(number_after(predicted.err, ", GAUC ") == Approx(e["gauc"].get<double>()).margin(1e-6));
    if (one.is_null()) one = e;
    CHECK(a["auc"].get<double>() == Approx(one["tasks"][0]["auc"].get<double>()).margin(5e-3));
    CHECK(b["loss"].get<double>() == Approx(one["tasks"][1]["loss"].get<double>()).epsilon(5e-3));
  }
}

}  // namespace hlite::test
