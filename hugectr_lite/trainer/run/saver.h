// Saver: writes checkpoints, snapshots in the background, deltas and exported weights of a run. The
// rows and bytes that this moves are left out of the counts of training.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/core/forked_task.h"
#include "hugectr_lite/trainer/run/rank_tensors.h"
#include "hugectr_lite/trainer/run/vocabulary_keeper.h"

namespace hlite::trainer {

// The state of the watched metrics in a checkpoint, and the weights of the best evaluation.
struct PolicyState {
  checkpoint::BestMetric plateau = {}, early_stop = {};
  const ByteSource* best_weights = nullptr;
};

// Functions are collective unless they say otherwise. They throw FileError.
class Saver {
 public:
  Saver(RunContext& run, TrainingCounts& counts, VocabularyKeeper& vocabularies)
      : run_(run), counts_(counts), vocabularies_(vocabularies) {}

  // Writes a checkpoint, complete or not at all: what --resume takes, with the state of what
  // follows evaluations (training_policy.h) where there is one.
  void save(const std::string& directory, const PolicyState& policy = {});
  // The same for a checkpoint of solver.snapshot, which then removes older ones. Training may go on
  // while it is written. What happens on failure is up to solver.on_save_error; save() always
  // throws.
  void save_snapshot(const std::string& directory, const PolicyState& policy);
  // Reports a snapshot that has been written in the background, or its failure, if it has ended
  // meanwhile. Not collective. Throws as solver.on_save_error says.
  void check();
  // The same after waiting for it to finish.
  void wait();
  // Waits for a snapshot in a run that fails for another reason. Not collective; throws nothing.
  void end();
  // Writes what the weights that a checkpoint of now would be used with differ by from those of the
  // one that the run was resumed from (checkpoint::weights_in), as a link of the chain in a folder.
  // REQUIRES --resume. Returns "" or, on rank 0, why that failed.
  [[nodiscard]] std::string save_delta(const std::string& chain, const PolicyState& policy);
  // Writes all weights: what --init takes.
  void export_weights(const std::string& path);
  // Writes tensors of the model in the same way, without a progress line. Returns the checksum of
  // the file, on rank 0.
  FileSum write_tensors(const std::string& path, const std::vector<TensorRef>& tensors);

 private:
  struct PendingSave {
    std::string directory;
    int64_t iteration;
    ForkedTask task;
    double stopped_seconds = 0;  // of training
  };
  [[nodiscard]] checkpoint::CheckpointMeta meta(const PolicyState& policy);
  void write(const RankLists& lists, const std::function<void(const RankLists&)>& body);
  [[nodiscard]] bool in_background() const;
  [[nodiscard]] bool save_in_fork(const std::string& directory,
                                  const checkpoint::CheckpointMeta& meta);
  [[nodiscard]] std::string write_snapshot(const std::string& directory,
                                           const checkpoint::CheckpointMeta& meta,
                                           const RankLists& lists) const;
  void report(const std::string& directory, int64_t iteration, double stopped_seconds,
              const ForkedTask::Result& result);
  void wait_a_second();

  RunContext& run_;
  TrainingCounts& counts_;
  VocabularyKeeper& vocabularies_;
  std::optional<PendingSave> pending_;  // on rank 0, until it is reported
};

}  // namespace hlite::trainer
