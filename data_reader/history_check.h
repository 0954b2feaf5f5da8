// What all data have to keep of histories (max_len), wherever they come from: equally many keys in
// each slot of one, oldest first, and no key after an absent one. Of a longer list the last keys
// count, and those before them are not looked at.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/key_layout.h"

namespace hlite::data {

// Most keys of a list, so that a damaged file does not fill the memory.
inline constexpr int64_t kLongestHistory = int64_t{1} << 24;

// Slots [first_slot, first_slot + slots), all of one hotness, are a history.
struct History {
  std::string name;
  int64_t first_slot = 0, slots = 0;
};
// In the order of their slots.
std::vector<History> histories_of(const config::DataConfig& config);

class HistoryCheck {
 public:
  HistoryCheck(const KeyLayout& layout, std::span<const History> histories);
  explicit HistoryCheck(const config::DataConfig& config)
      : HistoryCheck(config.key_layout(), histories_of(config)) {}

  [[nodiscard]] bool is_history(int64_t slot) const {
    return is_history_[static_cast<size_t>(slot)];
  }
  // The slot whose number of keys this one has to have: itself, or its history's first.
  [[nodiscard]] int64_t partner(int64_t slot) const { return partner_[static_cast<size_t>(slot)]; }
  // "slot 3 and slot 4: expected equally many keys ..."
  [[nodiscard]] static std::string uneven(const std::string& a, int64_t keys_a,
                                          const std::string& b, int64_t keys_b);

  // Whether a sample's keys [columns] break a rule; and which one, "" if none.
  [[nodiscard]] bool breaks(const uint32_t* keys) const {
    bool broken = false;
    for (const Run& run : runs_) broken |= breaks(run, keys);
    return broken;
  }
  [[nodiscard]] std::string problem(const uint32_t* keys) const;

 private:
  struct Run {
    int64_t first_slot, slots, column, max_len;
  };
  [[nodiscard]] static bool breaks(const Run& run, const uint32_t* keys);

  std::vector<int64_t> partner_;  // [slots]
  std::vector<bool> is_history_;  // [slots]
  std::vector<Run> runs_;         // the histories
};

}  // namespace hlite::data
