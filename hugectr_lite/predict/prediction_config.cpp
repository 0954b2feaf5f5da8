#include "hugectr_lite/predict/prediction_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/core/error.h"

namespace hlite::predict {

namespace {
using config::JsonNode;
using Changes = std::vector<std::string>;
using Sizes = std::vector<int64_t>;

std::string text_at(const JsonNode& block, const char* key) {
  const JsonNode* node = block.find(key);
  return node != nullptr && node->kind() == JsonNode::Kind::kString ? node->string() : "";
}

const std::vector<JsonNode>& list_at(const JsonNode& block, const char* key) {
  static const std::vector<JsonNode> kNone;
  const JsonNode* node = block.find(key);
  return node != nullptr && node->kind() == JsonNode::Kind::kArray ? node->elements() : kNone;
}

// One name or a list of them.
std::vector<std::string> names_at(const JsonNode& block, const char* key) {
  std::vector<std::string> names;
  for (const JsonNode& name : list_at(block, key)) names.push_back(name.string());
  if (names.empty()) names.push_back(text_at(block, key));
  return names;
}

// A layer without a name has that of its first top.
std::string name_of(const JsonNode& layer) {
  const std::string name = text_at(layer, "name");
  return name.empty() ? names_at(layer, "top").front() : name;
}

// Rows of an embedding's tables; none where it holds the keys that came.
Sizes table_rows(const checkpoint::SafetensorsReader& weights, const std::string& embedding) {
  Sizes rows;
  for (;;) {
    const std::string table = fmt::format("{}.table_{}", embedding, rows.size());
    const auto* tensor = weights.find(table);
    if (tensor == nullptr || tensor->shape.empty()) return rows;
    if (weights.find(table + ".keys") != nullptr) return {};
    rows.push_back(tensor->shape[0]);
  }
}

// Returns the rows of each slot's table, if `hparam` says which table each slot looks up.
Sizes slot_rows(Sizes of_tables, const JsonNode& hparam) {
  const std::vector<JsonNode>& tables = list_at(hparam, "slot_tables");
  if (tables.empty()) return of_tables;
  Sizes rows;
  for (const JsonNode& table : tables) {
    const bool known = table.kind() == JsonNode::Kind::kInteger && table.integer() >= 0 &&
                       table.integer() < std::ssize(of_tables);
    if (!known) return {};
    rows.push_back(of_tables[static_cast<size_t>(table.integer())]);
  }
  return rows;
}

// Lists in the place of manifests. What is wrong with the config is found out later.
Changes sizes_of_tables(const JsonNode& root, const checkpoint::SafetensorsReader& weights) {
  const std::vector<JsonNode>& layers = list_at(root, "layers");
  if (layers.empty()) return {};
  Changes changes;
  std::map<std::string, int64_t> slots;
  for (const JsonNode& input : list_at(layers[0], "sparse"))
    if (const JsonNode* count = input.find("slot_num"))
      slots[text_at(input, "top")] = count->integer();
  std::map<std::string, Sizes> of_input;
  for (size_t i = 1; i < layers.size(); ++i) {
    const JsonNode* hparam = layers[i].find("sparse_embedding_hparam");
    if (hparam == nullptr) continue;
    const Sizes rows = slot_rows(table_rows(weights, name_of(layers[i])), *hparam);
    auto next = rows.begin();
    for (const std::string& input : names_at(layers[i], "bottom")) {
      const int64_t count = std::clamp<int64_t>(slots[input], 0, rows.end() - next);
      of_input.emplace(input, Sizes(next, next + count));
      next += count;
    }
    if (!rows.empty() && !text_at(*hparam, "slot_size_array").empty())
      changes.push_back(fmt::format("layers[{}].sparse_embedding_hparam.slot_size_array=[{}]", i,
                                    fmt::join(rows, ",")));
  }
  if (text_at(layers[0], "slot_size_array").empty()) return changes;
  Sizes all;
  for (const JsonNode& input : list_at(layers[0], "sparse")) {
    const Sizes& rows = of_input[text_at(input, "top")];
    if (rows.empty()) return changes;
    all.insert(all.end(), rows.begin(), rows.end());
  }
  changes.push_back(fmt::format("layers[0].slot_size_array=[{}]", fmt::join(all, ",")));
  return changes;
}

}  // namespace

std::unique_ptr<config::TrainConfig> load_config(const ConfigText& config, const Changes& changes) {
  return config.path.empty() ? config::parse_train_config(config.text, config.name, changes)
                             : config::load_train_config(config.path, changes);
}

std::unique_ptr<config::TrainConfig> prediction_config(ConfigText config, const std::string& model,
                                                       Changes changes, int64_t batch) {
  const bool is_checkpoint = checkpoint::is_checkpoint(model);
  std::error_code error;
  if (!is_checkpoint && !std::filesystem::exists(model, error))
    raise<DataError>("{}: expected a checkpoint or exported weights, found nothing", model);
  if (config.path.empty() && config.text.empty()) {
    if (!is_checkpoint)
      raise<ConfigError>("--config: expected the model's config, as {} has none in it", model);
    config.name = model + "/manifest.json";
    config.text = checkpoint::read_manifest(model).config;
  }
  const ReadFile file(checkpoint::weights_in(model).path);
  const Changes sizes =
      sizes_of_tables(config.path.empty() ? JsonNode::parse(config.text, config.name)
                                          : JsonNode::parse_file(config.path),
                      checkpoint::SafetensorsReader(file));
  changes.insert(changes.begin(), sizes.begin(), sizes.end());
  auto made = load_config(config, changes);
  made->trains = false;
  made->optimizer = {};
  config::SolverConfig& solver = made->solver;
  solver.gpu = {{solver.gpu[0][0]}};
  solver.batchsize = 1;
  solver.batchsize_eval = batch;
  solver.gradient_clip_norm = 0;
  solver.shard_optimizer = false;
  return made;
}

}  // namespace hlite::predict
