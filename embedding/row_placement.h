// Which rank holds which row of a layer's tables, for every way to spread them:
//
//   by category  hybrid and DistributedSlot: frequent categories are replicated, the k-th
//                of the others is row k / ranks of rank k mod ranks (category_model.h)
//   by key       the ...Hash types: a key is on the rank that KeyOwner says; which row it has there
//                its owner alone knows (hashed_index.h), here it is the key
//   by table     LocalizedSlot and sharding plans: a table lies on one rank, or its keys k on the
//                rank shards[k mod n], or it is replicated on every rank
//
// A rank's own rows form one array, and replicated rows another, the same on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "embedding/category_model.h"
#include "embedding/slot_layout.h"

namespace hlite::embedding {

struct TableRow {
  int64_t table;
  uint32_t key;
  bool operator==(const TableRow&) const = default;
};

class RowPlacement {
 public:
  static RowPlacement by_category(const SlotLayout& layout, CategoryModel model);
  // `shards[t]`: the ranks that hold table t, key k on the one at k mod n; empty: copied
  // everywhere.
  static RowPlacement by_table(const SlotLayout& layout, std::vector<std::vector<int>> shards,
                               int ranks);

  // Holds up to `capacity` keys on a rank, or all possible keys.
  static RowPlacement by_key(const SlotLayout& layout, int ranks, int64_t capacity, KeyOwner by);

  // REQUIRES key < rows of the table. Ascending keys of a table that lie on one rank have ascending
  // rows there.
  [[nodiscard]] RowPlace locate(int64_t table, uint32_t key) const {
    const auto t = static_cast<size_t>(table);
    if (model_) return model_->locate(layout_.table_offset[t] + key);
    if (hashed_) return {hashed_rank(owner_, table, key, ranks()), key};
    const auto& shards = shards_[t];
    if (shards.empty()) return {-1, static_cast<uint32_t>(begin_[t][0] + key)};
    return shard_place(shards.data(), begin_[t].data(), static_cast<uint32_t>(shards.size()), key);
  }
  // The inverse of locate(): the table row in a row of a rank (rank < 0: of the replicated ones).
  // Not for placement by key.
  [[nodiscard]] TableRow table_row(int rank, int64_t row) const;

  // Returns true if rows are placed by key.
  [[nodiscard]] bool hashed() const { return hashed_; }
  // And then, what decides on which rank a key is.
  [[nodiscard]] KeyOwner owner() const { return owner_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(rows_.size()); }
  // [ranks] the share of a table's keys that lies on each rank; all 0 if it is replicated.
  [[nodiscard]] std::vector<double> key_share(int64_t table) const;
  [[nodiscard]] int64_t rows_of(int rank) const { return rows_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int64_t replicated_rows() const { return replicated_rows_; }
  [[nodiscard]] const SlotLayout& layout() const { return layout_; }
  // Returns the model if rows are placed by category, else null.
  [[nodiscard]] const CategoryModel* model() const { return model_ ? &*model_ : nullptr; }
  // Used by placements by table: the ranks of the table's shards, empty if it is replicated, and
  // the first row of each shard, or its first row among the replicated ones.
  [[nodiscard]] const std::vector<int>& shards(int64_t table) const {
    return shards_[static_cast<size_t>(table)];
  }
  [[nodiscard]] const std::vector<int64_t>& first_rows(int64_t table) const {
    return begin_[static_cast<size_t>(table)];
  }

 private:
  explicit RowPlacement(const SlotLayout& layout) : layout_(layout) {}

  // Rows of one table on one rank, or among the replicated ones: they follow each other.
  struct PlacedRange {
    int64_t begin, table, shard, shards;
  };

  SlotLayout layout_;
  std::optional<CategoryModel> model_;
  bool hashed_ = false;
  KeyOwner owner_ = KeyOwner::kByKey;
  std::vector<std::vector<int>> shards_;          // [tables]
  std::vector<std::vector<int64_t>> begin_;       // [tables][shards, or 1 when copied] first row
  std::vector<std::vector<PlacedRange>> ranges_;  // [ranks + 1] ascending; last: replicated
  std::vector<int64_t> rows_;
  int64_t replicated_rows_ = 0;
};

}  // namespace hlite::embedding
