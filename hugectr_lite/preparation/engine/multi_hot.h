// Multi-hot lists for one-hot data, as DLRM-DCNv2 is trained on: every id of a table becomes a
// fixed list of ids of that table.
//
//   list(table, id)[0] = id
//   list(table, id)[j] = draw j of (seed, table, id), uniform over the rows of the table, 0 < j < h
//
// Tables are counted by the first slot that looks them up. The list depends on nothing else, so it
// is the same wherever the id occurs, in training and validation data, and needs no memory. Draws
// are independent: a list may hold an id twice.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hlite::prep {

// The hotness of each of `slots` tables from "dcnv2" (26 tables, 214 keys: the sizes of the MLPerf
// DLRM-DCNv2 benchmark) or a list such as "3,1,2". Throws ConfigError.
std::vector<int64_t> parse_hotness(std::string_view text, int64_t slots);

class MultiHot {
 public:
  // hotness[s] >= 1 keys for an id of slot s, whose table has slot_sizes[s] rows, 1 to 2^32.
  // `slot_tables` as in slot_tables.h: an id has the same list in all slots of a table, cut to
  // their hotness but for draws that had to be repeated.
  MultiHot(std::vector<int64_t> hotness, std::vector<int64_t> slot_sizes, uint64_t seed,
           std::span<const int64_t> slot_tables = {});

  [[nodiscard]] const std::vector<int64_t>& hotness() const { return hotness_; }
  // Keys of a row: the sum of the hotness.
  [[nodiscard]] int64_t keys() const { return keys_; }
  // ids [slots] -> keys [keys()], slot after slot.
  void expand(const uint32_t* ids, uint32_t* keys) const;

 private:
  std::vector<int64_t> hotness_, slot_sizes_;
  std::vector<uint64_t> drawn_as_;  // per slot: the first slot of its table
  uint64_t seed_;
  int64_t keys_ = 0;
  std::vector<uint32_t> rejected_below_;  // of each table: see multi_hot.cpp
};

}  // namespace hlite::prep
