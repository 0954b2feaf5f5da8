#include "hugectr_lite/config/train_config.h"

#include <filesystem>

#include "hugectr_lite/config/config_blocks.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite::config {
namespace {

// layers[0] is the Data layer; the others are only collected, their keys are their own business.
void parse_layers(const JsonNode& layers, TrainConfig& config) {
  if (layers.kind() != JsonNode::Kind::kArray || layers.elements().empty()) {
    fail_expected(layers, "a non-empty list of layers");
  }
  for (const JsonNode& layer : layers.elements()) {
    ObjectReader reader(layer, config.strict);
    const std::string type = reader.string("type");
    if (&layer == &layers.elements().front()) {
      config.data = parse_data(layer, config.strict, config.directory);
      continue;
    }
    if (type == "Data") {
      fail_expected(reader.member("type"), "another type, as only layers[0] is the Data layer");
    }
    config.layers.push_back(&layer);
  }
}

std::unique_ptr<TrainConfig> read_blocks(JsonNode root, std::string directory,
                                         const std::vector<std::string>& overrides) {
  auto config = std::make_unique<TrainConfig>();
  config->root = std::move(root);
  config->directory = std::move(directory);
  for (const std::string& change : overrides) config->root.set(change);

  // The reader itself only warns when the config asks for that, so look for `strict` first.
  config->strict = ObjectReader(config->root).boolean_or("strict", true);
  ObjectReader reader(config->root, config->strict);
  reader.accept("strict");
  config->solver = parse_solver(reader.member("solver"), config->strict);
  config->optimizer = parse_optimizer(reader.member("optimizer"), config->strict);
  if (const JsonNode* all_reduce = reader.find("all_reduce")) {
    config->all_reduce = parse_all_reduce(*all_reduce, config->strict);
    if (!config->all_reduce.ordered && config->solver.shard_optimizer)
      fail_at(*all_reduce->find("ordered"),
              "expected true where solver.shard_optimizer is true, found false");
  }
  parse_layers(reader.member("layers"), *config);
  if (config->solver.int64_keys && config->data.is_raw()) {
    fail_at(*reader.member("solver").find("input_key_type"),
            fmt::format("\"I64\" is known but not supported for the format {}; expected \"I32\"",
                        data_format_name(config->data.format)));
  }
  config->data.int64_keys = config->solver.int64_keys;
  const int64_t slots = config->data.key_layout().slots();
  if (const auto& slot = config->solver.evaluation.group_slot; slot && *slot >= slots)
    fail_expected(*reader.member("solver").find("eval_group_slot"),
                  fmt::format("one of the {} slots, counted from 0", slots));
  reader.finish();
  return config;
}

}  // namespace

std::string TrainConfig::resolve(const std::string& path) const {
  return resolve_path(directory, path);
}

std::unique_ptr<TrainConfig> load_train_config(const std::string& path,
                                               const std::vector<std::string>& overrides) {
  return read_blocks(JsonNode::parse_file(path), std::filesystem::path(path).parent_path().string(),
                     overrides);
}

std::unique_ptr<TrainConfig> parse_train_config(std::string_view text, const std::string& name,
                                                const std::vector<std::string>& overrides) {
  return read_blocks(JsonNode::parse(text, name), "", overrides);
}

}  // namespace hlite::config
