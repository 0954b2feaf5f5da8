#include "hugectr_lite/config/train_config.h"

#include <filesystem>

#include "hugectr_lite/config/config_blocks.h"
#include "hugectr_lite/config/hugectr_2_0.h"
#include "hugectr_lite/config/hugectr_slips.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::config {
namespace {

// layers[0] is the Data layer; the others are only collected, their keys are their own business.
void read_layers(const JsonNode& layers, TrainConfig& config) {
  Problems& problems = config.problems;
  bool all_have_types = true;
  for (const JsonNode& layer : layers.elements()) {
    if (&layer == &layers.elements().front()) {
      const size_t before = problems.size();
      Block block(layer, config.strict, problems);
      if (block.node()) declare(block, config.directory, config.data);
      block.finish();
      config.data_is_valid = problems.size() == before;
      continue;
    }
    all_have_types &= problems.collect([&] {
      read_object(layer, [](Block& s) {
        std::string type;
        s.text("type", &type, "", kRequired);
        if (type == "Data") s.expected("type", "another type, as only layers[0] is the Data layer");
        s.accept_others();
      });
    });
    config.layers.push_back(&layer);
  }
  if (!all_have_types) config.layers.clear();  // their wiring is unknown
}

// Weights that HugeCTR would start from. Files that are not there it passes over, after a message.
void check_model_files(const JsonNode& solver, const TrainConfig& config) {
  for (const char* key : kModelFileKeys) {
    const JsonNode* const given = solver.find(key);
    if (!given) continue;
    for (const std::string& file : to_strings(*given)) {
      if (file.empty()) continue;
      std::error_code none;
      if (std::filesystem::exists(config.resolve(file), none))
        fail_at(*given, fmt::format("expected no {}, found {}: tools/hugectr_model.py makes a "
                                    "safetensors file of it, from which --init starts",
                                    key, file));
      log::warning("{}: {}: there is no file {}; training does not start from it", given->where(),
                   given->path(), file);
    }
  }
}

// Rules that concern several blocks.
void check_blocks(const Block& s, const TrainConfig& config) {
  const SolverConfig& solver = config.solver;
  const JsonNode& data = s.at("layers").elements().front();
  check_model_files(s.at("solver"), config);
  if (!config.all_reduce.ordered && solver.shard_optimizer)
    fail_at(*s.at("all_reduce").find("ordered"),
            "expected true where solver.shard_optimizer is true, found false");
  if (solver.int64_keys && config.data.format->fixed_records)
    fail_at(*s.at("solver").find("input_key_type"),
            fmt::format("\"I64\" is known but not supported for the format {}; expected \"I32\"",
                        config.data.format->name));
  if (solver.evaluates() && config.data.eval_source.empty())
    fail_at(data, fmt::format("missing key \"eval_source\", which {} needs",
                              solver.eval_interval > 0 ? "solver.eval_interval"
                                                       : "solver.eval_every_epochs"));
  for (const char* key : {"num_epochs", "eval_every_epochs"})
    if (const JsonNode* node = s.at("solver").find(key); node && config.data.follow)
      fail_at(*node,
              fmt::format("expected no {} with \"follow\": true, which reads each file once", key));
  const int64_t slots = config.data.key_layout().slots();
  if (const auto& slot = solver.evaluation.group_slot; slot && *slot >= slots)
    fail_expected(*s.at("solver").find("eval_group_slot"),
                  fmt::format("one of the {} slots, counted from 0", slots));
}

void declare(Block& s, TrainConfig& config) {
  s.about("An object; `//` and `/* */` comments are allowed.");
  // The names in HugeCTR's graph files, whose missing blocks are said below.
  const bool graph = s.node() && s.has("layers") && !s.has("solver") && !s.has("optimizer");
  if (auto solver = s.object("solver", "How long to train, in what batches, on what devices.",
                             {.required = !graph}))
    declare(*solver, config.solver);
  if (auto optimizer = s.object("optimizer",
                                "The optimizer of the network, and of tables that have none of "
                                "their own.",
                                {.required = !graph}))
    declare(*optimizer, config.optimizer);
  if (auto all_reduce = s.object("all_reduce", "How dense gradients are summed over ranks.",
                                 otherwise("`NCCL`, not grouped")))
    declare(*all_reduce, config.all_reduce);
  constexpr const char* kLayers = "a non-empty list of layers";
  s.value("layers", {kLayers, ""},
          "The Data layer, then embedding layers, then dense layers, of which a loss comes last.",
          kRequired, [&](const JsonNode& layers) {
            if (layers.kind() != JsonNode::Kind::kArray || layers.elements().empty())
              fail_expected(layers, kLayers);
            read_layers(layers, config);
          });
  s.boolean("strict", &config.strict, "Extension: `false` turns unknown keys into warnings.");
  s.unsupported(
      "data",
      "it is of HugeCTR 2.0, whose configs have no Data layer; since 2.1 the first of the layers, "
      "of type \"Data\", has its keys");
  s.unsupported("inference",
                "it is of HugeCTR's inference; serve and predict take a checkpoint, or the config "
                "of training with safetensors");
  if (graph)
    s.refuse("",
             "missing key \"solver\" and \"optimizer\"; a graph file has layers only, and trains "
             "with a second file that holds both: --solver FILE");
  s.finish();
  s.check([&] { check_blocks(s, config); });
}

}  // namespace

BlockSchema describe_config() {
  BlockSchema schema;
  Block block(schema);
  TrainConfig config;
  declare(block, config);
  return schema;
}

BlockSchema describe_data_layer() {
  BlockSchema schema;
  Block block(schema);
  DataConfig data;
  declare(block, "", data);
  return schema;
}

std::unique_ptr<TrainConfig> read_train_config(JsonNode root, std::string directory,
                                               const std::vector<std::string>& overrides) {
  auto config = std::make_unique<TrainConfig>();
  config->root = std::move(root);
  translate_hugectr_2_0(config->root);
  config->directory = std::move(directory);
  for (const std::string& change : overrides) config->root.set(change);
  correct_hugectr_slips(config->root);
  // Blocks only warn of unknown keys if the config asks for that, so `strict` comes first.
  const JsonNode* strict = config->root.find("strict");
  config->strict = !strict || strict->kind() != JsonNode::Kind::kBool || strict->boolean();
  Block block(config->root, config->strict, config->problems);
  if (block.node()) declare(block, *config);
  config->data.int64_keys = config->solver.int64_keys;
  return config;
}

std::unique_ptr<TrainConfig> read_train_config(const std::string& path,
                                               const std::vector<std::string>& overrides,
                                               const std::string& solver) {
  JsonNode root = JsonNode::parse_file(path);
  if (!solver.empty()) root.add_members(JsonNode::parse_file(solver));
  return read_train_config(std::move(root), std::filesystem::path(path).parent_path().string(),
                           overrides);
}

std::unique_ptr<TrainConfig> load_train_config(const std::string& path,
                                               const std::vector<std::string>& overrides,
                                               const std::string& solver) {
  auto config = read_train_config(path, overrides, solver);
  config->problems.raise();
  return config;
}

std::unique_ptr<TrainConfig> parse_train_config(std::string_view text, const std::string& name,
                                                const std::vector<std::string>& overrides) {
  auto config = read_train_config(JsonNode::parse(text, name), "", overrides);
  config->problems.raise();
  return config;
}

}  // namespace hlite::config
