// Files in Criteo's format drawn from a planted model, with the best scores that any model can
// reach on them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hugectr_lite/preparation/synth/planted_model.h"
#include "hugectr_lite/preparation/synth/row_writer.h"

namespace hlite::prep {

enum class SynthFormat { kTsv, kRaw };

struct CriteoSynthOptions {
  PlantedOptions model;
  SynthFormat format = SynthFormat::kTsv;
  int64_t train_rows = 1000000;
  int64_t test_rows = 100000;  // drawn after the training rows; 0: no test file
  // A file of train_rows rows for each of PlantedOptions::days instead of these two.
  bool by_day = false;
  std::string out = {};   // prefix of the files
  bool force = false;     // replace all files of this prefix
  int threads = 0;        // 0: all that this process may use
  bool progress = false;  // a line on standard error now and then
};

struct SynthResult {
  SynthScores train, test;
  std::vector<SynthScores> days;
};

// Writes, with kTsv, <out>.train.tsv and <out>.test.tsv; memory depends on neither rows nor
// categories. With kRaw, <out>.train.bin and <out>.test.bin as preparing those rows would make them
// (data_reader/raw_format.h: 13 integers, missing and negative ones 0; 26 keys, key 0 a missing
// token, key c the c-th most frequent category, so that tables need categories + 1 rows), with
// <out>.manifest.json and <out>.key_counts.bin; memory for counting keys: 4 bytes a category. Both
// write <out>.meta.json: model and scores. By day, <out>.day_00.tsv and so on in the place of
// training and test file. The files do not depend on the number of threads. Throws ConfigError,
// also if there are such files of an earlier run (without `force`), and FileError. On any error no
// file appears under its final name.
SynthResult criteo_synth(const CriteoSynthOptions& options);

// Names of files of this prefix, of any layout.
std::vector<std::string> earlier_files(const std::filesystem::path& out);

}  // namespace hlite::prep
