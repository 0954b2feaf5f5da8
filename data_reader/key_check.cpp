#include "data_reader/key_check.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::data {

KeyCheck::KeyCheck(const KeyLayout& layout, std::span<const int64_t> slot_rows,
                   const config::KeyPolicyConfig& policy, bool global,
                   const std::vector<bool>& varying)
    : replaces_(policy.replaces()) {
  using config::KeyPolicy;
  HLITE_CHECK(static_cast<int64_t>(slot_rows.size()) == layout.slots(), "{} tables for {} slots",
              slot_rows.size(), layout.slots());
  HLITE_CHECK(varying.empty() || varying.size() == slot_rows.size(), "{} of {} slots",
              varying.size(), slot_rows.size());
  uint64_t first = 0;
  for (size_t s = 0; s < slot_rows.size(); ++s) {
    HLITE_CHECK(slot_rows[s] >= 1, "a table of {} rows", slot_rows[s]);
    // kNoKey is no valid key.
    const auto last = static_cast<uint32_t>(std::min<int64_t>(slot_rows[s], kNoKey) - 1);
    if (policy.kind == KeyPolicy::kOov && policy.oov_key > last)
      raise<ConfigError>("oov_key: expected a key of every table, found {}: slot {} has {} rows",
                         policy.oov_key, s, slot_rows[s]);
    const auto h = static_cast<size_t>(layout.hotness[s]);
    last_key_.insert(last_key_.end(), h, last);
    shift_.insert(shift_.end(), h, !varying.empty() && varying[s] ? 1 : 0);
    first_key_.insert(first_key_.end(), h, first);
    if (global) first += static_cast<uint64_t>(slot_rows[s]);
    replacement_.insert(replacement_.end(), h,
                        policy.kind == KeyPolicy::kOov ? policy.oov_key : last);
  }
}

}  // namespace hlite::data
