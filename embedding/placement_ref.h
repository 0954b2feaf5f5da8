// A RowPlacement as kernels read it. All rows have numbers: those of rank 0 first, of rank 1, ...,
// then the replicated ones. Only the owner knows the rows of hashed tables: there a number is that
// of a table on a rank, the tables of rank 0 first, and the key identifies the row in it.
#pragma once

#include "embedding/row_place.h"
#include "embedding/slots_ref.h"

namespace hlite::embedding {

struct PlacementRef {
  struct Shards {
    int32_t first = 0, count = 0;  // in the arrays below; 0: copied
  };
  CategoriesRef categories = {};   // without bits: by table
  const Shards* shards = nullptr;  // [tables]
  const int* shard_rank = nullptr;
  const int64_t* shard_row = nullptr;      // first row; of a copied table too
  const uint32_t* first_number = nullptr;  // [ranks + 2]: each rank, replicated rows, end
  int32_t ranks = 1;
  uint32_t numbers = 0;            // how many rows have one; as a number: no row
  int32_t hashed_tables = 0;       // tables of a hashed layer; else 0
  KeyOwner by = KeyOwner::kByKey;  // for these

  // Returns the number of a key of `slot`, which looks up table `table`.
  [[nodiscard]] HLITE_HD uint32_t number_of(const SlotRef& slot, int32_t table,
                                            uint32_t key) const {
    if (hashed_tables > 0)
      return static_cast<uint32_t>(hashed_rank(by, table, key, ranks) * hashed_tables + table);
    const RowPlace place = locate(slot.first_row, table, key);
    return first_number[place.rank < 0 ? ranks : place.rank] + place.row;
  }
  // REQUIRES tables that are not hashed.
  [[nodiscard]] HLITE_HD RowPlace locate(int64_t first_row, int32_t table, uint32_t key) const {
    if (categories.bits) return categories.locate(first_row + key);
    const Shards of = shards[table];
    if (of.count == 0) return {-1, static_cast<uint32_t>(shard_row[of.first] + key)};
    return shard_place(shard_rank + of.first, shard_row + of.first, static_cast<uint32_t>(of.count),
                       key);
  }
};

}  // namespace hlite::embedding
