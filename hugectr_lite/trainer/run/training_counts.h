// TrainingCounts: what training alone has moved since it began, and how long its steps took.
// Whatever else moves rows or bytes of the model, an evaluation or a checkpoint, does so inside
// leave_out().
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "hugectr_lite/trainer/run/run_context.h"
#include "hugectr_lite/trainer/run/traffic.h"

namespace hlite::trainer {

class TrainingCounts {
 public:
  explicit TrainingCounts(RunContext& run) : run_(run) {}

  // Starts to count. To be called before all others, once the model has its weights.
  void begin();
  // Calls work() and leaves out what it moves.
  template <typename Work>
  void leave_out(Work&& work) {
    const Moved before = moved();
    std::forward<Work>(work)();
    add_outside(before);
  }

  // How long the steps of this rank's iterations took, where --report asked for it and they can be
  // timed; measures what the machine reaches, which takes a moment.
  [[nodiscard]] std::optional<StepsEvent> step_times();
  // The tiers of embedding_memory and the rows that moved between them; nullopt if the config does
  // not ask for it. Waits for a GPU.
  [[nodiscard]] std::optional<TablesEvent> table_tiers() const;
  // The counters alone, of all layers together: of their fastest tiers.
  [[nodiscard]] embedding::RowCacheCounts moved_rows() const;
  // What all ranks have sent each other. REQUIRES several ranks. Collective.
  [[nodiscard]] TrafficReport traffic();

 private:
  struct Moved {
    std::vector<embedding::RowCacheCounts> rows = {};
    ModelTraffic traffic = {};
  };
  [[nodiscard]] Moved moved() const;
  void add_outside(const Moved& before);
  [[nodiscard]] std::vector<embedding::RowCacheCounts> rows_in_training() const;
  [[nodiscard]] int64_t iterations() const { return run_.iteration - first_iteration_; }

  RunContext& run_;
  int64_t first_iteration_ = 0;       // done when counting began
  Moved outside_;                     // all that moved before begin() or in leave_out()
  std::vector<double> step_seconds_;  // of all iterations, where they are timed
};

}  // namespace hlite::trainer
