// Whether a batch is what raw_file.h says its samples hold.
#pragma once

#include "data_reader/batch_source.h"
#include "tests/data_reader/raw_file.h"

namespace hlite::test {

// Checks that every value of the batch is that of its samples, and that nothing follows them.
inline bool is_right(const RawShape& shape, const data::HostBatch& b) {
  const KeyLayout layout = shape.layout();
  for (int64_t i = 0; i < b.labels.dim(0); ++i) {
    const bool used = i < b.size;
    const int64_t sample = b.first_sample + i;
    if (b.labels(i, 0) != (used ? static_cast<float>(label_of(sample)) : 0.f)) return false;
    for (int64_t d = 0; d < b.dense.dim(1); ++d)
      if (b.dense(i, d) != (used && d < shape.dense ? feature_of(shape, sample, d) : 0.f))
        return false;
    for (int64_t c = 0; c < b.keys.dim(1); ++c) {
      const int64_t rows = shape.slot_rows[static_cast<size_t>(layout.slot_of(c))];
      if (b.keys(i, c) != (used ? key_of(sample, c, rows) : 0u)) return false;
    }
  }
  return true;
}

}  // namespace hlite::test
