#include "data_reader/history_check.h"

#include <algorithm>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/no_key.h"

namespace hlite::data {

std::vector<History> histories_of(const config::DataConfig& config) {
  std::vector<History> histories;
  int64_t slot = 0;
  const config::SparseInputConfig* before = nullptr;
  for (const config::SparseInputConfig& input : config.sparse) {
    if (before && input.continues(*before))
      histories.back().slots += input.slot_num;
    else if (input.max_len > 0)
      histories.push_back({input.top, slot, input.slot_num});
    slot += std::ssize(input.hotness);
    before = &input;
  }
  return histories;
}

HistoryCheck::HistoryCheck(const KeyLayout& layout, std::span<const History> histories)
    : partner_(layout.hotness.size()), is_history_(layout.hotness.size()) {
  std::iota(partner_.begin(), partner_.end(), 0);
  for (const auto& [name, first, slots] : histories) {
    const auto s = static_cast<size_t>(first);
    std::fill_n(partner_.begin() + first, slots, first);
    std::fill_n(is_history_.begin() + first, slots, true);
    runs_.push_back({first, slots, layout.first_column[s], layout.hotness[s]});
  }
}

std::string HistoryCheck::uneven(const std::string& a, int64_t keys_a, const std::string& b,
                                 int64_t keys_b) {
  return fmt::format(
      "{} and {}: expected equally many keys, as they are one history, found {} and {}", a, b,
      keys_a, keys_b);
}

bool HistoryCheck::breaks(const Run& run, const uint32_t* keys) {
  const uint32_t* const first = keys + run.column;
  uint32_t broken = 0;
  for (int64_t i = 1; i < run.max_len; ++i)
    broken |=
        static_cast<uint32_t>(first[i - 1] == kNoKey) & static_cast<uint32_t>(first[i] != kNoKey);
  for (int64_t s = 1; s < run.slots; ++s) {
    const uint32_t* const other = first + s * run.max_len;
    for (int64_t i = 0; i < run.max_len; ++i)
      broken |= static_cast<uint32_t>((first[i] == kNoKey) != (other[i] == kNoKey));
  }
  return broken != 0;
}

std::string HistoryCheck::problem(const uint32_t* keys) const {
  for (const Run& run : runs_) {
    int64_t of_first = 0;
    for (int64_t s = 0; s < run.slots; ++s) {
      const uint32_t* const slot = keys + run.column + s * run.max_len;
      const auto present = [](uint32_t key) { return key != kNoKey; };
      const uint32_t* const end = std::find(slot, slot + run.max_len, kNoKey);
      const uint32_t* const later = std::find_if(end, slot + run.max_len, present);
      if (later != slot + run.max_len)
        return fmt::format("key {} of slot {}: expected no key after an absent one, found {}",
                           later - slot, run.first_slot + s, *later);
      if (s == 0) of_first = end - slot;
      if (end - slot != of_first)
        return uneven(fmt::format("slot {}", run.first_slot), of_first,
                      fmt::format("slot {}", run.first_slot + s), end - slot);
    }
  }
  return {};
}

}  // namespace hlite::data
