// Files of samples with histories, drawn from a planted model, with the best scores that any model
// can reach on them with the history and without it.
#pragma once

#include <cstdint>
#include <string>

#include "hugectr_lite/preparation/synth/planted_history.h"
#include "hugectr_lite/preparation/synth/row_writer.h"

namespace hlite::prep {

struct HistorySynthOptions {
  PlantedHistoryOptions model;
  int64_t train_rows = 1000000;
  int64_t test_rows = 100000;  // drawn after the training rows; 0: no test file
  std::string out = {};        // prefix of the files
  bool force = false;          // replace all files of this prefix
  int threads = 0;             // 0: all that this process may use
  bool progress = false;       // a line on standard error now and then
};

struct HistoryScores {
  SynthScores seeing, blind;  // with the history, without it
};

struct HistorySynthResult {
  HistoryScores train, test;
};

// Writes <out>.train.norm and <out>.test.norm, with sums, of one label and the slots user, item,
// category, items of the history, their categories; <out>.train.txt and <out>.test.txt, the lists
// that training reads; and <out>.histories.json: what a config needs (hl.models.din), model and
// scores. The test file is "val" there. The files do not depend on the number of threads. Throws
// ConfigError, also if there are files of this prefix (without `force`), and FileError. On any
// error no file appears under its final name.
HistorySynthResult history_synth(const HistorySynthOptions& options);

}  // namespace hlite::prep
