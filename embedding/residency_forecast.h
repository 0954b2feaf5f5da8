// ResidencyForecast: what share of the lookups of a run finds its rows in memory, where memory
// holds a part of the rows (row_cache.h, device_row_cache.h), and how many rows move.
//
// CLOCK keeps nearly the rows that LRU would: those that were looked up last. A cache of C lines
// then holds what the last T samples looked up, where T is such that these are C rows, and T hardly
// changes over the run: Che's approximation (Che, Tung and Wang 2002, "Hierarchical Web Caching
// Systems: Modeling, Design and Experimental Results"). A lookup finds its row if one of the T
// samples before its batch had it too.
//
// Counts are those of the very data that are trained on, in an order of their own. The other k - 1
// lookups of a row that is looked up k times in N samples lie anywhere, so none is among T samples
// with probability (1 - T/N)^(k-1). A run begins with empty lines: T is at first as long as the
// run.
#pragma once

#include "embedding/key_frequencies.h"

namespace hlite::embedding {

struct ResidentRows {
  double lines = 0;
  double rows_share = 1;       // share of the categories that this rank owns
  double replicated_rows = 0;  // the most frequent categories, which are not looked up here
  double batch = 0;            // samples of all ranks
  int ranks = 1;               // if several, each requests a row once for its part of a batch
  double batches = 0;          // in the run; 0: infinitely many
};

// Means over the batches of the run.
struct ResidencyForecast {
  double lookups = 0;    // lookups or requests per batch
  double resident = 0;   // those whose row is in memory when the batch begins
  double missing = 0;    // distinct rows that have to come
  double first = 0;      // missing rows that no batch has looked up before
  double displaced = 0;  // rows that are evicted for them
  [[nodiscard]] double resident_share() const { return lookups > 0 ? resident / lookups : 1; }
};

ResidencyForecast forecast_residency(const KeyFrequencies& keys, const ResidentRows& rows);

// Adds the bytes of a batch that travel over the link to the slower tier.
struct TierForecast {
  ResidencyForecast rows;
  double read_bytes = 0, written_bytes = 0;
};

}  // namespace hlite::embedding
