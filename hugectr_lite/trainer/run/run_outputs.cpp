#include "hugectr_lite/trainer/run/run_outputs.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/checkpoint/retention.h"
#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/trainer/evaluation/prediction_files.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "hugectr_lite/trainer/run/preconditions.h"

namespace hlite::trainer {

namespace fs = std::filesystem;

namespace {

constexpr const char* kBest = "best.safetensors";

fs::path parent_of(const std::string& path) {
  fs::path place = fs::absolute(path).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  return place.parent_path();
}

void expect_directory(const char* option, const std::string& path, const fs::path& parent) {
  std::error_code error;
  if (!fs::is_directory(parent, error))
    raise<ConfigError>("{} {}: expected an existing directory {}, found none", option, path,
                       parent.string());
  if (access(parent.c_str(), W_OK | X_OK) != 0)
    raise<ConfigError>("{} {}: expected a writable directory {}, found one that is not", option,
                       path, parent.string());
}
void expect_directory(const char* option, const std::string& path) {
  expect_directory(option, path, parent_of(path));
}

// Removes the lock files of killed runs whose prefix was `prefix` and their process: claiming a
// lock that no process holds, and ending the claim, removes its file.
void remove_stale_locks(const std::string& prefix) {
  const std::string directory = parent_directory(prefix),
                    begin = "." + fs::path(prefix).filename().string();
  constexpr std::string_view kEnd = ".lock";
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (const std::string name = entry.path().filename().string();
        name.starts_with(begin) && name.ends_with(kEnd))
      names.push_back(name.substr(1, name.size() - 1 - kEnd.size()));
  for (const std::string& name : names) const FileLock stale(directory + "/" + name);
}

int64_t bytes_of(std::span<const TensorRef> tensors) {
  int64_t bytes = 0;
  for (const TensorRef& t : tensors) bytes += t.size() * dtype_bytes(t.dtype);
  return bytes;
}

}  // namespace

// A checkpoint is replaced as a whole: the one that the run goes on from is there until the next
// one is complete.
static bool saves_where_it_resumed(const NamedPath& output, const Options& options) {
  std::error_code error;
  return output.path == options.save && !options.resume.empty() &&
         fs::equivalent(options.save, options.resume, error);
}

RunOutputs::RunOutputs(const config::TrainConfig& config, const Options& options)
    : config_(config),
      options_(options),
      config_prefix_(config.resolve(config.solver.snapshot_prefix, PathUse::kOutput)) {
  struct OutputPlace {
    const char* option;
    const std::string& path;
    bool streams;  // written from front to back, so that a device or pipe will do
  };
  const OutputPlace files[] = {{"--export", options.export_path, false},
                               {"--metrics", options.metrics, true},
                               {"--mllog", options.mllog, true},
                               {"--report", options.report, false}};
  std::vector<NamedPath> outputs = {{"--save", options.save}};
  for (const auto& [option, path, streams] : files) outputs.push_back({option, path});
  std::erase_if(outputs, [](const NamedPath& output) { return output.path.empty(); });
  if (!outputs.empty())
    for (const auto inputs = input_files(config, options); const NamedPath& output : outputs)
      if (!saves_where_it_resumed(output, options)) expect_no_input(output, inputs);
  std::map<fs::path, const char*> places;
  for (const auto& [option, path, streams] : files) {
    if (path.empty()) continue;
    if (is_device_or_pipe(path)) {  // which has no other holder
      if (streams) continue;
      raise<ConfigError>(
          "{} {}: expected the name of a file, found a device or pipe; the file is written under "
          "another name and renamed",
          option, path);
    }
    expect_directory(option, path);
    std::error_code error;
    if (fs::is_directory(path, error))
      raise<ConfigError>("{} {}: expected the name of a file, found a directory", option, path);
    if (const auto [other, added] = places.emplace(fs::path(path).lexically_normal(), option);
        !added)
      raise<ConfigError>("{} {}: expected a file of its own, found that of {}", option, path,
                         other->second);
    claim(option, path, path);
  }
  if (!options.save.empty()) {
    claim_in_new_directory("--save", options.save, options.save);
    checkpoint::check_checkpoint_place(options.save);
  }
  if (!options.save_delta.empty()) {
    // What is damaged, or of another chain, is refused now.
    const checkpoint::DeltaChain chain(options.save_delta);
    if (const auto base = checkpoint::weights_in(options.resume); base.sum)
      check_next_link(chain, base.path, *base.sum);
    claim_in_new_directory("--save-delta", options.save_delta, options.save_delta);
  }
  if (!options.tensorboard.empty())
    claim_in_new_directory("--tensorboard", options.tensorboard, options.tensorboard + "/events");
  if (const std::string& prefix = config.solver.export_predictions_prefix; !prefix.empty()) {
    const std::string file = prediction_file(config.resolve(prefix, PathUse::kOutput));
    claim_in_new_directory("solver.export_predictions_prefix", parent_directory(file), file);
  }
  expect_directory("solver.snapshot_prefix", config_prefix_ + "0");
  if (config.solver.evaluation.early_stop)
    expect_directory("solver.early_stop: best weights in", scratch_folder() + "/0");
}

void RunOutputs::claim(const char* option, const std::string& place, const std::string& path) {
  try {
    expect_output_place(path);
    FileLock lock(path);
    if (!lock.held())
      raise<ConfigError>(
          "{} {}: expected a place that no other run writes to, found that of {}; name another one",
          option, place, lock.holder());
    locks_.push_back(std::move(lock));
  } catch (const FileError& why) {
    raise<ConfigError>("{} {}: expected a place that can be written: {}", option, place,
                       why.what());
  }
}

// Claims `path`, whose directory is made if it is not there; --check makes nothing.
void RunOutputs::claim_in_new_directory(const char* option, const std::string& place,
                                        const std::string& path) {
  const fs::path directory = parent_of(path);
  fs::path there = directory;
  while (!fs::exists(there)) there = there.parent_path();
  if (options_.check && there != directory) return expect_directory(option, place, there);
  std::error_code error;  // where it cannot be made, the claim says so
  fs::create_directories(directory, error);
  claim(option, place, path);
}

void RunOutputs::claim_prefix() {
  const std::string own = fmt::format("{}run{}", config_prefix_, getpid());
  remove_stale_locks(config_prefix_ + "run");
  std::string holder;
  for (int attempt = 0; !prefix_; ++attempt) {
    const std::string prefix = attempt == 0   ? config_prefix_
                               : attempt == 1 ? own + "_"
                                              : fmt::format("{}.{}_", own, attempt);
    FileLock lock(prefix + kBest);
    if (attempt == 0) holder = lock.holder();
    if (!lock.held()) continue;
    locks_.push_back(std::move(lock));
    prefix_ = prefix;
  }
  if (prefix_ != config_prefix_)
    log::warning("{} writes snapshots as {}...; this run's are {}...", holder, config_prefix_,
                 *prefix_);
}

std::string RunOutputs::snapshot(const std::string& name) {
  if (!prefix_) claim_prefix();
  return *prefix_ + name;
}

std::string RunOutputs::scratch_folder() const {
  for (const std::string* const model : {&options_.save, &options_.export_path})
    if (!model->empty()) return parent_of(*model);
  if (comm::under_mpirun() && config_.solver.gpu.size() > 1) return parent_of(config_prefix_ + "0");
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  if (error)
    raise<ConfigError>(
        "TMPDIR: expected a directory, for the best weights of solver.early_stop: {}",
        error.message());
  return folder;
}

std::string RunOutputs::scratch(const std::string& name) const {
  return fmt::format("{}/.hlite_{:016x}.{}", scratch_folder(), random_word(), name);
}

std::string RunOutputs::remove_older_snapshots(uint64_t run) const {
  if (config_.solver.keep_checkpoints == 0 || !prefix_) return {};
  try {
    checkpoint::remove_older_snapshots({.prefix = *prefix_,
                                        .run = run,
                                        .keep = config_.solver.keep_checkpoints,
                                        .resumed = options_.resume});
    return {};
  } catch (const FileError& why) {
    return fmt::format("solver.keep_checkpoints: {}", why.what());
  }
}

bool RunOutputs::takes_snapshots(int64_t first, int64_t last) const {
  const int64_t every = config_.solver.snapshot;
  return every > 0 && last / every > first / every;
}

bool RunOutputs::keeps_model(int64_t first, int64_t last) const {
  return !options_.save.empty() || !options_.export_path.empty() || takes_snapshots(first, last);
}

void RunOutputs::check_free_space(std::span<const TensorRef> weights,
                                  std::span<const TensorRef> states, int64_t first,
                                  int64_t last) const {
  const int64_t model = bytes_of(weights), best = config_.solver.evaluation.early_stop ? model : 0,
                whole = model + bytes_of(states) + best;
  struct FreeSpace {
    std::string directory;
    int64_t needed = 0;
  };
  std::map<dev_t, FreeSpace> file_systems;
  const auto need = [&](const std::string& path, int64_t bytes) {
    const std::string directory = parent_of(path).string();
    struct stat status {};
    if (bytes == 0 || stat(directory.c_str(), &status) != 0) return;
    FreeSpace& space = file_systems[status.st_dev];
    space.directory = directory;
    space.needed += bytes;
  };
  if (!options_.save.empty()) need(options_.save, whole);
  if (!options_.export_path.empty()) need(options_.export_path, model);
  if (takes_snapshots(first, last)) need(config_prefix_ + "0", whole);
  // The best weights are written next to those before.
  if (best > 0) need(scratch_folder() + "/0", 2 * best);
  for (const auto& [device, space] : file_systems) {
    struct statvfs system {};
    if (statvfs(space.directory.c_str(), &system) != 0) continue;
    const auto free = static_cast<double>(system.f_bavail) * static_cast<double>(system.f_frsize);
    if (static_cast<double>(space.needed) > free)
      raise<FileError>("{}: expected {} of free space for weights and optimizer states, found {}",
                       space.directory, bytes_text(space.needed),
                       bytes_text(static_cast<int64_t>(free)));
  }
}

}  // namespace hlite::trainer
