// Histories in a batch: of the rows of a sample in [B,n,W], those at the front are valid.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// How many of a sample's n rows are. lengths [B]; null: all.
HLITE_HD inline int64_t valid_rows(const Vector<const float>& lengths, int64_t sample, int64_t n) {
  if (!lengths.data()) return n;
  const float length = lengths.data()[sample];
  if (length >= static_cast<float>(n)) return n;
  return length > 0 ? static_cast<int64_t>(length) : 0;
}

}  // namespace hlite::ops
