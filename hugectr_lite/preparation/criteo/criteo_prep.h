// Criteo's click logs to files for training: the preparation engine (engine/prep_engine.h) with
// Criteo's format and the recipes that people use for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/preparation/engine/output_options.h"
#include "hugectr_lite/preparation/engine/prep_options.h"

namespace hlite::prep {

struct CriteoPrepOptions {
  // "-": standard input; compression is recognised
  std::vector<std::string> train = {}, val = {}, test = {};
  // The last training file is not trained on: its first half, rounded up, becomes the split val and
  // the rest test. (MLPerf's split of the 24th day.) Excludes `val` and `test`.
  bool split_last_half = false;
  // Keys are taken modulo this; 0: not at all. Unset: 40,000,000 as MLPerf does, and 0 with `hash`.
  std::optional<uint32_t> max_ind_range = {};
  // The recipe, as in numbering.h; MLPerf's when nothing is set.
  int64_t min_count = 0;
  bool by_frequency = false;
  uint64_t hash = 0;
  // Also write the tokens in the order of their ids: what `predict` needs for lines of text.
  bool save_vocabulary = false;
  // Folder of a preparation whose ids are kept (engine/predecessor.h); "": none. Its key range and
  // min_count count; the vocabulary is saved.
  std::string continue_from = {};
  OutputOptions output = {};
  // Threads, memory, sample and the like. The members inputs, out and identity are filled in.
  PrepOptions run = {};
};

// Writes, with save_vocabulary, vocabulary/<slot>_C<n>.npy: the 32-bit token of each id (of id 0
// none, with min_count); and always the splits train, val and test (with files or the split of
// their own), key_counts.bin and manifest.json into output.folder. Goes on with a run of the same
// options that was killed. Throws ConfigError for contradictory options, and what PrepEngine
// throws. On any error no file appears under its final name.
data::Manifest criteo_prep(const CriteoPrepOptions& options);

}  // namespace hlite::prep
