// The lines that a person sees while training: on a terminal one live line, redrawn in place, with
// evaluations and remarks scrolling above it; elsewhere plain lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/trainer/run/run_record.h"

namespace hlite::trainer {

struct ProgressState : TrainEvent {
  int64_t last_iter = 0;
  double eta_seconds = 0;
  std::optional<double> auc;  // of the last evaluation
  // Readings of the GPUs that report: the total of all, and that of the hottest.
  std::optional<double> watts = {}, celsius = {};
};

class Progress {
 public:
  // `quiet`: nothing at all. The live line needs a terminal on standard error.
  explicit Progress(bool quiet);

  // Returns true if the live line is due to be redrawn (at most ten times a second).
  [[nodiscard]] bool due() const;
  void redraw(const ProgressState& state);
  // A display interval has passed: a plain line where there is no live one.
  void display(const ProgressState& state);
  // A line that stays.
  void line(const std::string& text);

 private:
  bool quiet_;
  LiveLine line_;
  std::chrono::steady_clock::time_point last_;
};

// The one line of a state.
std::string progress_text(const ProgressState& state);
// At the end of a run of `seconds` that has waited for data more than a tenth of them (and more
// than a second): how fast the data came and how fast it would have had to. `decode_seconds`: of
// all the reader's threads. Else nothing.
std::string waiting_verdict(double seconds, double waited, int64_t bytes_read,
                            double decode_seconds);

}  // namespace hlite::trainer
