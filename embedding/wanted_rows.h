// WantedRows: the rows of hashed tables that the lists of all ranks name, by keys that the owner
// alone knows the rows of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "embedding/hashed_index.h"

namespace hlite::embedding {

// A list of wanted keys as it travels: those of slot 0 ascending, of slot 1, ...
struct KeyList {
  std::span<const uint32_t> counts;  // [slots] keys of each
  std::span<const uint32_t> keys;
};

class WantedRows {
 public:
  // `ranks`: how many send lists.
  explicit WantedRows(int ranks) : wanted_(static_cast<size_t>(ranks)) {}

  // Finds the rows of the list of rank `from` in `index`, with new ones where needed. Where none is
  // left, which the index notes, row 0 stands for it: the run counts for nothing.
  void want(int from, const KeyList& list, HashedIndex& index);
  // Of the last list of that rank: its rows, in its order; ascending, and where each of these
  // stands in the list.
  [[nodiscard]] std::span<const uint32_t> rows(int from) const { return of(from).rows; }
  [[nodiscard]] std::span<const uint32_t> ascending(int from) const { return of(from).ascending; }
  [[nodiscard]] std::span<const uint32_t> order(int from) const { return of(from).order; }

 private:
  struct Wanted {
    std::vector<uint32_t> rows, ascending, order;
    std::vector<uint64_t> sorted;  // row << 32 | place in the list
  };
  [[nodiscard]] const Wanted& of(int from) const { return wanted_[static_cast<size_t>(from)]; }

  std::vector<Wanted> wanted_;  // [ranks]
};

}  // namespace hlite::embedding
