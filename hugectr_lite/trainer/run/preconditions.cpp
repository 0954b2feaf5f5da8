#include "hugectr_lite/trainer/run/preconditions.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/core/error.h"

namespace hlite::trainer {

namespace fs = std::filesystem;

void check_can_write(const char* option, const std::string& path) {
  if (path.empty()) return;
  fs::path parent = fs::path(path).lexically_normal();
  if (!parent.has_filename()) parent = parent.parent_path();
  parent = parent.parent_path();
  if (parent.empty()) parent = ".";
  std::error_code error;
  if (!fs::is_directory(parent, error))
    raise<ConfigError>("{} {}: expected an existing directory {}, found none", option, path,
                       parent.string());
  if (access(parent.c_str(), W_OK | X_OK) != 0)
    raise<ConfigError>("{} {}: expected a writable directory {}, found one that is not", option,
                       path, parent.string());
}

std::string snapshot_path(const config::TrainConfig& config, const std::string& name) {
  const fs::path prefix(config.solver.snapshot_prefix);
  const fs::path place = prefix.is_absolute() ? prefix : fs::path(config.directory) / prefix;
  return place.lexically_normal().string() + name;
}

void check_places(const config::TrainConfig& config, const Options& options) {
  check_can_write("--save", options.save);
  if (!options.save.empty()) checkpoint::check_checkpoint_place(options.save);
  std::map<fs::path, const char*> places;
  const std::initializer_list<std::pair<const char*, const std::string*>> files = {
      {"--export", &options.export_path},
      {"--metrics", &options.metrics},
      {"--mllog", &options.mllog},
      {"--report", &options.report}};
  for (const auto& [option, path] : files) {
    check_can_write(option, *path);
    if (path->empty()) continue;
    std::error_code error;
    if (fs::is_directory(*path, error))
      raise<ConfigError>("{} {}: expected the name of a file, found a directory", option, *path);
    if (const auto [other, added] = places.emplace(fs::path(*path).lexically_normal(), option);
        !added)
      raise<ConfigError>("{} {}: expected a file of its own, found that of {}", option, *path,
                         other->second);
  }
  check_can_write("solver.snapshot_prefix", snapshot_path(config, "0"));
}

// A resumed run goes on with the same batches only when these agree.
void check_same_run(const config::TrainConfig& config, const checkpoint::CheckpointMeta& meta,
                    const std::string& directory) {
  if (config.solver.seed != 0 && config.solver.seed != meta.seed)
    raise<ConfigError>("solver.seed: expected {}, the seed of the checkpoint {}, found {}",
                       meta.seed, directory, config.solver.seed);
  const auto saved = config::JsonNode::parse(meta.config, directory + "/manifest.json");
  const config::JsonNode* solver = saved.find("solver");
  const config::JsonNode* batchsize = solver ? solver->find("batchsize") : nullptr;
  if (batchsize && batchsize->kind() == config::JsonNode::Kind::kInteger &&
      batchsize->integer() != config.solver.batchsize)
    raise<ConfigError>(
        "solver.batchsize: expected {}, the batch size of the checkpoint {}, found {}",
        batchsize->integer(), directory, config.solver.batchsize);
}

}  // namespace hlite::trainer
