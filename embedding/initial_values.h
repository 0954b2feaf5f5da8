// InitialValues: the values of a layer's table rows before they are trained, element by element, on
// the CPU and in kernels. table_init.h fills whole tables with the same numbers.
#pragma once

#include <cmath>
#include <cstdint>

#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/random.h"

namespace hlite::embedding {

// A table is initialized uniformly in [-bound, bound).
struct TableStream {
  uint64_t stream;  // of the random numbers
  float bound;
};

struct InitialValues {
  const TableStream* tables = nullptr;  // one for each table, in memory of the op's device
  uint64_t seed = 0;
  float state = 0;                     // initial value of every optimizer state
  FloatType type = FloatType::kFloat;  // that the tables have: values are rounded to it, to nearest

  // Column `column` of the row of a key of table `of`, `width` floats wide.
  [[nodiscard]] HLITE_HD float at(int64_t of, uint32_t key, int64_t width, int64_t column) const {
    const TableStream table = tables[of];
    const uint64_t index =
        uint64_t{key} * static_cast<uint64_t>(width) + static_cast<uint64_t>(column);
    const float u = random::uniform(random::word(seed, table.stream, index));
    return rounded_to(type, fmaf(2 * table.bound, u, -table.bound));
  }
};

}  // namespace hlite::embedding
