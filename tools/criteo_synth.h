// Files in Criteo's format drawn from a planted model, with the best scores that any model can
// reach on them.
#pragma once

#include <cstdint>
#include <string>

#include "tools/planted_model.h"

namespace hlite::tools {

struct CriteoSynthOptions {
  PlantedOptions model;
  int64_t train_rows = 1000000;
  int64_t test_rows = 100000;  // drawn after the training rows; 0: no test file
  std::string out = "synth";   // prefix of the files
  int threads = 0;             // 0: all that this process may use
};

struct SynthScores {
  int64_t rows = 0;
  double label_rate = 0;
  double bayes_auc = 0.5;     // of the true probabilities against the labels
  double bayes_log_loss = 0;  // the same
  double base_log_loss = 0;   // of predicting label_rate for every row
};

// Writes <out>.train.tsv, <out>.test.tsv and <out>.meta.json; the scores are of the test rows. The
// files do not depend on the number of threads. Throws ConfigError, FileError; on any error no file
// appears under its final name.
SynthScores criteo_synth(const CriteoSynthOptions& options);

// Appends one line of Criteo's format, line feed included.
void append_line(const PlantedModel& model, const PlantedRow& row, std::string& out);

}  // namespace hlite::tools
