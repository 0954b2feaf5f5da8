// The kernels of hashed tables and their arguments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "embedding/initial_values.h"
#include "embedding/row_use.h"
#include "embedding/slots_ref.h"
#include "embedding/table_key.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// Returns the place where probing for a key begins in a table of 2^(64 - shift) places: the top
// bits of the product depend on all bits of the key (Fibonacci hashing).
HLITE_HD inline uint64_t home_of(uint64_t table_key, int shift) {
  return (table_key * 0x9E3779B97F4A7C15u) >> shift;
}

struct HashedCounts {
  uint32_t size = 0;     // rows taken
  uint32_t before = 0;   // the last insertion
  uint32_t claimed = 0;  // keys that the insertion at hand has found to be new
  uint32_t full = 0;     // 1: there was no row for `full_key`
  unsigned long long full_key = 0;
  unsigned long long inserted = 0, refused = 0;  // VocabularyCounts
};

// A hash table with linear probing in device memory, and the order of its rows.
struct HashedTable {
  unsigned long long* keys = nullptr;  // [2^(64 - shift)] table_key(), or all ones: empty
  uint32_t* rows = nullptr;  // [same] kUnseen: a key without a row, of a full table; kNoRow: no key
  unsigned long long* key_of_row = nullptr;  // [capacity]
  HashedCounts* counts = nullptr;
  int shift = 0;
  uint32_t capacity = 0;

  [[nodiscard]] HLITE_HD uint64_t mask() const { return ~uint64_t{0} >> shift; }
};

// Describes a batch: its keys, and in the layer's columns the row of each, kNoKey where there is no
// key. Or of a list of keys of any tables, in the one column of one slot.
struct HashedArgs {
  HashedTable table = {};
  SlotsRef slots = {};                         // SlotLayout::pooled()
  Matrix<const uint32_t> keys = {};            // [B,columns]
  Matrix<uint32_t> rows = {};                  // [B,columns]
  const uint32_t* requested_tables = nullptr;  // of each key of a list
};

// Counts of keys that have no row yet, in device memory: a hash table with linear probing.
struct KeyCounts {
  unsigned long long* keys = nullptr;  // [2^(64 - shift)] table_key(), or all ones: empty
  RowUse* uses = nullptr;              // [same]
  // Keys in it; the iteration that `open` is of; whether keys that are new to it are taken in it.
  struct State {
    uint32_t size = 0, step = 0, open = 0;
  }* state = nullptr;
  int shift = 0;
  uint32_t capacity = 0;

  [[nodiscard]] HLITE_HD uint64_t mask() const { return ~uint64_t{0} >> shift; }
};

// Which new keys an insertion gives rows.
struct AdmissionArgs {
  AdmissionType type = AdmissionType::kAll;
  uint32_t threshold = 1;
  float probability = 1;
  KeyCounts counts = {};     // for AdmissionType::kCount
  bool refuses = false;      // a new key may be left without a row
  bool may_be_full = false;  // and so may one that finds no row left, which is no error
};

// The iteration at hand, from the number of those before. They are counted in 32 bits.
HLITE_HD inline uint32_t iteration_after(const int64_t* step) {
  return static_cast<uint32_t>(*step + 1);
}

// AdmissionType::kProbability: the same for a key and an iteration on any device and rank.
HLITE_HD inline bool admits_by_chance(const InitialValues& first, uint64_t table_key,
                                      uint32_t iteration, float probability) {
  const uint64_t stream = first.tables[table_key >> 32].stream ^ 0x61646d6974u;
  const uint64_t index = table_key << 32 | iteration;
  return random::uniform(random::word(first.seed, stream, index)) < probability;
}

// Arguments of an insertion. New keys get rows, with initial values, ordered by table, then key.
struct HashedInsertArgs {
  HashedArgs batch = {};
  UpdatedRows own = {};
  InitialValues first = {};
  AdmissionArgs admission = {};
  // Set if the tables keep uses: one for each own row, and the number of finished iterations.
  RowUse* uses = nullptr;
  const int64_t* step = nullptr;
  unsigned long long* workspace = nullptr;  // [2 * lookups]
  int32_t* capacity_exceeded = nullptr;     // set to 1 if the table is full, unless null
};

namespace kernels {
inline const Kernel<void(const HashedInsertArgs&)> hashed_insert{"hashed_insert"};
// Takes no rows: keys that have none get kUnseen.
inline const Kernel<void(const HashedArgs&)> hashed_find{"hashed_find"};
// Fills an empty table with the `count` keys in key_of_row, each in its row.
inline const Kernel<void(const HashedTable&, uint32_t /*count*/)> hashed_assign{"hashed_assign"};
// out[i] = row list.rows[i] of the table, exactly; the initial values of key i where it is kUnseen;
// as it was where it is kNoKey.
inline const Kernel<void(const HashedArgs& /*list*/, const ConstWeightRows& /*table*/,
                         const InitialValues&, Matrix<float> /*out*/)>
    hashed_gather{"hashed_gather"};
// Sets the initial values of rows [first, end).
inline const Kernel<void(const HashedTable&, const UpdatedRows&, const InitialValues&,
                         uint32_t /*first*/, uint32_t /*end*/)>
    hashed_initial_values{"hashed_initial_values"};
// pool_unseen() of hashed_lookup.h.
template <typename T>
inline const Kernel<void(const HashedArgs&, const ConstWeightRows& /*table*/, const InitialValues&,
                         View<T, 3> /*out*/)>
    pool_unseen{"pool_unseen"};
}  // namespace kernels

}  // namespace hlite::embedding
