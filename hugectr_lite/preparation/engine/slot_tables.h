// Slots that share a table. `slot_tables` is the table of each slot, counted from 0 in the order in
// which they first appear; an empty one gives each slot a table of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hlite::prep {

// The slots of each table, ascending.
inline std::vector<std::vector<int>> slots_of_tables(int slots,
                                                     std::span<const int64_t> slot_tables) {
  std::vector<std::vector<int>> of_tables;
  for (int slot = 0; slot < slots; ++slot) {
    const size_t table = slot_tables.empty()
                             ? static_cast<size_t>(slot)
                             : static_cast<size_t>(slot_tables[static_cast<size_t>(slot)]);
    if (table == of_tables.size()) of_tables.emplace_back();
    of_tables[table].push_back(slot);
  }
  return of_tables;
}

}  // namespace hlite::prep
