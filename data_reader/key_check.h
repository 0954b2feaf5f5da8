// Keys outside of their tables: refused, or replaced and counted (the config's key_policy).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/key_layout.h"

namespace hlite::data {

// A larger share of replaced keys is no chance.
inline constexpr double kManyReplaced = 0.25;

class KeyCheck {
 public:
  // `slot_rows`: rows of each slot's table. A key of slot s is local to the slot's table, or with
  // `global` counts on from the tables before it. `varying`: [slots] a sample may have fewer keys
  // than the slot has columns, which then hold kNoKey; empty: none may. Throws ConfigError when the
  // policy's oov_key is outside of a table.
  KeyCheck(const KeyLayout& layout, std::span<const int64_t> slot_rows,
           const config::KeyPolicyConfig& policy = {}, bool global = false,
           const std::vector<bool>& varying = {});

  [[nodiscard]] int64_t columns() const { return static_cast<int64_t>(last_key_.size()); }
  [[nodiscard]] bool replaces() const { return replaces_; }
  [[nodiscard]] uint32_t last_key(int64_t column) const {
    return last_key_[static_cast<size_t>(column)];
  }
  // Makes a key of this column local to its table. One below its table, or negative, wraps round
  // and is above it.
  [[nodiscard]] uint64_t local_key(int64_t column, uint64_t key) const {
    return key - first_key_[static_cast<size_t>(column)];
  }
  [[nodiscard]] int64_t first_key(int64_t column) const {
    return static_cast<int64_t>(first_key_[static_cast<size_t>(column)]);
  }
  // Returns the key that the policy puts in the place of a key of this column that is outside.
  [[nodiscard]] uint32_t replacement(int64_t column) const {
    return replacement_[static_cast<size_t>(column)];
  }

  // Returns true if a local key of this column is outside of its table; kNoKey is not where the
  // slot varies.
  [[nodiscard]] bool is_outside(int64_t column, uint32_t key) const {
    const auto c = static_cast<size_t>(column);
    return key + shift_[c] > last_key_[c] + shift_[c];
  }
  // Returns true if any of a sample's local keys is outside of its table.
  [[nodiscard]] bool any_outside(const uint32_t* keys) const {
    const uint32_t *last = last_key_.data(), *shift = shift_.data();
    const auto n = static_cast<int64_t>(last_key_.size());
    uint32_t outside = 0;
    for (int64_t c = 0; c < n; ++c) outside |= keys[c] + shift[c] > last[c] + shift[c];
    return outside != 0;
  }
  // Replaces a sample's keys that are outside; returns how many. REQUIRES replaces().
  int64_t replace(uint32_t* keys) const {
    const uint32_t *last = last_key_.data(), *shift = shift_.data(), *instead = replacement_.data();
    const auto n = static_cast<int64_t>(last_key_.size());
    uint32_t replaced = 0;
    for (int64_t c = 0; c < n; ++c) {
      const bool outside = keys[c] + shift[c] > last[c] + shift[c];
      replaced += outside;
      keys[c] = outside ? instead[c] : keys[c];
    }
    return replaced;
  }

 private:
  std::vector<uint32_t> last_key_;     // [columns] of the column's table, local
  std::vector<uint32_t> shift_;        // [columns] 1 where kNoKey may be, which becomes 0 by it
  std::vector<uint64_t> first_key_;    // [columns] of the column's table, as files have it
  std::vector<uint32_t> replacement_;  // [columns]
  bool replaces_;
};

}  // namespace hlite::data
