#include "hugectr_lite/trainer/run/preconditions.h"

#include <algorithm>
#include <filesystem>

#include "data_reader/manifest.h"
#include "data_reader/record_format.h"
#include "embedding/embedding_layer.h"
#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/trainer/keys/resume_keys.h"
#include "hugectr_lite/trainer/model/embedding_layers.h"
#include "hugectr_lite/trainer/model/model_tensors.h"

namespace hlite::trainer {

// The paths that the config names, as they stand there.
static std::vector<NamedPath> paths_in(const config::TrainConfig& config) {
  std::vector<NamedPath> inputs = {{"source", config.data.source},
                                   {"eval_source", config.data.eval_source},
                                   {"test_source", config.data.test_source}};
  for (const config::JsonNode& layer : config.root.find("layers")->elements())
    for (const config::JsonNode* block : {&layer, layer.find("sparse_embedding_hparam")})
      if (const auto* sizes = block ? block->find("slot_size_array") : nullptr;
          sizes && sizes->kind() == config::JsonNode::Kind::kString)
        inputs.push_back({"slot_size_array", sizes->string()});
  std::erase_if(inputs, [](const NamedPath& input) { return input.path.empty(); });
  return inputs;
}

std::vector<NamedPath> input_files(const config::TrainConfig& config, const Options& options) {
  namespace fs = std::filesystem;
  std::vector<NamedPath> files = {{"--config", options.config}, {"--solver", options.solver}};
  for (const NamedPath& option :
       {NamedPath{"--init", options.init}, NamedPath{"--resume", options.resume}}) {
    files.push_back(option);
    std::error_code none;  // a file of weights
    for (const fs::directory_entry& entry : fs::directory_iterator(option.path, none))
      files.push_back({option.name, entry.path().string()});
  }
  for (const auto& [key, given] : paths_in(config)) {
    const std::string path = config.resolve(given);
    files.push_back({key, path});
    if (!fs::exists(path) || key == "slot_size_array") continue;
    if (config.data.follow && key == "source") continue;  // its files come later
    for (const std::string& file : data::record_format(config.data).files(path))
      files.push_back({key, file});
    if (const auto entry = data::find_manifest_of(path, data::DamagedManifest::kPassOver))
      files.push_back({"manifest of " + key, entry->path});
  }
  return files;
}

std::vector<std::string> path_warnings(const config::TrainConfig& config) {
  std::vector<std::string> warnings;
  for (const auto& [key, path] : paths_in(config))
    if (is_ambiguous(config.directory, path))
      warnings.push_back(
          fmt::format("{}: {} of the config's folder is taken; the working directory has another "
                      "file {}",
                      key, config.resolve(path), path));
  return warnings;
}

bool check_same_run(const config::TrainConfig& config, const checkpoint::CheckpointMeta& meta,
                    const Options& options) {
  const std::string& directory = options.resume;
  if (!meta.followed.file.empty() && !config.data.follow)
    raise<ConfigError>(
        "{}.follow: expected true, as in the checkpoint {}, which was saved in the file {} of a "
        "folder; found false",
        config.data.name, directory, meta.followed.file);
  if (config.solver.seed != 0 && config.solver.seed != meta.seed)
    raise<ConfigError>("solver.seed: expected {}, the seed of the checkpoint {}, found {}",
                       meta.seed, directory, config.solver.seed);
  const auto saved = config::JsonNode::parse(meta.config, directory + "/manifest.json");
  const std::vector<ConfigChange> changes = changes_since(saved, config);
  for (const ConfigChange& of : changes)
    if (of.rule == ResumeRule::kFixed)
      raise<ConfigError>(
          "{}: expected {}, that of the checkpoint {}, found {}; --init with its weights starts a "
          "new run",
          of.path, of.before, directory, of.now);
  bool other_metrics = false;
  for (const ConfigChange& of : changes) {
    if (of.rule == ResumeRule::kFree) continue;
    const std::string text = fmt::format("{}: the run goes on with {}, the checkpoint {} has {}",
                                         of.path, of.now, directory, of.before);
    const bool on_purpose = of.rule == ResumeRule::kLearning || options.grow;
    on_purpose ? log::info("{}", text) : log::warning("{}", text);
    other_metrics = other_metrics || of.rule == ResumeRule::kMetrics;
  }
  const bool forgets = other_metrics && (meta.plateau.any || meta.early_stop.any);
  if (forgets && !options.grow)
    log::warning(
        "what evaluations have led to (early_stop and its best weights, lr_plateau) begins anew: "
        "the next ones measure something else");
  return forgets;
}

// The rows of a layer's tables in a file that each rank gets.
static std::vector<int64_t> rows_of_ranks(const checkpoint::SafetensorsReader& weights,
                                          const embedding::EmbeddingLayer& layer, int ranks) {
  const auto placement = embedding::RowPlacement::by_key(layer.layout(), ranks,
                                                         layer.hash_capacity(), layer.key_owner());
  std::vector<int64_t> rows(static_cast<size_t>(ranks));
  for (int64_t t = 0; t < layer.layout().tables(); ++t) {
    const auto keys = keys_in(weights, embedding::table_name(layer.name(), t), true);
    for (const uint32_t key : *keys) ++rows[static_cast<size_t>(placement.locate(t, key).rank)];
  }
  return rows;
}

void check_rows_fit(const config::TrainConfig& config, const Options& options) {
  const bool resumes = !options.resume.empty();
  const std::string& model = resumes ? options.resume : options.init;
  if (model.empty()) return;
  using checkpoint::Which;
  const ReadFile file(checkpoint::weights_in(model, resumes ? Which::kLast : Which::kBest).path);
  const checkpoint::SafetensorsReader weights(file);
  const int ranks = static_cast<int>(config.solver.ranks());
  for (size_t i = 0; i < count_embeddings(config); ++i) {
    const embedding::EmbeddingLayer layer(*config.layers[i], config);
    if (!layer.hashed()) continue;
    const std::vector<int64_t> rows = rows_of_ranks(weights, layer, ranks);
    const auto most = std::max_element(rows.begin(), rows.end());
    if (*most <= layer.hash_capacity()) continue;
    const std::string found = fmt::format("{} rows of \"{}\" in {} on rank {} of {}", *most,
                                          layer.name(), model, most - rows.begin(), ranks);
    if (!layer.displaces_rows()) layer.fail_rows(*most, ranks, found);
    log::warning("{}: {}, which has {}: the least recently used leave, as when_full says",
                 config.layers[i]->path(), found, layer.hash_capacity());
  }
}

}  // namespace hlite::trainer
