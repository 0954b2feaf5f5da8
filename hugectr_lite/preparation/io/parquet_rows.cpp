#include "hugectr_lite/preparation/io/parquet_rows.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {

data::parquet::Piece ParquetRows::next(int64_t most) {
  const data::parquet::Piece piece = cursor_.next(most);
  const int64_t there =
      piece.definition == nullptr
          ? piece.levels
          : std::count(piece.definition, piece.definition + piece.levels, max_defined_);
  if (piece.levels == 0) fail(rows_, "a row, found the end of the column");
  if (there != piece.values)
    fail(rows_, fmt::format("{} values in a page, found {}", there, piece.values));
  rows_ += piece.levels;
  return piece;
}

void ParquetRows::skip(int64_t rows) {
  constexpr int64_t kAtOnce = 4096;
  while (rows > 0) rows -= next(std::min(rows, kAtOnce)).levels;
}

void ParquetRows::fail(int64_t row, const std::string& expected) const {
  raise<DataError>("{}, row {}: expected {}", cursor_.place(), first_row_ + row, expected);
}

}  // namespace hlite::prep
