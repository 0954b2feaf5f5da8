// GatheredRows: a tensor that no step has written yet, as rows of another buffer. What makes the
// rows' numbers says so, and what reads the tensor makes it; neither knows the other.
#pragma once

#include <cstdint>

#include "hugectr_lite/plan/buffers.h"

namespace hlite::plan {

// Of a tensor [batch,n,V].
struct GatheredRows {
  BufferId table = kNoBuffer;    // float [rows,V]
  BufferId numbers = kNoBuffer;  // uint32 [batch,columns]; one that is no row's stands for zeros
  int64_t rows = 0, columns = 0;
  int64_t first_column = 0;     // of the n that are the tensor's
  double bytes_per_sample = 0;  // that are read of both
};

}  // namespace hlite::plan
