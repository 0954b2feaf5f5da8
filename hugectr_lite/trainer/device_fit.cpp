#include "hugectr_lite/trainer/device_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"

namespace hlite::trainer {

std::string largest_tables(std::vector<TableSize> tables) {
  constexpr size_t kNamed = 3;
  std::stable_sort(tables.begin(), tables.end(),
                   [](const TableSize& a, const TableSize& b) { return a.bytes > b.bytes; });
  tables.resize(std::min(tables.size(), kNamed));
  std::vector<std::string> texts;
  for (const TableSize& t : tables)
    texts.push_back(fmt::format("{} ({} rows, {})", t.name, t.rows, bytes_text(t.bytes)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void require_device_memory(const cuda::Backend& gpu, int64_t needed,
                           const std::vector<TableSize>& tables) {
  int64_t free = 0, total = 0;
  gpu.memory_info(&free, &total);
  if (needed <= free) return;
  raise<DeviceError>(
      "device memory: {} needed, {} of {} free, {} missing; the largest tables: {}; smaller "
      "tables, a smaller batch or --device cpu may help",
      bytes_text(needed), bytes_text(free), bytes_text(total), bytes_text(needed - free),
      largest_tables(tables));
}

}  // namespace hlite::trainer
