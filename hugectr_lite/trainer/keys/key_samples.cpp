#include "hugectr_lite/trainer/keys/key_samples.h"

#include <algorithm>
#include <string>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/layer_registry.h"
#include "hugectr_lite/trainer/keys/key_meanings.h"

namespace hlite::trainer {
namespace {

constexpr const char* kSampleConfig = R"({
  "solver": {"lr_policy": "fixed", "display": 10, "max_iter": 100, "snapshot": 0,
             "snapshot_prefix": "./", "gpu": [0], "batchsize": 64, "eval_interval": 10,
             "eval_batches": 2, "lr_plateau": {}, "early_stop": {}},
  "optimizer": {"type": "SGD", "update_type": "Global", "sgd_hparam": {"learning_rate": 0.1}},
  "all_reduce": {},
  "layers": [
    {"type": "Data", "format": "Raw", "source": "train.bin", "eval_source": "eval.bin",
     "check": "None", "num_samples": 1000, "eval_num_samples": 100,
     "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 4},
     "sparse": [{"top": "keys", "type": "DistributedSlot", "slot_num": 2,
                 "max_feature_num_per_sample": 2}]},
    {"type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
     "sparse_embedding_hparam": {"embedding_vec_size": 8, "slot_size_array": [10, 20],
                                 "regularizer": "L2", "lambda": 0.1}}]})";

// JSON pointer and value; an empty one takes the key away.
using SampleChanges = std::vector<std::pair<const char*, const char*>>;

constexpr const char* kTablesAt = "/layers/1/sparse_embedding_hparam";
constexpr const char* kRing = R"({"num_threads": 1, "num_batches_per_thread": 2, "io_depth": 1,
                                  "io_alignment": 4096, "io_block_size": 8192})";
constexpr const char* kLists = R"({"top": "keys", "type": "LocalizedSlot", "slot_num": 2,
                                   "nnz_per_slot": [1, 1]})";

// What makes other samples of kSampleConfig. Each has another batch size and another embedding's
// top, so that a default taken from those shows as one that depends.
const std::vector<SampleChanges> kVariants = {
    {{"/layers/0/format", R"("RawAsync")"},
     {"/layers/0/async_param", kRing},
     {"/layers/1/type", R"("LocalizedSlotSparseEmbeddingOneHot")"},
     {"/layers/1/top", R"("other")"},
     {kTablesAt, R"({"embedding_vec_size": 8, "slot_size_array": [10, 20], "sharding": "auto",
                   "sharding_param": {}})"},
     {"/optimizer", R"({"type": "MomentumSGD", "momentum_sgd_hparam":
                        {"learning_rate": 0.1, "momentum_factor": 0.9}})"},
     {"/solver/batchsize", "128"},
     {"/solver/eval_batches", ""},
     {"/solver/max_eval_batches", "2"}},
    {{"/layers/0/format", R"("Norm")"},
     {"/layers/1/type", R"("DistributedSlotSparseEmbeddingHash")"},
     {kTablesAt, R"({"embedding_vec_size": 8, "max_vocabulary_size_per_gpu": 100})"},
     {"/layers/1/top", R"("other")"},
     {"/optimizer", R"({"type": "Nesterov", "nesterov_hparam":
                        {"learning_rate": 0.1, "momentum_factor": 0.9}})"},
     {"/solver/eval_batches", ""},
     {"/solver/max_eval_samples", "100"},
     {"/solver/max_iter", ""},
     {"/solver/num_epochs", "1"}},
    {{"/layers/0/format", R"("RawAsync")"},
     {"/layers/0/async_param", kRing},
     {"/layers/0/sparse/0", kLists},
     {"/layers/1/type", R"("LocalizedSlotSparseEmbeddingHash")"},
     {kTablesAt, R"({"embedding_vec_size": 8, "workspace_size_per_gpu_in_mb": 1})"},
     {"/optimizer", R"({"type": "Adam", "adam_hparam":
                        {"learning_rate": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}})"},
     {"/solver/eval_interval", ""},
     {"/solver/eval_every_epochs", "1"}},
    {{"/layers/0/sparse/0", kLists},
     {kTablesAt, R"({"embedding_vec_size": 8, "slot_size_array": [10, 20]})"},
     {"/layers/1/top", R"("other")"},
     {"/optimizer", R"({"type": "AdaGrad", "adagrad_hparam": {"learning_rate": 0.1}})"},
     {"/solver/eval_metrics", R"(["AUC", "GAUC"])"},
     {"/solver/eval_group_slot", "0"}},
    {{"/layers/0/format", R"("Norm")"},
     {"/layers/0/sparse/0", kLists},
     {"/layers/1/type", R"("DistributedSlotSparseEmbeddingHash")"},
     {kTablesAt, R"({"embedding_vec_size": 8, "max_vocabulary_size_per_gpu": 100})"},
     {"/optimizer", R"({"type": "AdaGrad", "adagrad_hparam":
                        {"learning_rate": 0.1, "initial_accu_value": 0}})"}},
    {{"/layers/0/format", R"("Parquet")"},
     {"/layers/0/columns",
      R"({"labels": ["y"], "conts": ["a", "b", "c", "d"], "cats": ["e", "f"]})"},
     {kTablesAt, R"({"embedding_vec_size": 8, "slot_size_array": [10, 20]})"}},
    {{"/layers/0/format", R"("Parquet")"}, {"/layers/0/sparse/0", kLists}},
    {{kTablesAt, R"({"embedding_vec_size": 8, "slot_size_array": [10, 20]})"},
     {"/optimizer", R"({"type": "Ftrl", "ftrl_hparam":
                        {"learning_rate": 0.1, "beta": 1, "lambda1": 0, "lambda2": 0}})"}}};

