#include "embedding/key_index.h"

#include <algorithm>
#include <bit>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

// At least two slots: shift_ stays below 64, and a probe always ends at an empty one.
int KeyIndex::slot_bits(int64_t capacity) {
  HLITE_CHECK(capacity >= 1 && capacity < int64_t{1} << 32, "capacity {}", capacity);
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(capacity) * 2 - 1));
}

int64_t KeyIndex::bytes(int64_t capacity) {
  return (static_cast<int64_t>(sizeof(Slot)) << slot_bits(capacity)) +
         capacity * static_cast<int64_t>(sizeof(uint64_t));
}

KeyIndex::KeyIndex(std::string name, int64_t capacity)
    : name_(std::move(name)),
      capacity_(capacity),
      shift_(64 - slot_bits(capacity)),
      mask_((size_t{1} << slot_bits(capacity)) - 1),
      memory_((mask_ + 1) * sizeof(Slot), "key index") {
  keys_.reserve(static_cast<size_t>(capacity));
}

int64_t KeyIndex::add(uint64_t key, size_t at) {
  if (size() == capacity_)
    raise<DataError>(
        "embedding {}: its table is full: key {} is new and all {} rows are taken: raise "
        "max_vocabulary_size_per_gpu",
        name_, key, capacity_);
  keys_.push_back(key);
  slots()[at] = {key, static_cast<uint32_t>(keys_.size())};
  return size() - 1;
}

void KeyIndex::clear() {
  std::fill_n(slots(), mask_ + 1, Slot{0, 0});
  keys_.clear();
}

// A key after the hole moves into it unless its home lies after the hole, too: then every probe
// still ends where it did (Knuth, The Art of Computer Programming, vol. 3, 6.4, algorithm R).
void KeyIndex::erase(uint64_t key) {
  size_t hole = place_of(key);
  for (size_t at = (hole + 1) & mask_; slots()[at].row_plus_1 != 0; at = (at + 1) & mask_) {
    if (((at - home(slots()[at].key)) & mask_) < ((at - hole) & mask_)) continue;
    slots()[hole] = slots()[at];
    hole = at;
  }
  slots()[hole] = {0, 0};
}

void KeyIndex::close_up(const RowMoves& moves, std::span<const uint32_t> gone) {
  constexpr size_t kAhead = 16;
  for (size_t i = 0; i < gone.size(); ++i) {
    if (i + kAhead < gone.size()) prefetch(keys_[gone[i + kAhead]]);
    erase(keys_[gone[i]]);
  }
  for (size_t i = 0; i < moves.from.size(); ++i) {
    if (i + kAhead < moves.from.size()) prefetch(keys_[moves.from[i + kAhead]]);
    const uint64_t key = keys_[moves.from[i]];
    slots()[place_of(key)].row_plus_1 = moves.to[i] + 1;
    keys_[moves.to[i]] = key;
  }
  keys_.resize(keys_.size() - gone.size());
}

}  // namespace hlite::embedding
