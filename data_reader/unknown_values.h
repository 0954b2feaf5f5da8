// Compares the share of categorical values without an id with that of the training rows. A column
// that is written in another way ("212" in place of "u00212") has only unknown values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/manifest.h"

namespace hlite::data {

// Counts over some rows, for each categorical column.
struct UnknownValues {
  int64_t rows = 0;
  std::vector<int64_t> missing;  // empty fields
  std::vector<int64_t> unknown;  // others with a value that the vocabulary does not have

  explicit UnknownValues(size_t columns = 0) : missing(columns), unknown(columns) {}
  void add(const UnknownValues& other);
};

// Says which shares of the rows at `place` are unknown and missing (with `summary`), warns where a
// column has many more of either than the training rows (`training`, statistics of `training_rows`
// rows). Throws DataError where a column's unknown share is above `most`.
void report_unknown(const UnknownValues& found, const std::string& place,
                    std::span<const ManifestColumn> training, int64_t training_rows,
                    double most = 1, bool summary = true);

}  // namespace hlite::data
