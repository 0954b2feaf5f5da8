// Criteo's click logs to raw files, after the MLPerf reference's recipe.
//
// Per column, tokens become contiguous ids in order of first appearance over all input, training
// files first: so every key of the validation file lies inside its table. Stages over a window of
// line blocks, each run by all threads:
//
//   read (in order) -> parse (a task a block) -> number (a task a column, in row order) -> write
//
// No stage's result depends on which thread did what, so the files are the same for any count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/raw_manifest.h"

namespace hlite::tools {

struct CriteoPrepOptions {
  std::vector<std::string> train = {}, val = {};  // "-": standard input; gzip is recognised
  // The last training file is not trained on: its first half, rounded up, becomes val.bin and the
  // rest test.bin. (MLPerf's split of the 24th day.) Excludes `val`.
  bool split_last_half = false;
  std::string out = ".";
  uint32_t max_ind_range = 40000000;  // keys are taken modulo this; 0: not at all
  int64_t max_bad_rows = 0;           // malformed rows to skip, over all files, before giving up
  int threads = 0;                    // 0: all that this process may use
  int64_t block_bytes = 1 << 20;      // also the longest line
};

// Writes train.bin, val.bin (with `val` or the split), test.bin (with the split) and manifest.json
// into `out`. Throws ConfigError for contradictory options, DataError "<file>:<line>: column ..."
// for a malformed row beyond max_bad_rows or files without a row, FileError. On any error no file
// appears under its final name.
RawManifest criteo_prep(const CriteoPrepOptions& options);

}  // namespace hlite::tools
