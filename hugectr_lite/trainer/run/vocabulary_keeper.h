// VocabularyKeeper: lets rows leave hash tables as their rules say, between iterations, and reports
// what has become of the vocabularies.
#pragma once

#include <functional>
#include <optional>

#include "hugectr_lite/trainer/run/training_counts.h"

namespace hlite::trainer {

// All functions are collective.
class VocabularyKeeper {
 public:
  VocabularyKeeper(RunContext& run, TrainingCounts& counts) : run_(run), counts_(counts) {}

  // To be called once the weights are there. Rows have left already for the checkpoint that they
  // are of, if any: evict_for_checkpoint() of the same iteration evicts none.
  void begin() { evicted_ = run_.iteration; }
  // Evicts rows of the tables whose `eviction.interval` is above 0, in every interval-th iteration.
  void evict_after_iteration();
  // Evicts rows of the tables whose `eviction.interval` is 0, once an iteration. Saver calls it. To
  // be called before an evaluation whose weights are then saved.
  void evict_for_checkpoint();
  // The vocabularies of hash tables with `admission`, `eviction` or `when_full`; nullopt if there
  // are none. Waits for the last step.
  [[nodiscard]] std::optional<VocabularyEvent> vocabulary();

 private:
  void evict(const std::function<bool(const embedding::Eviction&)>& due);

  RunContext& run_;
  TrainingCounts& counts_;
  int64_t evicted_ = 0;  // iteration of the last checkpoint, which rows may have left for
};

}  // namespace hlite::trainer
