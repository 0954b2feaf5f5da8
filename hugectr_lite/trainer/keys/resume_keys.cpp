#include "hugectr_lite/trainer/keys/resume_keys.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "hugectr_lite/trainer/keys/config_keys.h"

namespace hlite::trainer {
namespace {

using config::BlockSchema;
using config::JsonNode;
using config::KeySchema;
using enum ResumeRule;

constexpr std::pair<std::string_view, ResumeRule> kRules[] = {
    {"solver.seed", kFree},  // check_same_run()
    {"solver.lr_policy", kLearning},
    {"solver.max_iter", kFree},
    {"solver.num_epochs", kFree},
    {"solver.display", kFree},
    {"solver.snapshot", kFree},
    {"solver.snapshot_prefix", kFree},
    {"solver.keep_checkpoints", kFree},
    {"solver.on_save_error", kFree},
    {"solver.gpu", kFree},
    {"solver.device_layout", kFree},
    {"solver.batchsize", kFixed},
    {"solver.batchsize_eval", kMetrics},
    {"solver.eval_interval", kFree},
    {"solver.eval_start", kFree},
    {"solver.eval_every_epochs", kFree},
    {"solver.eval_batches", kMetrics},
    {"solver.max_eval_batches", kMetrics},
    {"solver.max_eval_samples", kMetrics},
    {"solver.eval_metrics", kFree},
    {"solver.auc_threshold", kFree},
    {"solver.eval_group_slot", kMetrics},
    {"solver.lr_plateau", kFree},
    {"solver.lr_plateau.monitor", kMetrics},
    {"solver.early_stop", kFree},
    {"solver.early_stop.monitor", kMetrics},
    {"solver.export_predictions_prefix", kFree},
    {"solver.model_file", kFree},
    {"solver.dense_model_file", kFree},
    {"solver.sparse_model_file", kFree},
    {"solver.gradient_clip_norm", kLearning},
    {"solver.gradient_clip_scope", kLearning},
    {"solver.mixed_precision", kLearning},
    {"solver.enable_tf32_compute", kLearning},
    {"solver.precision", kLearning},
    {"solver.device", kFree},
    {"solver.threads", kFree},
    {"solver.cuda_graph", kFree},
    {"solver.holistic_cuda_graph", kFree},
    {"solver.enable_overlap", kFree},
    {"solver.algorithm_search", kFree},
    {"solver.input_key_type", kData},
    {"solver.wire_precision", kLearning},
    {"solver.shard_optimizer", kFree},
    {"solver.input", kFree},
    {"solver.benchmark", kFree},
    {"solver.table_precision", kFixed},
    {"solver.embedding_memory", kFree},
    {"optimizer", kLearning},
    {"optimizer.type", kFixed},
    {"all_reduce", kFree},
    {"strict", kFree},
    {"data.name", kFree},
    {"data.type", kFree},
    {"data.format", kData},
    {"data.source", kFree},  // check_model_data()
    {"data.eval_source", kMetrics},
    {"data.test_source", kFree},
    {"data.follow", kFree},  // check_same_run()
    {"data.check", kFree},
    {"data.num_samples", kData},
    {"data.eval_num_samples", kMetrics},
    {"data.cache_eval_data", kFree},
    {"data.label.top", kFree},
    {"data.label.label_dim", kFixed},
    {"data.label.sample_weight", kMetrics},
    {"data.label.real", kMetrics},
    {"data.dense.top", kFree},
    {"data.dense.dense_dim", kFixed},
    {"data.dense.aligned", kData},
    {"data.sparse", kFixed},  // another number of inputs
    {"data.sparse.top", kFree},
    {"data.sparse.type", kFree},
    {"data.sparse.slot_num", kFixed},
    {"data.sparse.nnz_per_slot", kMetrics},
    {"data.sparse.max_feature_num_per_sample", kData},
    {"data.sparse.max_nnz", kData},
    {"data.sparse.is_fixed_length", kData},
    {"data.sparse.max_len", kMetrics},
    {"data.sparse.lengths", kFree},
    {"data.slot_size_array", kFree},  // load_checkpoint()
    {"data.async_param", kFree},
    {"data.async_param.shuffle", kData},
    {"data.async_param.is_dense_float", kMetrics},
    {"data.num_workers", kFree},
    {"data.shuffle_samples", kData},
    {"data.negative_share", kMetrics},
    {"data.float_label_dense", kMetrics},
    {"data.key_policy", kMetrics},
    {"data.oov_key", kMetrics},
    {"data.keys", kMetrics},
    {"data.columns", kMetrics},
    {"data.num_iterations_statistics", kFree},
    {"embedding.type", kMetrics},  // other keys may have a row
    {"embedding.bottom", kMetrics},
    {"embedding.top", kFree},
    {"embedding.name", kFree},
    {"embedding.optimizer", kLearning},
    {"embedding.optimizer.type", kFixed},
    {"embedding.plan_file", kFree},
    {"embedding.sparse_embedding_hparam.embedding_vec_size", kFixed},
    {"embedding.sparse_embedding_hparam.slot_size_array", kFree},  // load_checkpoint()
    {"embedding.sparse_embedding_hparam.slot_tables", kMetrics},
    {"embedding.sparse_embedding_hparam.combiner", kMetrics},
    {"embedding.sparse_embedding_hparam.max_vocabulary_size_per_gpu", kFree},
    {"embedding.sparse_embedding_hparam.workspace_size_per_gpu_in_mb", kFree},
    {"embedding.sparse_embedding_hparam.max_vocabulary_size", kFree},
    {"embedding.sparse_embedding_hparam.vocabulary_size", kFree},
    {"embedding.sparse_embedding_hparam.load_factor", kFree},
    {"embedding.sparse_embedding_hparam.init_stddev", kLearning},
    {"embedding.sparse_embedding_hparam.regularizer", kLearning},
    {"embedding.sparse_embedding_hparam.lambda", kLearning},
    {"embedding.sparse_embedding_hparam.sharding", kFree},
    {"embedding.sparse_embedding_hparam.sharding_param", kFree},
    {"embedding.sparse_embedding_hparam.max_num_frequent_categories", kFree},
    {"embedding.sparse_embedding_hparam.max_num_infrequent_samples", kFree},
    {"embedding.sparse_embedding_hparam.p_dup_max", kFree},
    {"embedding.sparse_embedding_hparam.max_all_reduce_bandwidth", kFree},
    {"embedding.sparse_embedding_hparam.max_all_to_all_bandwidth", kFree},
    {"embedding.sparse_embedding_hparam.efficiency_bandwidth_ratio", kFree},
    {"embedding.sparse_embedding_hparam.communication_type", kFree},
    {"embedding.sparse_embedding_hparam.hybrid_embedding_type", kFree},
    {"embedding.sparse_embedding_hparam.num_iterations_statistics", kFree},
    {"embedding.sparse_embedding_hparam.exchange_capacity", kFree},
    {"embedding.sparse_embedding_hparam.admission", kLearning},
    {"embedding.sparse_embedding_hparam.eviction", kLearning},
    {"embedding.sparse_embedding_hparam.when_full", kLearning},
    {"embedding.sparse_embedding_hparam.default_vector", kMetrics},
    {"layer", kMetrics},  // a new key of a dense layer, too, says what the network computes
    {"layer.name", kFree},
    {"layer.top", kFree},
    {"layer.rate", kLearning},
    {"layer.pos_weight", kLearning},
    {"layer.regularizer", kLearning},
    {"layer.lambda", kLearning},
    {"layer.position", kFree},
    {"layer.weight_init", kFree},
    {"layer.weight_dims", kFixed},
    {"layer.bn_param.factor", kLearning},
    {"layer.bn_param.gamma_init", kFree},
    {"layer.bn_param.beta_init", kFree},
    {"layer.bn_param.is_training", kFree},
    {"layer.ln_param.gamma_init", kFree},
    {"layer.ln_param.beta_init", kFree},
    {"layer.fc_param.num_output", kFixed},
    {"layer.fc_param.use_bias", kFixed},
    {"layer.fc_param.weight_init", kFree},
    {"layer.fc_param.bias_init", kFree},
    {"layer.mlp_param.num_outputs", kFixed},
    {"layer.mlp_param.dropout", kLearning},
    {"layer.mlp_param.dropouts", kLearning},
    {"layer.mlp_param.weight_init", kFree},
    {"layer.mlp_param.bias_init", kFree},
    {"layer.mlp_param.num_output", kFree},
    {"layer.mc_param.num_layers", kFixed},
    {"layer.mc_param.projection_dim", kFixed},
    {"layer.mc_param.full_rank", kFixed},
    {"layer.mc_param.weight_init", kFree},
    {"layer.mc_param.bias_init", kFree},
};

bool same(const JsonNode& a, const JsonNode& b) {
  using Kind = JsonNode::Kind;
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.kind() == Kind::kInteger && b.kind() == Kind::kString)  // the two names of a combiner
    return (a.integer() == 0 && b.string() == "sum") || (a.integer() == 1 && b.string() == "mean");
  if (b.kind() == Kind::kInteger && a.kind() == Kind::kString) return same(b, a);
  if (a.kind() == Kind::kArray && b.kind() == Kind::kArray)
    return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(),
                      b.elements().end(), same);
  return a.dump() == b.dump();
}

