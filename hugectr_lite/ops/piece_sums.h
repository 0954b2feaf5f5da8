// A sum over n elements on the CPU: piece by piece on all threads, the pieces added in their order.
// Where pieces end follows from n alone, so the bits do, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/block_sums.h"

namespace hlite::ops {

// The sum of sum_of(begin, end), a double, over the pieces. `workspace` of fewer than kBlockSums
// numbers: on one thread.
template <typename SumOf>
double piece_sum(const Exec& exec, int64_t n, Vector<double> workspace, SumOf&& sum_of) {
  constexpr int64_t kMin = 1 << 13;
  const int64_t piece = std::max(kMin, (n + kBlockSums - 1) / kBlockSums);
  const int64_t pieces = (n + piece - 1) / piece;
  const auto of = [&](int64_t i) { return sum_of(i * piece, std::min(n, (i + 1) * piece)); };
  double sum = 0;
  if (workspace.size() < kBlockSums) {
    for (int64_t i = 0; i < pieces; ++i) sum += of(i);
    return sum;
  }
  exec.threads().run(pieces, [&](int64_t i, int) { workspace.data()[i] = of(i); });
  for (int64_t i = 0; i < pieces; ++i) sum += workspace.data()[i];
  return sum;
}

// The sum of f(i) over [begin, end), in eight parts that a processor takes side by side.
template <typename F>
double sum_in_lanes(int64_t begin, int64_t end, F&& f) {
  constexpr int64_t kLanes = 8;
  double lane[kLanes] = {};
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lane[j] += f(i + j);
  for (; i < end; ++i) lane[0] += f(i);
  double sum = 0;
  for (const double part : lane) sum += part;
  return sum;
}

}  // namespace hlite::ops
