// KeyFilterRef: the counters of a KeyFilter, as the CPU and kernels read them.
#pragma once

#include <cstdint>

#include "embedding/key_part.h"
#include "hugectr_lite/core/kernel.h"

namespace hlite::embedding {

// The largest count: counters have 8 bits and saturate.
inline constexpr uint32_t kMaxFilterCount = 255;

// A key that a batch has, and its count with this batch.
struct FilterEntry {
  uint64_t key = 0;  // table_key()
  uint32_t count = 0;
};

struct KeyFilterRef {
  // The current iteration: its number, and how many of its keys wait to be counted.
  struct State {
    uint32_t step = 0, waiting = 0;
  };
  uint8_t* counters = nullptr;  // [own parts][part_bytes]: part p is number p / ranks of its rank
  int64_t part_bytes = 0;       // a multiple of 4
  uint32_t slice = 1;           // counters of a part for each hash function
  int32_t functions = 0;        // hash functions
  uint32_t ranks = 1;
  uint32_t max_waiting = 0;
  State* state = nullptr;          // on a GPU
  FilterEntry* waiting = nullptr;  // [max_waiting], there

  // Finds the counters of a key. The numbers of the hash functions come from two hashes (Kirsch
  // and Mitzenmacher, "Less hashing, same performance: building a better Bloom filter", 2006).
  struct Places {
    int64_t first;
    uint32_t hash, stride;
  };
  [[nodiscard]] HLITE_HD Places places_of(uint64_t key) const {
    const uint64_t hash = mix(key), more = mix(hash ^ 0x9E3779B97F4A7C15u);
    return {static_cast<int64_t>(key_part(hash) / ranks) * part_bytes, static_cast<uint32_t>(more),
            static_cast<uint32_t>(more >> 32) | 1};
  }
  // The counter of hash function `function`, which has a slice of its own.
  [[nodiscard]] HLITE_HD int64_t place(const Places& of, int32_t function) const {
    const uint32_t hash = of.hash + static_cast<uint32_t>(function) * of.stride;
    return of.first + int64_t{function} * slice +
           static_cast<int64_t>((uint64_t{hash} * slice) >> 32);
  }
  // At least the number of batches that have had the key, as far as they have been counted.
  [[nodiscard]] HLITE_HD uint32_t count(uint64_t key) const {
    const Places of = places_of(key);
    uint32_t least = kMaxFilterCount;
    for (int32_t i = 0; i < functions; ++i) {
      const uint32_t counter = counters[place(of, i)];
      least = counter < least ? counter : least;
    }
    return least;
  }
  // The count of a key of the batch at hand.
  [[nodiscard]] HLITE_HD uint32_t count_with_batch(uint64_t key) const {
    const uint32_t before = count(key);
    return before < kMaxFilterCount ? before + 1 : before;
  }
};

namespace kernels {
// Raises the counters of all keys that wait.
inline const Kernel<void(const KeyFilterRef&)> raise_counts{"raise_counts"};
}  // namespace kernels

}  // namespace hlite::embedding
