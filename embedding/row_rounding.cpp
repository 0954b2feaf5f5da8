#include "embedding/row_rounding.h"

#include <bit>
#include <utility>

#include "embedding/tables_spec.h"

namespace hlite::embedding {

static_assert(std::endian::native == std::endian::little, "the halves of a word, in order");

RowRounding::RowRounding(uint64_t seed, const std::string& layer, int64_t tables,
                         NameOfRow name_of_row)
    : name_of_row_(std::move(name_of_row)) {
  for (int64_t t = 0; t < tables; ++t)
    seeds_.push_back(seed ^ random::stream_of(table_name(layer, t) + ".rounding"));
}

uint32_t RowRounding::draw(const TableRow& row, int64_t step, int64_t column) const {
  const RowDraws draws{seeds_[static_cast<size_t>(row.table)], row.key,
                       static_cast<uint64_t>(step)};
  const random::Block block = draws.block(static_cast<uint32_t>(column / 8));
  const uint32_t word = block.word[column % 8 / 2];
  return column % 2 == 0 ? word & 0xffffu : word >> 16;
}

}  // namespace hlite::embedding
