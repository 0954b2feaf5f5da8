// Writes generated rows: many threads draw, one file gets them in order.
#pragma once

#include <cstdint>
#include <string>

#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/io/output_file.h"
#include "hugectr_lite/preparation/io/stage_progress.h"
#include "hugectr_lite/preparation/synth/score.h"

namespace hlite::prep {

struct SynthScores {
  int64_t rows = 0;
  double label_rate = 0;
  double bayes_auc = 0.5;     // of the true probabilities against the labels
  double bayes_log_loss = 0;  // the same
  double base_log_loss = 0;   // of predicting label_rate for every row
};

// `loss`: the sum over the rows that the histogram counts.
SynthScores scores_of(const LogitHistogram& histogram, int64_t rows, double loss);

struct DrawnRows {
  std::string bytes;
  double loss = 0;        // sum of the log losses of the true probabilities
  double other_loss = 0;  // of a second model
};

class RowWriter {
 public:
  RowWriter(ThreadPool& pool, StageProgress& progress) : pool_(pool), progress_(progress) {}

  struct Losses {
    double loss = 0, other_loss = 0;
  };
  // Calls draw(begin, rows, worker, out) from many threads, with `out` empty, for pieces of
  // [0, rows). While some threads draw a window of pieces, one writes the window before. The file
  // and the sums are the same for any number of threads.
  Losses write(int64_t rows, FunctionRef<void(int64_t, int64_t, int, DrawnRows&)> draw,
               OutputFile& file);

 private:
  ThreadPool& pool_;
  StageProgress& progress_;
};

}  // namespace hlite::prep
