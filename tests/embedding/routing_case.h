// Random tables, placements and batches, and what routing has to make of them: one oracle for the
// CPU and GPUs.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "embedding/row_placement.h"
#include "hugectr_lite/core/no_key.h"
#include "hugectr_lite/core/random.h"

namespace hlite::test {

// Slots of other layers come before and after the layer's.
class RoutingCase {
 public:
  static constexpr int64_t kMaxSamples = 97;

  RoutingCase(uint64_t round, int64_t width)
      : round_(round),
        before_(draw(2)),
        rows_(draw_rows()),
        layout_(draw_hotness()),
        tables_(rows_, width, layout_, embedding::Combiner::kSum, before_, table_of_),
        ranks_(1 + static_cast<int>(draw(round == 5 ? 32 : 7))),
        placement_(draw_placement()) {}

  [[nodiscard]] const embedding::SlotLayout& tables() const { return tables_; }
  [[nodiscard]] const embedding::RowPlacement& placement() const { return placement_; }
  // The same tables as hashed tables.
  [[nodiscard]] embedding::RowPlacement hashed_placement() const {
    return embedding::RowPlacement::by_key(tables_, ranks_, tables_.total_rows,
                                           static_cast<embedding::KeyOwner>(round_ % 2));
  }
  int64_t draw(uint32_t below) {
    return static_cast<int64_t>(random::word(23, round_, drawn_++) % below);
  }
  Tensor<uint32_t, 2> keys(int64_t batch) {
    Tensor<uint32_t, 2> keys(batch, layout_.columns);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t c = 0; c < layout_.columns; ++c) {
        const auto slot = static_cast<size_t>(layout_.slot_of(c));
        const size_t s = slot - static_cast<size_t>(before_);
        const bool own = s < rows_.size();
        const auto below = own ? static_cast<uint32_t>(rows_[s]) : 7;
        keys.view()(b, c) = own && layout_.hotness[slot] > 1 && draw(4) == 0
                                ? kNoKey
                                : static_cast<uint32_t>(draw(below) * (draw(2) ? 1 : 0));
      }
    return keys;
  }

 private:
  // In some rounds slots share tables.
  std::vector<int64_t> draw_rows() {
    std::vector<int64_t> rows(static_cast<size_t>(1 + draw(5)));
    std::vector<int64_t> of_table;
    for (auto& r : rows) {
      const bool shares = round_ % 4 >= 2 && !of_table.empty() && draw(2);
      const int64_t table =
          shares ? draw(static_cast<uint32_t>(of_table.size())) : std::ssize(of_table);
      if (!shares) of_table.push_back(1 + draw(draw(2) ? 5 : 3000));
      r = of_table[static_cast<size_t>(table)];
      table_of_.push_back(table);
    }
    return rows;
  }
  std::vector<int64_t> draw_hotness() {
    std::vector<int64_t> hotness(static_cast<size_t>(before_) + rows_.size() + 1, 2);
    for (size_t s = 0; s < rows_.size(); ++s)
      hotness[static_cast<size_t>(before_) + s] = round_ % 2 ? 1 : 1 + draw(round_ == 3 ? 100 : 4);
    return hotness;
  }
  embedding::RowPlacement draw_placement() {
    std::vector<int64_t> seen;
    for (int i = 0; i < 300; ++i) seen.push_back(draw(30) * draw(30) % tables_.total_rows);
    std::vector<std::vector<int>> shards(static_cast<size_t>(tables_.tables()));
    for (auto& on : shards)
      for (int q = 0; q < ranks_; ++q)
        if (draw(2)) on.push_back(q);
    if (round_ % 2) return embedding::RowPlacement::by_table(tables_, shards, ranks_);
    return embedding::RowPlacement::by_category(
        tables_,
        embedding::CategoryModel(tables_, ranks_, embedding::FrequencyStatistics::of_lookups(seen),
                                 3, tables_.total_rows));
  }

  const uint64_t round_;
  uint64_t drawn_ = 0;
  const int64_t before_;
  std::vector<int64_t> table_of_;
  const std::vector<int64_t> rows_;
  const KeyLayout layout_;
  const embedding::SlotLayout tables_;
  const int ranks_;
  const embedding::RowPlacement placement_;
};

// By the definition, with sets and maps.
struct ExpectedRoute {
  struct Row {
    int rank = -1;                      // that lists it; -1: a replicated row
    int64_t at = 0;                     // in its list; of a replicated one its number
    std::vector<int64_t> samples = {};  // that look it up, one entry a lookup
  };
  std::vector<std::map<uint32_t, Row>> rows;  // [tables] by key
  std::vector<std::vector<uint32_t>> lists;   // [ranks]
  std::vector<uint32_t> replicated;           // ascending

  ExpectedRoute(const embedding::RowPlacement& placement, Matrix<const uint32_t> keys)
      : lists(static_cast<size_t>(placement.ranks())) {
    const embedding::SlotLayout& layout = placement.layout();
    std::set<uint32_t> unique;
    for (int64_t t = 0; t < layout.tables(); ++t) {
      auto& of_table = rows.emplace_back();
      for (int64_t b = 0; b < keys.dim(0); ++b)
        for (const int64_t s : layout.table_slots[static_cast<size_t>(t)])
          for (int64_t c = layout.column(s); c < layout.column(s) + layout.hotness(s); ++c)
            if (keys(b, c) != kNoKey) of_table[keys(b, c)].samples.push_back(b);
      for (auto& [key, row] : of_table) {
        const embedding::RowPlace place = placement.locate(t, key);
        row.rank = place.rank;
        row.at = place.row;
        if (place.rank < 0) {
          unique.insert(place.row);
          continue;
        }
        auto& list = lists[static_cast<size_t>(place.rank)];
        row.at = std::ssize(list);
        list.push_back(place.row);
      }
    }
    replicated.assign(unique.begin(), unique.end());
  }
  [[nodiscard]] int64_t longest() const {
    int64_t most = 0;
    for (const auto& list : lists) most = std::max(most, std::ssize(list));
    return most;
  }
};

}  // namespace hlite::test
