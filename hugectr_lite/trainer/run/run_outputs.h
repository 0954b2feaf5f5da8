// RunOutputs: the places that a run writes to. They are checked before it trains, and claimed
// (core/file_lock.h), so that two live runs never write to the same one: a place that an option
// names is refused while another run has it; for snapshots, which the config names, the later run
// gets a prefix of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/file_lock.h"
#include "hugectr_lite/core/tensor_ref.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

class RunOutputs {
 public:
  // Both must outlive it. Throws ConfigError for a place that cannot be written, that is an input
  // of the run, or that another run uses; devices and pipes may be shared. Throws DataError where
  // something that is no checkpoint is in the place of one.
  RunOutputs(const config::TrainConfig& config, const Options& options);

  // "<prefix><name>" for a snapshot (its iteration). The prefix is the config's or, if another live run uses that, one of this run's own, which a warning names once.
  [[nodiscard]] std::string snapshot(const std::string& name);
  // A new name for a file of weights that goes when the run ends: next to the model that the run
  // writes, where there is room for one, else among temporary files, or, where the processes of
  // several machines read it, next to the snapshots.
  [[nodiscard]] std::string scratch(const std::string& name) const;
  // Removes this run's older snapshots as solver.keep_checkpoints says. Returns a warning if that
  // fails, else "".
  [[nodiscard]] std::string remove_older_snapshots(uint64_t run) const;
  // Return true if a run from one iteration to another takes snapshots; if it writes a file with
  // trained weights.
  [[nodiscard]] bool takes_snapshots(int64_t first, int64_t last) const;
  [[nodiscard]] bool keeps_model(int64_t first, int64_t last) const;
  // Throws FileError if a file system has less space than one copy of all that such a run of this
  // model writes there, as far as that is known.
  void check_free_space(std::span<const TensorRef> weights, std::span<const TensorRef> states,
                        int64_t first, int64_t last) const;

 private:
  // `path` is claimed for the place that the option names.
  void claim(const char* option, const std::string& place, const std::string& path);
  void claim_in_new_directory(const char* option, const std::string& place,
                              const std::string& path);
  void claim_prefix();
  [[nodiscard]] std::string scratch_folder() const;

  const config::TrainConfig& config_;
  const Options& options_;
  const std::string config_prefix_;
  std::vector<FileLock> locks_;
  std::optional<std::string> prefix_;  // once claimed
};

}  // namespace hlite::trainer
