// KeyDictionary: 32-bit keys to contiguous ids 0, 1, 2, ... in order of first appearance.
//
// Open addressing with linear probing in a table of a power of two slots, at most 5/8 full: 8 bytes
// a slot. Not thread-safe: each column has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hlite::tools {

class KeyDictionary {
 public:
  KeyDictionary();

  // The id of `key`, a new one when it was never seen. Throws DataError beyond 2^32 - 2 keys.
  uint32_t id(uint32_t key) {
    size_t at = home(key);
    while (slots_[at].id_plus_1 != 0) {
      if (slots_[at].key == key) return slots_[at].id_plus_1 - 1;
      at = (at + 1) & mask_;
    }
    return insert(key, at);
  }
  [[nodiscard]] int64_t size() const { return size_; }

 private:
  struct Slot {
    uint32_t key;
    uint32_t id_plus_1;  // 0: empty
  };
  // Fibonacci hashing: the top bits of the product depend on all bits of the key.
  [[nodiscard]] size_t home(uint32_t key) const {
    return static_cast<size_t>((uint64_t{key} * 0x9E3779B97F4A7C15u) >> shift_);
  }
  uint32_t insert(uint32_t key, size_t at);
  void grow();

  std::vector<Slot> slots_;
  size_t mask_;
  int shift_;  // 64 - log2(slots)
  int64_t size_ = 0;
};

}  // namespace hlite::tools
