// DiskTier: the host's memory over a disk, by a RowCache whose lines the buffers are.
#pragma once

#include <utility>

#include "embedding/row_cache.h"
#include "embedding/row_tier.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

class DiskTier : public RowTier {
 public:
  DiskTier(std::vector<StorageTier> memories, const RowCacheOptions& options,
           RowCache::InitialWeights initial_weights)
      : RowTier(std::move(memories)),
        cache_bytes_(RowCache::memory_bytes(options.rows, options.lines, options.record_bytes())),
        cache_(options, std::move(initial_weights)) {}

  [[nodiscard]] const RowCache& cache() const { return cache_; }

  [[nodiscard]] int64_t bytes() const override { return cache_bytes_; }
  void attach(const Exec&, const UpdatedRows& lines) override { cache_.attach(lines); }
  void admit(const Exec& exec, Matrix<const uint32_t> rows, Matrix<uint32_t> lines, int64_t first,
             int64_t count, bool training) override {
    HLITE_CHECK(rows.data() == lines.data(), "rows and lines are two matrices");
    cache_.admit(exec, lines, first, count, training);
  }
  [[nodiscard]] bool reads_ahead() const override { return true; }
  void prefetch(const Exec& exec, Matrix<const uint32_t> rows, int64_t first,
                int64_t count) override {
    cache_.prefetch(exec, rows, first, count);
  }
  [[nodiscard]] RowOfLine row_of_line() const override { return cache_.row_of_line(); }
  void read(size_t part, std::span<const uint32_t> rows, void* out) override {
    cache_.read(part, rows, out);
  }
  void write(size_t part, std::span<const uint32_t> rows, const void* in) override {
    cache_.write(part, rows, in);
  }
  bool close_up(std::span<const uint32_t> from, std::span<const uint32_t> to,
                std::span<const uint32_t> evicted) override {
    cache_.close_up(from, to, evicted);
    return true;
  }
  [[nodiscard]] std::vector<uint32_t> touched() const override { return cache_.touched(); }

 protected:
  void count(std::vector<StorageTier>& memories) const override {
    RowCacheCounts& moved = memories.back().moved = cache_.counts();
    moved.read_bytes = cache_.log().read_bytes();
    moved.written_bytes = cache_.log().written_bytes();
  }

  const int64_t cache_bytes_;  // in addition to the lines
  RowCache cache_;
};

}  // namespace hlite::embedding