std::string text_of(const JsonNode* node) {
  constexpr size_t kMost = 60;
  std::string text = node ? node->dump() : "nothing";
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

bool are_objects(const JsonNode& list) {
  return std::all_of(list.elements().begin(), list.elements().end(),
                     [](const JsonNode& of) { return of.kind() == JsonNode::Kind::kObject; });
}

std::string name_of(const JsonNode& layer) {
  for (const char* key : {"name", "top"})
    if (const JsonNode* name = layer.find(key)) return text_of(name);
  return {};
}

class Comparison {
 public:
  Comparison(const JsonNode& before, const config::TrainConfig& config)
      : before_(before), config_(config), keys_(config_keys()) {}

  std::vector<ConfigChange> changes() && {
    for (const KeySchema& key : keys_.config.keys)
      if (key.name != "layers") compare(key, {before_, config_.root, key.name, ""});
    const std::vector<JsonNode>& layers = config_.root.find("layers")->elements();
    const JsonNode* const list = before_.find("layers");
    static const std::vector<JsonNode> kNone;
    const std::vector<JsonNode>& old =
        list && list->kind() == JsonNode::Kind::kArray ? list->elements() : kNone;
    if (!old.empty()) compare(keys_.data, {old[0], layers[0], "data", layers[0].path()});
    for (size_t i = 1; i < layers.size(); ++i) compare_layer(find(old, layers[i]), layers[i]);
    for (size_t i = 1; i < old.size(); ++i)
      if (!find(layers, old[i]))
        changes_.push_back({kMetrics, "layers", text_of(&old[i]), "nothing"});
    return std::move(changes_);
  }

 private:
  // A block of both configs, the key of its rules, and its place.
  struct Blocks {
    const JsonNode &before, &now;
    std::string rules, path;
  };

  static const JsonNode* find(const std::vector<JsonNode>& layers, const JsonNode& like) {
    for (size_t i = 1; i < layers.size(); ++i)
      if (name_of(layers[i]) == name_of(like)) return &layers[i];
    return nullptr;
  }

  void compare_layer(const JsonNode* before, const JsonNode& now) {
    if (!before) {
      changes_.push_back({kMetrics, now.path(), "nothing", text_of(&now)});
      return;
    }
    const JsonNode* const type = now.find("type");
    for (const auto& [blocks, rules] :
         {std::pair(&keys_.embeddings, "embedding"), std::pair(&keys_.layers, "layer")})
      for (const auto& [name, schema] : *blocks)
        if (type && type->kind() == JsonNode::Kind::kString && type->string() == name)
          compare(schema, {*before, now, rules, now.path()});
  }

  void compare(const BlockSchema& schema, const Blocks& of) {
    for (const KeySchema& key : schema.keys)
      compare(key, {of.before, of.now, of.rules + "." + key.name, of.path});
  }

  // `of.rules`: those of the key; the rest are the blocks that it is in.
  void compare(const KeySchema& key, const Blocks& of) {
    const JsonNode *before = of.before.find(key.name), *now = of.now.find(key.name);
    if (of.rules == "embedding.optimizer") {
      if (!before) before = before_.find("optimizer");
      if (!now) now = config_.root.find("optimizer");
    }
    const std::string path = config::member_path(of.path, key.name);
    using Kind = JsonNode::Kind;
    if (key.block && before && now && before->kind() == now->kind()) {
      if (now->kind() == Kind::kObject) return compare(*key.block, {*before, *now, of.rules, path});
      if (now->kind() == Kind::kArray && now->elements().size() == before->elements().size() &&
          are_objects(*before) && are_objects(*now)) {
        for (size_t i = 0; i < now->elements().size(); ++i)
          compare(*key.block,
                  {before->elements()[i], now->elements()[i], of.rules, now->elements()[i].path()});
        return;
      }
    }
    const JsonNode standard =
        key.otherwise.empty() ? JsonNode() : JsonNode::parse(key.otherwise, "default");
    const JsonNode &a = before ? *before : standard, &b = now ? *now : standard;
    if (same(a, b) || (key.name == "eval_source" && is_same_file(a, b))) return;
    const auto shown = [&](const JsonNode& value) {
      return text_of(value.kind() == Kind::kNull ? nullptr : &value);
    };
    changes_.push_back({resume_rule(of.rules).value_or(kMetrics), path, shown(a), shown(b)});
  }

  [[nodiscard]] bool is_same_file(const JsonNode& a, const JsonNode& b) const {
    std::error_code none;
    return a.kind() == JsonNode::Kind::kString && b.kind() == JsonNode::Kind::kString &&
           std::filesystem::equivalent(config_.resolve(a.string()), config_.resolve(b.string()),
                                       none);
  }

  const JsonNode& before_;
  const config::TrainConfig& config_;
  const ConfigKeys keys_;
  std::vector<ConfigChange> changes_;
};

}  // namespace

std::optional<ResumeRule> resume_rule(std::string_view key) {
  for (;;) {
    for (const auto& [path, rule] : kRules)
      if (path == key) return rule;
    const size_t dot = key.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    key = key.substr(0, dot);
  }
}

std::vector<std::string> ruled_keys() {
  std::vector<std::string> keys;
  for (const auto& [path, rule] : kRules) keys.emplace_back(path);
  return keys;
}

std::vector<ConfigChange> changes_since(const JsonNode& before, const config::TrainConfig& config) {
  return Comparison(before, config).changes();
}

}  // namespace hlite::trainer
