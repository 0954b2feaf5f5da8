#include "embedding/slot_layout.h"

#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

SlotLayout::SlotLayout(std::vector<int64_t> table_rows, int64_t row_width)
    : SlotLayout(table_rows, row_width, KeyLayout::one_hot(std::ssize(table_rows))) {
  complete = true;
}

SlotLayout::SlotLayout(std::vector<int64_t> table_rows, int64_t row_width, KeyLayout batch_keys,
                       Combiner how, int64_t first)
    : rows(std::move(table_rows)),
      width(row_width),
      keys(std::move(batch_keys)),
      first_slot(first),
      combiner(how) {
  if (width < 1) raise<ConfigError>("embedding: expected a vector size >= 1, found {}", width);
  HLITE_CHECK(first >= 0 && first + slots() <= keys.slots(), "{} tables from slot {} on of {}",
              slots(), first, keys.slots());
  offset.reserve(rows.size());
  for (size_t s = 0; s < rows.size(); ++s) {
    if (rows[s] < 1 || rows[s] > int64_t{kNoKey})
      raise<ConfigError>("embedding: table {}: expected 1 to 2^32 - 1 rows, found {}", s, rows[s]);
    offset.push_back(total_rows);
    total_rows += rows[s];
  }
}

SlotLayout SlotLayout::pooled(int64_t pool_rows) const {
  SlotLayout layout = *this;
  layout.rows.assign(rows.size(), pool_rows);
  layout.offset.assign(rows.size(), 0);
  layout.total_rows = pool_rows;
  return layout;
}

}  // namespace hlite::embedding
