#include "embedding/hashed_rows.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {
constexpr size_t kKeysAhead = 16;  // prefetched
}

HashedRows::HashedRows(std::string layer, int64_t slots, int64_t capacity, int ranks)
    : layer_(std::move(layer)),
      slots_(slots),
      index_(layer_, capacity),
      wanted_(static_cast<size_t>(ranks)) {}

int64_t HashedRows::insert(int64_t slot, uint32_t key, const OnNew& on_new) {
  const uint64_t both = key_of_slot(slot, key);
  if (const int64_t row = index_.find(both); row != KeyIndex::kAbsent) return row;
  if (index_.size() == index_.capacity())
    raise<DataError>(
        "embedding {}: its table is full: key {} of slot {} is new, and all {} rows of its rank "
        "are taken; raise max_vocabulary_size_per_gpu",
        layer_, key, slot, index_.capacity());
  const int64_t row = index_.insert(both);
  on_new(slot, key, row);
  return row;
}

void HashedRows::want(int from, const KeyList& list, const OnNew& on_new) {
  Wanted& w = wanted_[static_cast<size_t>(from)];
  w.rows.clear();
  w.sorted.clear();
  size_t at = 0;
  for (int64_t s = 0; s < slots_; ++s) {
    const size_t end = at + list.counts[static_cast<size_t>(s)];
    HLITE_CHECK(end <= list.keys.size(), "{}: a list of {} keys counts more", layer_,
                list.keys.size());
    for (; at < end; ++at) {
      if (at + kKeysAhead < end) index_.prefetch(key_of_slot(s, list.keys[at + kKeysAhead]));
      const auto row = static_cast<uint64_t>(insert(s, list.keys[at], on_new));
      w.rows.push_back(static_cast<uint32_t>(row));
      w.sorted.push_back(row << 32 | at);
    }
  }
  HLITE_CHECK(at == list.keys.size(), "{}: a list of {} keys counts {}", layer_, list.keys.size(),
              at);
  std::sort(w.sorted.begin(), w.sorted.end());
  w.ascending.clear();
  w.order.clear();
  for (const uint64_t pair : w.sorted) {
    w.ascending.push_back(static_cast<uint32_t>(pair >> 32));
    w.order.push_back(static_cast<uint32_t>(pair));
  }
}

std::vector<std::vector<uint32_t>> HashedRows::keys() const {
  std::vector<std::vector<uint32_t>> of_slot(static_cast<size_t>(slots_));
  for (const uint64_t both : index_.keys())
    of_slot[static_cast<size_t>(both >> 32)].push_back(static_cast<uint32_t>(both));
  for (auto& keys : of_slot) std::sort(keys.begin(), keys.end());
  return of_slot;
}

}  // namespace hlite::embedding
