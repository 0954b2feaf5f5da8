#include "embedding/row_placement.h"

#include <algorithm>

namespace hlite::embedding {

RowPlacement RowPlacement::by_category(const SlotLayout& layout, CategoryModel model) {
  HLITE_CHECK(model.categories() == layout.total_rows, "{} categories, {} rows", model.categories(),
              layout.total_rows);
  RowPlacement placement(layout);
  for (int r = 0; r < model.ranks(); ++r) placement.rows_.push_back(model.infrequent_rows(r));
  placement.replicated_rows_ = static_cast<int64_t>(model.frequent().size());
  placement.model_.emplace(std::move(model));
  return placement;
}

RowPlacement RowPlacement::by_table(const SlotLayout& layout, std::vector<std::vector<int>> shards,
                                    int ranks) {
  HLITE_CHECK(static_cast<int64_t>(shards.size()) == layout.tables() && ranks >= 1,
              "shards of {} tables, {} tables, {} ranks", shards.size(), layout.tables(), ranks);
  RowPlacement placement(layout);
  placement.rows_.assign(static_cast<size_t>(ranks), 0);
  placement.ranges_.resize(static_cast<size_t>(ranks) + 1);
  for (int64_t t = 0; t < layout.tables(); ++t) {
    const auto& on = shards[static_cast<size_t>(t)];
    const int64_t rows = layout.table_rows[static_cast<size_t>(t)];
    auto& begin = placement.begin_.emplace_back();
    if (on.empty()) {
      begin.push_back(placement.replicated_rows_);
      placement.ranges_.back().push_back({placement.replicated_rows_, t, 0, 1});
      placement.replicated_rows_ += rows;
    }
    const auto n = static_cast<int64_t>(on.size());
    for (int64_t i = 0; i < n; ++i) {
      const int rank = on[static_cast<size_t>(i)];
      HLITE_CHECK(rank >= 0 && rank < ranks, "table {} on rank {} of {}", t, rank, ranks);
      int64_t& held = placement.rows_[static_cast<size_t>(rank)];
      begin.push_back(held);
      const int64_t mine = (rows - i + n - 1) / n;
      if (mine > 0) placement.ranges_[static_cast<size_t>(rank)].push_back({held, t, i, n});
      held += mine;
    }
  }
  placement.shards_ = std::move(shards);
  return placement;
}

RowPlacement RowPlacement::by_key(const SlotLayout& layout, int ranks, int64_t capacity,
                                  KeyOwner by) {
  HLITE_CHECK(ranks >= 1 && capacity >= 1, "{} ranks, {} rows", ranks, capacity);
  RowPlacement placement(layout);
  placement.hashed_ = true;
  placement.owner_ = by;
  placement.rows_.assign(static_cast<size_t>(ranks), 0);
  for (int64_t t = 0; t < layout.tables(); ++t)
    for (int q = 0; q < ranks; ++q) {
      const int64_t keys = layout.table_rows[static_cast<size_t>(t)];
      int64_t& rows = placement.rows_[static_cast<size_t>(q)];
      if (by == KeyOwner::kByKey) rows += (keys + ranks - 1 - q) / ranks;
      if (by == KeyOwner::kByTable && t % ranks == q) rows += keys;
    }
  for (int64_t& rows : placement.rows_) rows = std::clamp<int64_t>(rows, 1, capacity);
  return placement;
}

TableRow RowPlacement::table_row(int rank, int64_t row) const {
  HLITE_CHECK(!hashed_, "row {} of rank {}: its owner alone knows its key", row, rank);
  if (model_) {
    const int64_t category = rank < 0 ? model_->frequent()[static_cast<size_t>(row)]
                                      : model_->infrequent_category(rank, row);
    const auto& offset = layout_.table_offset;
    const auto after = std::upper_bound(offset.begin(), offset.end(), category);
    return {after - offset.begin() - 1, static_cast<uint32_t>(category - after[-1])};
  }
  const auto& ranges = rank < 0 ? ranges_.back() : ranges_[static_cast<size_t>(rank)];
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), row,
                       [](int64_t at, const PlacedRange& r) { return at < r.begin; });
  HLITE_CHECK(after != ranges.begin(), "row {} of rank {}", row, rank);
  const PlacedRange& range = after[-1];
  return {range.table, static_cast<uint32_t>((row - range.begin) * range.shards + range.shard)};
}

std::vector<double> RowPlacement::key_share(int64_t table) const {
  const auto n = static_cast<double>(ranks());
  const bool even = model_ || (hashed_ && owner_ == KeyOwner::kByKey);
  std::vector<double> share(rows_.size(), even ? 1.0 / n : 0.0);
  if (even) return share;
  if (hashed_) {
    share[static_cast<size_t>(hashed_rank(owner_, table, 0, ranks()))] = 1;
    return share;
  }
  const auto& on = shards_[static_cast<size_t>(table)];
  for (const int rank : on)
    share[static_cast<size_t>(rank)] += 1.0 / static_cast<double>(on.size());
  return share;
}

}  // namespace hlite::embedding
