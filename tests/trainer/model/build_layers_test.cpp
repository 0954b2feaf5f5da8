// A config with several faults gets all of them reported, in the order of the file.
#include "hugectr_lite/trainer/model/build_layers.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/small_config.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

using config::JsonNode;

// Every fault of a config, a line each; nothing for none.
std::string faults(const std::string& text, const std::vector<std::string>& changes = {}) {
  const auto config = config::read_train_config(JsonNode::parse(text, "f.json"), "", changes);
  try {
    trainer::require_valid(*config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kFaulty = R"({
 "solver": {"lr_policy": "fixed", "max_iter": 0, "snapshot": 0, "snapshot_prefix": "x",
  "gpu": [0],
  "batchsize": "many",
  "eval_intervall": 5},
 "optimizer": {"type": "Nesterov", "nesterov_hparam": {"learning_rate": -1}},
 "layers": [
  {"type": "Data", "format": "Raw", "source": "a", "check": "None", "num_samples": 9,
   "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 3},
   "sparse": [{"top": "keys", "type": "DistributedSlot", "slot_num": 1, "max_feature_num_per_sample": 1}]},
  {"type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
   "sparse_embedding_hparam": {"embedding_vec_size": 4, "slot_size_array": [5],
    "combiner": "max"}},
  {"type": "InnerProduct", "bottom": "dense", "top": "x",
   "fc_param": {"num_output": 4, "bias": true}},
  {"type": "ReLU", "bottom": "x", "top": "y"},
  {"type": "Reshap", "bottom": "emb", "top": "flat"},
  {"type": "Concat", "bottom": ["y", "flat"], "top": "z"},
  {"type": "Tanh", "bottom": "w", "top": "v"},
  {"type": "FmOrder2", "out_dim": 2, "bottom": "dense",
   "top": "u"},
  {"type": "BinaryCrossEntropyLoss", "bottom": ["label",
   "z"], "top": "loss"}]
})";

TEST_CASE("all faults of a config are found at once, in the order of the file") {
  CHECK(faults(kFaulty) ==
        "f.json:2: solver.max_iter: expected an integer >= 1, found 0\n"
        "f.json:4: solver.batchsize: expected an integer in [1, 2147483647], found \"many\"\n"
        "f.json:5: solver.eval_intervall: unknown key; did you mean \"eval_interval\"?\n"
        "f.json:6: optimizer.nesterov_hparam.learning_rate: expected a number >= 0, found -1\n"
        "f.json:6: optimizer.nesterov_hparam: missing key \"momentum_factor\"\n"
        "f.json:13: layers[1].sparse_embedding_hparam.combiner: expected 0 (sum), 1 (mean) or "
        "\"concat\", found \"max\"\n"
        "f.json:15: layers[2].fc_param.bias: unknown key; known keys: bias_init, num_output, "
        "use_bias, weight_init\n"
        "f.json:17: layers[4].type: unknown layer type \"Reshap\"; did you mean \"Reshape\"?\n"
        "f.json:19: layers[6].bottom: no layer before this one makes a tensor \"w\"; did you mean "
        "\"x\"?\n"
        "f.json:20: layers[7].out_dim: expected a divisor of 3, the width of \"dense\", found 2\n"
        "f.json:22: layers[8].bottom[0]: expected logits as the first bottom of a loss, found the "
        "labels \"label\"; the labels are its second bottom");
}

TEST_CASE("what is evaluated, and the loss, must fit the labels and their weights") {
  const std::string squared = "layers.loss.type=MSELoss";
  const auto check = [](const std::vector<std::string>& changes,
                        std::initializer_list<std::string_view> parts) {
    check_contains(faults(small_config(), changes), parts);
  };
  CHECK(faults(small_config(), {squared, "layers.data.label.real=true"}).empty());
  CHECK(faults(small_config(), {"layers.data.label.sample_weight=true"}).empty());
  CHECK(faults(small_config(), {squared, "solver.eval_metrics=[\"AverageLoss\"]"}).empty());
  check({"layers.data.label.real=true"},
        {"layers[0].label.real: expected false", "only MSELoss", "found true"});
  check({squared, "solver.eval_metrics=[\"AUC:0.8\",\"AverageLoss\"]"},
        {"solver.eval_metrics[0]: expected \"AverageLoss\", ",
         "\"RMSE\", as MSELoss predicts values", "found AUC:0.8"});
  check({"solver.eval_metrics=[\"AUC\",\"RMSE\"]"},
        {"solver.eval_metrics: expected metrics of probabilities", "found RMSE"});
  CHECK(faults(small_config(), {squared, "solver.eval_metrics=[\"AverageLoss\",\"RMSE\"]",
                                "solver.early_stop={\"monitor\":\"RMSE\"}"})
            .empty());
  check({squared, "solver.early_stop={}"},
        {"solver.early_stop: expected \"AverageLoss\"", "found \"monitor\": \"AUC\""});
  check({"layers.data.label.sample_weight=true", "solver.eval_metrics=[\"AUC\",\"GAUC\"]",
         "solver.eval_group_slot=0"},
        {"solver.eval_metrics: expected metrics without groups", "found GAUC"});
  check({squared, "layers.data.label.real=true", "layers.data.negative_share=0.5"},
        {"layers[0].negative_share: expected 1 unless samples have one label"});
}

TEST_CASE("what a config can say wrong of a history is named, and nothing that follows from it") {
  const std::string din = read_text(HLITE_SOURCE_DIR "/tests/data/golden/din/config.json");
  CHECK(faults(din).empty());
  const std::string history = "layers.data.sparse[2].", goods = "layers.goods_embedding.",
                    combiner = goods + "sparse_embedding_hparam.combiner=";
  // A change, and all that is said.
  const std::pair<std::string, std::string> kSaid[] = {
      {history + "max_len=0", "sparse[2].max_len: expected an integer in [1, 1048576], found 0"},
      {history + "max_len=1048577",
       "sparse[2].max_len: expected an integer in [1, 1048576], found 1048577"},
      {history + "max_nnz=3", "sparse[2].max_len: expected either max_len or max_nnz, found both"},
      {history + "nnz_per_slot=[3,3]",
       "sparse[2].max_len: expected either max_len or nnz_per_slot, found both"},
      {history + "is_fixed_length=true",
       "sparse[2].is_fixed_length: expected false of a history (`max_len`), found true"},
      {R"(layers.data.sparse[1]={"top":"target","slot_num":2,"max_len":1,"lengths":"history_len"})",
       "sparse[2].lengths: tensor \"history_len\" is made twice"},
      {R"(layers.data.columns.cats=["user","item"])",
       "columns.cats: expected 5 names (the slots of sparse), found 2"},
      {combiner + R"(["concat"])",
       "combiner: expected one combiner for each of 2 bottoms, found a list of 1"},
      {combiner + R"(["concat","max"])",
       "combiner[1]: expected 0 (sum), 1 (mean) or \"concat\", found \"max\""},
      {goods + R"(bottom=["target","hist"])",
       "layers[2].bottom[1]: expected a sparse input of layers[0] (user, target, history), found "
       "\"hist\""},
      {"layers.data.sparse[1].max_nnz=2",
       "combiner: expected \"sum\" or \"mean\" for \"target\", which has up to 2 keys a slot and no "
       "max_len, found \"concat\""},
      {"layers.mask.leading_dim=8",
       "layers[16].bottom: expected equal shapes, found \"scores\" [B,16] and \"mask\" [2 B,8]"},
      {R"(layers.average3.bottom=["history_emb","user_flat"])",
       "layers[20].bottom: expected lengths as bottom 1, found \"user_flat\" [B,8]"}};
  for (const auto& [change, said] : kSaid) {
    INFO(change);
    const std::string found = faults(din, {change});
    CHECK(found.find('\n') == std::string::npos);
    check_contains(found, {said});
  }
  for (const char* taken : {"history", "user", "label"})
    check_contains(faults(din, {history + "lengths=" + taken}),
                   {fmt::format("sparse[2].lengths: tensor \"{}\" is made twice", taken)});
  check_contains(faults(din, {goods + "top=target_emb"}),
                 {"layers[2].top: expected 2 tops, one for each bottom, found 1"});
  // Histories of one event.
  CHECK(faults(din, {history + "max_len=1", "layers.target_rows.scale_param.factor=1",
                     "layers.scores.leading_dim=1", "layers.mask4.max_sequence_len_to=1",
                     "layers.mask.leading_dim=1", "layers.weights3.leading_dim=1"})
            .empty());
}

TEST_CASE("what follows from another fault is not reported") {
  CHECK(faults(small_config()).empty());
  // Shapes of vectors, and what uses them, depend on the data layer.
  CHECK(faults(small_config(), {"layers.data.dense.dense_dim=x"}) ==
        "--set layers.data.dense.dense_dim: layers[0].dense.dense_dim: expected an integer in [0, "
        "16777216], found \"x\"");
  CHECK(faults(small_config(), {"layers=[]"}) ==
        "--set layers: layers: expected a non-empty list of layers, found an empty list");
  CHECK(faults(small_config(), {"layers=[7,8]"}) ==
        "--set layers: layers[0]: expected an object, found 7\n"
        "--set layers: layers[1]: expected an object, found 8");
}

TEST_CASE("a config cut off at any byte, or changed at one, is valid or named as faulty") {
  const std::string text = kFaulty;
  for (size_t i = 0; i < text.size(); i += 3) {
    std::string changed = text;
    changed[i] = "\"{}[],:0-x\\\n"[i % 12];
    std::string said;
    try {
      said = faults(changed);
    } catch (const ConfigError& error) {  // no JSON
      said = error.what();
    }
    CHECK(!said.empty());
  }
}

}  // namespace
}  // namespace hlite::test
