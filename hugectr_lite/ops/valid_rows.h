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

// Where the rows of histories lie without padding between them, on the CPU: the last rows of each
// sample behind those of the one before.
struct PackedRows {
  Vector<const int64_t> offsets = {};  // [B+1]: where each sample's begin; null: there is padding
  Vector<const int64_t> firsts = {};   // [B]: which row of its history a sample's first one is
  [[nodiscard]] HLITE_HD int64_t begin(int64_t sample, int64_t n) const {
    return offsets.data() ? offsets.data()[sample] : sample * n;
  }
  // Of n with padding.
  [[nodiscard]] HLITE_HD int64_t count(int64_t sample, int64_t n) const {
    return offsets.data() ? offsets.data()[sample + 1] - offsets.data()[sample] : n;
  }
  [[nodiscard]] HLITE_HD int64_t first(int64_t sample) const {
    return firsts.data() ? firsts.data()[sample] : 0;
  }
};

}  // namespace hlite::ops
