// TrainingLoop: decides what follows each iteration of a Trainer (a line, an evaluation, a
// snapshot), and when and why a run ends. `train` (run_loop.cpp) and the Python package drive it;
// the trainer's records and progress lines get every event.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/report/gpu_monitor.h"
#include "hugectr_lite/trainer/report/progress.h"
#include "hugectr_lite/trainer/run/rate_meter.h"
#include "hugectr_lite/trainer/run/trainer.h"
#include "hugectr_lite/trainer/run/training_policy.h"

namespace hlite::trainer {

class TrainingLoop {
 public:
  // The trainer has been started and must outlive the loop. With `before_step`, which may throw,
  // the loop is one of a caller who acts between events: the last iteration has a line, an
  // evaluation is finished before training goes on and ended early by Ctrl-C, snapshots are left
  // to the caller, and training may go on after finish().
  explicit TrainingLoop(Trainer& trainer, std::function<void()> before_step = {});

  // Begins a run to the config's end, or of `iterations`, also beyond the end of the config or an
  // early stop. Throws ConfigError if the trainer has no data.
  void begin(std::optional<int64_t> iterations = {});
  // Trains to the next event. Returns a reason once the run has ended. Throws as Trainer::run().
  std::optional<EndReason> advance();
  // Ends the run, between two calls of advance(), as solver.early_stop does.
  void stop() { ended_ = EndReason::kEarlyStop; }
  // After the config's end or a reason of the policy: puts the best weights into the model and
  // evaluates test_source.
  void finish();
  // A snapshot now; the call returns when it is complete.
  void save_snapshot();

  [[nodiscard]] TrainingPolicy& policy() { return policy_; }
  // Since begin(): samples trained on, and seconds of training without evaluations and saving.
  [[nodiscard]] int64_t trained() const { return run_.samples - first_.samples; }
  [[nodiscard]] double train_seconds() const { return meter_.total_seconds(now()); }
  // At the last event: the mean loss of the samples since the line before it.
  [[nodiscard]] double train_loss() const { return state_.loss; }
  // The share of their keys that key_policy replaced, where it replaces any. Collective.
  std::optional<double> replaced_share() { return replaced_share(first_, mark()); }
  [[nodiscard]] GpuMonitor* gpus() { return gpus_.get(); }  // or null

 private:
  // Position of the trainer's data reader.
  struct Mark {
    int64_t samples = 0, replaced_keys = 0;
    embedding::RowCacheCounts moved = {};
  };
  Mark mark() {
    return {run_.samples, trainer_.replaced_keys().value_or(0), trainer_.counts().moved_rows()};
  }
  [[nodiscard]] std::optional<double> replaced_share(const Mark& begin, const Mark& end) const;
  [[nodiscard]] bool for_caller() const { return before_step_ != nullptr; }
  [[nodiscard]] bool at_end() const { return run_.iteration >= last_iteration_; }
  [[nodiscard]] double now() const { return seconds_since(begin_); }
  // Scores and opens the next file of a folder that is followed, unless the run has ended.
  void next_file();
  bool after_step();  // returns true if there is an event
  void show(bool event, bool display);
  void pause(bool evaluates, bool snapshot);
  [[nodiscard]] std::string snapshot_place() const;
  // Reads the GPUs for the progress line at most once a second.
  void watch_gpus(bool for_the_record);
  void evaluate();
  void report_evaluation();

  Trainer& trainer_;
  RunContext& run_;
  TrainingPolicy policy_;
  const std::function<void()> before_step_;
  std::unique_ptr<GpuMonitor> gpus_;  // on rank 0
  std::optional<EndReason> ended_;
  ProgressState state_;
  RateMeter meter_;
  Clock::time_point begin_, watched_;  // watched_: the last reading of the GPUs
  Mark first_, lap_;                   // at begin(), at the last line
  int64_t last_iteration_ = 0;
  std::optional<int64_t> evaluated_;  // iteration whose evaluation is not reported yet
};

}  // namespace hlite::trainer
