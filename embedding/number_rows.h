// Rows of keys, for tables that are not hashed.
#pragma once

#include "embedding/device_row_args.h"
#include "hugectr_lite/core/exec.h"

namespace hlite::embedding {

// rows[b, c] = the number of the key's row among all rows of the layer, or kNoRow. Leaves other
// layers' columns alone. On a GPU `check` records keys beyond their tables.
void number_rows(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                 Matrix<uint32_t> rows, const KeyRecorder& check = {});

}  // namespace hlite::embedding
