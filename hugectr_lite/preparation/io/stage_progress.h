// The progress of a long piece of work, for a person: one line redrawn on a terminal, else a line
// now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "hugectr_lite/core/live_line.h"

namespace hlite::prep {

class StageProgress {
 public:
  explicit StageProgress(bool quiet);
  // A stage begins: `total` units of work, of which `done` were done before; total 0: unknown.
  void begin(const std::string& stage, int64_t total, int64_t done = 0);
  // Units done so far, and what to say of them ("1.2 M rows, "). Any thread.
  void update(int64_t done, int64_t rows);
  void advance(int64_t more_rows);  // for stages whose units are rows
  void end();

 private:
  void show(int64_t rows);

  bool quiet_;
  LiveLine line_;
  std::mutex mutex_;
  std::string stage_;
  int64_t total_ = 0, done_ = 0, first_ = 0, first_rows_ = -1;
  std::chrono::steady_clock::time_point start_, shown_;
};

}  // namespace hlite::prep
