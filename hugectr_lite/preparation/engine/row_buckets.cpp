#include "hugectr_lite/preparation/engine/row_buckets.h"

#include <cstring>
#include <span>

namespace hlite::prep {

RowBuckets::RowBuckets(int64_t words, int64_t buckets, int64_t block_rows,
                       const std::string& scratch)
    : stored_words_(words + kRowNumberWords),
      block_rows_(block_rows),
      count_(static_cast<size_t>(buckets)),
      buckets_(std::make_unique<RowBucket[]>(count_)),
      blocks_(static_cast<size_t>(buckets * block_rows * stored_words_) * sizeof(uint32_t),
              "blocks of the row shuffle"),
      file_(PlacedFile::scratch(scratch)) {}

uint32_t* RowBuckets::block(const RowBucket& bucket) const {
  const int64_t index = &bucket - buckets_.get();
  return reinterpret_cast<uint32_t*>(blocks_.data()) + index * block_rows_ * stored_words_;
}

void RowBuckets::write_block(RowBucket& bucket) {
  const auto bytes = static_cast<size_t>(bucket.in_block * stored_words_) * sizeof(uint32_t);
  const int64_t offset = end_.fetch_add(static_cast<int64_t>(bytes));
  file_.write(offset, {reinterpret_cast<const std::byte*>(block(bucket)), bytes});
  bucket.extents.push_back({offset, bucket.in_block});
  bucket.in_block = 0;
}

void RowBuckets::add(int64_t index, const uint32_t* rows, int64_t first_row, const uint32_t* order,
                     int64_t count) {
  RowBucket& bucket = buckets_[static_cast<size_t>(index)];
  const int64_t words = stored_words_ - kRowNumberWords;
  const std::lock_guard lock(bucket.mutex);
  for (int64_t i = 0; i < count; ++i) {
    // Before and not after a row goes in: when writing failed, the block is still full.
    if (bucket.in_block == block_rows_) write_block(bucket);
    uint32_t* to = block(bucket) + bucket.in_block * stored_words_;
    const auto number = static_cast<uint64_t>(first_row + order[i]);
    to[0] = static_cast<uint32_t>(number);
    to[1] = static_cast<uint32_t>(number >> 32);
    std::memcpy(to + kRowNumberWords, rows + order[i] * words,
                static_cast<size_t>(words) * sizeof(uint32_t));
    ++bucket.in_block;
  }
  bucket.rows += count;
}

void RowBuckets::flush() {
  for (size_t i = 0; i < count_; ++i)
    if (buckets_[i].in_block > 0) write_block(buckets_[i]);
  blocks_ = HostMemory();
}

void RowBuckets::read(int64_t index, uint32_t* out, ThreadPool& pool) const {
  const RowBucket& bucket = buckets_[static_cast<size_t>(index)];
  std::vector<int64_t> first;  // row of each extent
  int64_t rows = 0;
  for (const Extent& extent : bucket.extents) {
    first.push_back(rows);
    rows += extent.rows;
  }
  pool.run(static_cast<int64_t>(first.size()), [&](int64_t i, int) {
    const Extent& extent = bucket.extents[static_cast<size_t>(i)];
    uint32_t* to = out + first[static_cast<size_t>(i)] * stored_words_;
    file_.read(extent.offset, std::as_writable_bytes(
                                  std::span(to, static_cast<size_t>(extent.rows * stored_words_))));
  });
}

}  // namespace hlite::prep
