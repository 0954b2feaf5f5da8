// What every source of the samples of a NormShape has to do, whatever its format.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "data_reader/batch_source.h"
#include "tests/data_reader/norm_file.h"
#include "tests/support/catch.h"

namespace hlite::test {

inline int64_t total(const std::vector<int64_t>& samples) {
  int64_t n = 0;
  for (const int64_t s : samples) n += s;
  return n;
}

inline bool is_batch(const NormShape& shape, const data::HostBatch& b, int64_t first,
                     int64_t size) {
  bool same = b.size == size && (size == 0 || b.first_sample == first);
  for (int64_t i = 0; same && i < size; ++i) same &= is_norm_sample(shape, b, i, first + i);
  return same;
}
// Whether the next batch is samples [first, first + size).
inline bool next_is(data::BatchSource& source, const NormShape& shape, int64_t first,
                    int64_t size) {
  return is_batch(shape, source.next(), first, size);
}

// Two epochs and more of n samples.
inline void check_epochs(data::BatchSource& source, const NormShape& shape, int64_t n,
                         int64_t batch) {
  CHECK(source.samples() == n);
  CHECK(source.batch_size() == batch);
  const int64_t batches = (n + batch - 1) / batch;
  CHECK(source.batches_per_epoch() == batches);
  bool exact = true;
  for (int64_t p = 0; p < std::min<int64_t>(3 * batches, 2 * batches + 20); ++p) {
    CHECK(source.position() == p);
    const int64_t first = p % batches * batch;
    exact &= next_is(source, shape, first, std::min(batch, n - first));
  }
  CHECK(exact);
  CHECK(source.bytes_read() > 0);
}

// open(options) gives a source of n samples in batches of `batch`: it starts at every `stride`th
// batch, and ends when it does not repeat.
template <typename Open>
void check_starts_and_ends(const NormShape& shape, int64_t n, int64_t batch, int64_t stride,
                           const Open& open) {
  const int64_t batches = (n + batch - 1) / batch;
  for (int64_t start = 0; start <= 2 * batches; start += stride) {
    const auto source = open(data::SourceOptions{.start_batch = start});
    CHECK(source->position() == start);
    bool exact = true;
    for (int64_t p = start; p < start + 3; ++p) {
      const int64_t first = p % batches * batch;
      exact &= next_is(*source, shape, first, std::min(batch, n - first));
    }
    CHECK(exact);
  }
  for (const bool resident : {false, true}) {
    const auto source = open(data::SourceOptions{.repeat = false, .resident = resident});
    std::vector<const data::HostBatch*> all;
    for (int64_t p = 0; p < batches; ++p) {
      all.push_back(&source->next());
      CHECK(all.back()->size == std::min(batch, n - p * batch));
    }
    CHECK(source->next().size == 0);
    CHECK(source->next().size == 0);
    CHECK(source->position() == batches);
    if (!resident) continue;
    CHECK(std::ssize(source->memory()) == batches);
    bool exact = true;
    for (int64_t p = 0; p < batches; ++p)
      exact &=
          is_batch(shape, *all[static_cast<size_t>(p)], p * batch, std::min(batch, n - p * batch));
    CHECK(exact);
  }
  // One that is not read to the end, or at all.
  open(data::SourceOptions{});
  open(data::SourceOptions{.start_batch = batches - 1})->next();
}

// The same for three ranks' shards of every batch.
template <typename Open>
void check_shards(const NormShape& shape, int64_t n, int64_t batch, const Open& open) {
  const int64_t batches = (n + batch - 1) / batch;
  for (int64_t rank = 0; rank < 3; ++rank) {
    const auto source = open(data::SourceOptions{.shard = {rank, 3}});
    CHECK(source->samples() == n);
    for (int64_t p = 0; p < 2 * batches + 2; ++p) {
      const auto rows = data::rows_of_batch(p % batches, n, batch, {rank, 3});
      CHECK(next_is(*source, shape, rows.first_sample, rows.size));
    }
  }
}

}  // namespace hlite::test
