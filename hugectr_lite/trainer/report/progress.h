// Progress output of a training run. On a terminal one live line is redrawn in place; evaluations
// and other lines scroll above it. Elsewhere plain lines are printed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/trainer/report/run_record.h"

namespace hlite::trainer {

struct ProgressState : TrainEvent {
  int64_t last_iter = 0;
  double eta_seconds = 0;
  bool may_end_early = false;  // before last_iter: early_stop or a target AUC decides
  std::optional<double> auc;   // of the last evaluation,
  int64_t auc_iter = 0;        // after this iteration
  // Total power, and temperature of the hottest GPU; nullopt if no GPU reports it.
  std::optional<double> watts = {}, celsius = {};
};

class Progress {
 public:
  // `quiet` prints nothing. The live line needs a terminal on standard error.
  explicit Progress(bool quiet);

  // Returns true if the live line is due to be redrawn (at most ten times a second).
  [[nodiscard]] bool due() const;
  void redraw(const ProgressState& state);
  // Called at the end of each display interval: prints a plain line unless there is a live one.
  void display(const ProgressState& state);
  // Prints a line that stays; a live line is erased first.
  void line(const std::string& text);

 private:
  bool quiet_;
  LiveLine line_;
  std::chrono::steady_clock::time_point last_;  // of the last redraw
};

// Returns the text of the progress line: "iter 50/300  loss 0.41000  ...".
std::string progress_text(const ProgressState& state);
// Returns a line about a run of `seconds` that waited for data, `waited` seconds in all: the rates
// at which data came and at which it would have been used. Returns "" if the wait took at most 10 %
// of the run or one second. `decode_seconds`: the sum over the reader's threads.
std::string waiting_verdict(double seconds, double waited, int64_t bytes_read,
                            double decode_seconds);

}  // namespace hlite::trainer
