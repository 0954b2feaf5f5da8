// VocabularyKeeper: lets rows leave hash tables as their rules say, between iterations, and reports
// what has become of the vocabularies.
#pragma once

#include <functional>
#include <optional>

#include "hugectr_lite/trainer/run/training_counts.h"

namespace hlite::trainer {

// All is collective.
class VocabularyKeeper {
 public:
  VocabularyKeeper(RunContext& run, TrainingCounts& counts) : run_(run), counts_(counts) {}

  // The weights are those of a checkpoint: rows may have left for it.
  void begin() { evicted_ = run_.iteration; }
  // Lets the rows leave that do so every so many iterations (`eviction.interval`).
  void evict_after_iteration();
  // Lets the rows leave that do so when a checkpoint is saved (`eviction.interval` 0), if they have
  // not in this iteration. Saving does it too; to be called before an evaluation of the same weights.
  void evict_for_checkpoint();
  // The vocabularies of hash tables that keys may lose or be refused rows of; nullopt without any.
  // Waits.
  [[nodiscard]] std::optional<VocabularyEvent> vocabulary();

 private:
  void evict(const std::function<bool(const embedding::Eviction&)>& due);

  RunContext& run_;
  TrainingCounts& counts_;
  int64_t evicted_ = 0;  // iteration of the last checkpoint, which rows may have left for
};

}  // namespace hlite::trainer
