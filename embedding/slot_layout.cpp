#include "embedding/slot_layout.h"

#include <numeric>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

SlotLayout::SlotLayout(std::vector<int64_t> slot_rows, int64_t row_width)
    : SlotLayout(slot_rows, row_width, KeyLayout::one_hot(std::ssize(slot_rows))) {
  complete = true;
}

SlotLayout::SlotLayout(std::vector<int64_t> slot_rows, int64_t row_width, KeyLayout batch_keys,
                       Combiner how, int64_t first, std::vector<int64_t> tables)
    : rows(std::move(slot_rows)),
      table_of(std::move(tables)),
      width(row_width),
      keys(std::move(batch_keys)),
      first_slot(first),
      combiner(how) {
  if (width < 1) raise<ConfigError>("embedding: expected a vector size >= 1, found {}", width);
  HLITE_CHECK(first >= 0 && first + slots() <= keys.slots(), "{} slots from slot {} on of {}",
              slots(), first, keys.slots());
  if (table_of.empty()) {
    table_of.resize(rows.size());
    std::iota(table_of.begin(), table_of.end(), int64_t{0});
  }
  if (table_of.size() != rows.size())
    raise<ConfigError>("expected a table for each of {} slots, found {}", slots(), table_of.size());
  for (size_t s = 0; s < rows.size(); ++s) {
    if (rows[s] < 1 || rows[s] > int64_t{kNoKey})
      raise<ConfigError>("embedding: table {}: expected 1 to 2^32 - 1 rows, found {}", table_of[s],
                         rows[s]);
    const int64_t table = table_of[s];
    if (table < 0 || table > this->tables())
      raise<ConfigError>(
          "expected tables numbered 0, 1, ... in the order in which they first appear, so at most "
          "{} for slot {}, found {}",
          this->tables(), s, table);
    if (table == this->tables()) {
      table_rows.push_back(rows[s]);
      table_offset.push_back(total_rows);
      table_slots.emplace_back();
      total_rows += rows[s];
    }
    const auto t = static_cast<size_t>(table);
    if (rows[s] != table_rows[t])
      raise<ConfigError>(
          "expected the same number of rows for slots {} and {}, which share table {}, found {} "
          "and {}",
          table_slots[t][0], s, table, table_rows[t], rows[s]);
    table_slots[t].push_back(static_cast<int64_t>(s));
    offset.push_back(table_offset[t]);
  }
}

SlotLayout SlotLayout::pooled(int64_t pool_rows) const {
  SlotLayout layout = *this;
  layout.rows.assign(rows.size(), pool_rows);
  layout.offset.assign(rows.size(), 0);
  layout.table_rows.assign(table_rows.size(), pool_rows);
  layout.table_offset.assign(table_rows.size(), 0);
  layout.total_rows = pool_rows;
  return layout;
}

}  // namespace hlite::embedding
