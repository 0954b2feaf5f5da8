#include "embedding/wanted_rows.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

static constexpr size_t kKeysAhead = 16;  // prefetched

void WantedRows::want(int from, const KeyList& list, HashedIndex& index) {
  Wanted& w = wanted_[static_cast<size_t>(from)];
  w.rows.clear();
  w.sorted.clear();
  size_t at = 0;
  for (size_t s = 0; s < list.counts.size(); ++s) {
    const auto slot = static_cast<int64_t>(s);
    const size_t end = at + list.counts[s];
    HLITE_CHECK(end <= list.keys.size(), "a list of {} keys counts more", list.keys.size());
    for (; at < end; ++at) {
      if (at + kKeysAhead < end) index.prefetch(slot, list.keys[at + kKeysAhead]);
      const int64_t found = index.insert(slot, list.keys[at]);
      const uint64_t row = found == KeyIndex::kAbsent ? 0 : static_cast<uint64_t>(found);
      w.rows.push_back(static_cast<uint32_t>(row));
      w.sorted.push_back(row << 32 | at);
    }
  }
  HLITE_CHECK(at == list.keys.size(), "a list of {} keys counts {}", list.keys.size(), at);
  std::sort(w.sorted.begin(), w.sorted.end());
  w.ascending.clear();
  w.order.clear();
  for (const uint64_t pair : w.sorted) {
    w.ascending.push_back(static_cast<uint32_t>(pair >> 32));
    w.order.push_back(static_cast<uint32_t>(pair));
  }
}

}  // namespace hlite::embedding