// More of layers whose keys exclude each other, or need another.
const std::vector<std::pair<const char*, const char*>> kMoreLayers = {
    {"Reshape", R"({"bottom": "x", "selected": [0, 1]})"},
    {"Reshape", R"({"bottom": "x", "leading_dim": 4})"},
    {"MLP", R"({"bottom": "x", "mlp_param": {"num_outputs": [4], "activations": ["Relu"],
                "biases": [true]}})"},
    {"PReLU_Dice", R"({"bottom": "x", "prelu_dice_param": {"elu_alpha": 0.2, "eps": 1e-8}})"},
    {"BinaryCrossEntropyLoss",
     R"({"bottom": ["z", "label"], "regularizer": "L2", "lambda": 0.1})"}};

Json layer_sample(const std::string& type, const char* text) {
  Json json = Json::parse(text);
  json["type"] = type;
  if (!json.contains("top")) json["top"] = type + "_top";
  return json;
}

}  // namespace

std::vector<Json> config_samples() {
  std::vector<Json> samples = {Json::parse(kSampleConfig)};
  for (const SampleChanges& changes : kVariants) {
    Json json = samples.front();
    for (const auto& [path, value] : changes) {
      const Json::json_pointer pointer(path);
      if (*value == '\0')
        json.at(pointer.parent_pointer()).erase(pointer.back());
      else
        json[pointer] = Json::parse(value);
    }
    samples.push_back(std::move(json));
  }
  return samples;
}

std::vector<Json> layer_samples() {
  std::vector<Json> samples;
  for (const LayerMeaning& layer : layer_meanings())
    samples.push_back(layer_sample(layer.type, layer.sample));
  for (const std::string& type : network::layer_types())
    if (std::none_of(samples.begin(), samples.end(),
                     [&](const Json& sample) { return sample.at("type") == type; }))
      raise("layer {}: expected a line in layer_meanings.cpp, found none", type);
  for (const auto& [type, text] : kMoreLayers) samples.push_back(layer_sample(type, text));
  return samples;
}

}  // namespace hlite::trainer
