// Rows in a random order that a seed decides, in bounded memory.
//
// The order is the one of sorting by shuffle_key(seed, row), ties by row: it depends on the seed
// and on the number of rows alone, not on memory or threads. Rows that fit into memory are sorted
// there. Others are dealt by the top bits of their keys into buckets, which lie in blocks of one
// nameless scratch file (the row and 8 bytes more for each); then bucket after bucket is read back
// and sorted.
#pragma once

#include <cstdint>
#include <functional>

#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/row_source.h"

namespace hlite::prep {

// Philox keyed by the seed; two keys a block.
inline uint64_t shuffle_key(uint64_t seed, int64_t row) {
  constexpr uint64_t kStream = 0x526f77536875666c;  // "RowShufl"
  const auto number = static_cast<uint64_t>(row);
  const random::Block block = random::block(seed, kStream, number / 2);
  const uint64_t at = number % 2 * 2;
  return uint64_t{block.word[at]} << 32 | block.word[at + 1];
}

// Calls take(piece) from the calling thread with the pieces of the shuffled rows, in order; a piece
// lives for the call. Keeps to the memory, a sample error of the buckets' sizes aside, and reports
// no row as done, now and then while rows are dealt. Throws ConfigError when the memory is too
// little even for buckets, FileError of the source or the scratch file.
void shuffle_rows(const RowSource& rows, uint64_t seed, const SplitResources& resources,
                  ThreadPool& pool, const std::function<void(const RowSource& piece)>& take);

}  // namespace hlite::prep
