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

}  // namespace hlite::embedding
