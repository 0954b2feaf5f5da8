#include "data_reader/range_reader.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "hugectr_lite/core/error.h"

namespace hlite::data {
namespace {
constexpr std::chrono::milliseconds kRetryAfter{1};
constexpr int kMaxRefusals = 10'000;  // then the system has taken no read for 10 s
// A read that was cut short is continued. One that gets no further so many times never will.
constexpr int kMaxIdleRounds = 100;

int64_t round_down(int64_t n, int64_t unit) { return n / unit * unit; }
int64_t round_up(int64_t n, int64_t unit) { return round_down(n + unit - 1, unit); }

std::string cannot_read(const std::string& path, int64_t bytes, int64_t offset,
                        const std::string& why) {
  return fmt::format("{}: cannot read {} bytes at offset {}: {}", path, bytes, offset, why);
}

// Buffers begin and end with a page. A direct read into a page that something else is written to
// may miss its memory if the process is forked meanwhile (open(2), O_DIRECT), and snapshots fork.
int64_t unit(const ReadShape& shape) { return std::max<int64_t>(shape.alignment, 4096); }

// Buffer size for a range that begins anywhere between two aligned offsets.
int64_t buffer_size(const ReadShape& shape, int64_t max_bytes) {
  return round_up(max_bytes + shape.alignment - 1, unit(shape));
}
}  // namespace

int64_t RangeReader::buffer_bytes(const ReadShape& shape, int64_t max_bytes) {
  return buffer_size(shape, max_bytes) + unit(shape);
}

RangeReader::RangeReader(std::string path, std::unique_ptr<IoQueue> queue, int64_t file_bytes,
                         const ReadShape& shape, int64_t ranges, int64_t max_bytes)
    : path_(std::move(path)),
      file_bytes_(file_bytes),
      shape_(shape),
      ranges_(static_cast<size_t>(ranges)),
      blocks_(static_cast<size_t>(shape.depth)),
      done_(static_cast<size_t>(shape.depth)),
      queue_(std::move(queue)) {
  HLITE_CHECK(shape.depth >= 1 && shape.alignment >= 1 && shape.block >= shape.alignment &&
                  shape.block % shape.alignment == 0,
              "block {}, depth {}, alignment {}", shape.block, shape.depth, shape.alignment);
  for (Range& r : ranges_) {
    r.memory =
        HostMemory(static_cast<size_t>(buffer_bytes(shape, max_bytes)), "buffer of a file's bytes");
    const auto address = reinterpret_cast<uintptr_t>(r.memory.data());
    r.buffer = r.memory.data() + (-address & static_cast<uintptr_t>(unit(shape) - 1));
  }
  ready_.reserve(blocks_.size());
  order_.reserve(ranges_.size());
  for (size_t b = blocks_.size(); b-- > 0;) unused_.push_back(b);
}

void RangeReader::start(int64_t range, int64_t offset, int64_t bytes) {
  Range& r = ranges_[static_cast<size_t>(range)];
  HLITE_CHECK(!r.busy && offset >= 0 && bytes >= 0 && offset + bytes <= file_bytes_,
              "range {} [{}, {}) of {} bytes", range, offset, offset + bytes, file_bytes_);
  r.busy = true;
  r.offset = offset;
  r.bytes = bytes;
  r.begin = r.next = round_down(offset, shape_.alignment);
  r.end = bytes > 0 ? round_up(offset + bytes, shape_.alignment) : r.begin;
  HLITE_CHECK(r.buffer + (r.end - r.begin) <= r.memory.data() + r.memory.size(),
              "{} bytes in a buffer of {}", r.end - r.begin, r.memory.size());
  r.failed_at = -1;
  if (r.next < r.end) order_.push_back(range);
}

bool RangeReader::finished(int64_t range) const {
  const Range& r = ranges_[static_cast<size_t>(range)];
  return r.busy && r.blocks == 0 && (r.next == r.end || r.failed_at >= 0);
}

std::span<const std::byte> RangeReader::bytes(int64_t range) const {
  const Range& r = ranges_[static_cast<size_t>(range)];
  HLITE_CHECK(finished(range), "range {} is not finished", range);
  if (r.failed_at >= 0) raise<FileError>("{}", r.failure);
  return {r.buffer + (r.offset - r.begin), static_cast<size_t>(r.bytes)};
}

void RangeReader::release(int64_t range) {
  HLITE_CHECK(finished(range), "range {} is not finished", range);
  ranges_[static_cast<size_t>(range)].busy = false;
}

void RangeReader::fill() {
  while (!unused_.empty() && !order_.empty()) {
    Range& r = ranges_[static_cast<size_t>(order_.front())];
    if (r.failed_at < 0) {
      const size_t b = unused_.back();
      unused_.pop_back();
      const int64_t bytes = std::min(shape_.block, r.end - r.next);
      blocks_[b] = {order_.front(), r.next, bytes};
      ready_.push_back({r.next, r.buffer + (r.next - r.begin), bytes, b});
      ++r.blocks;
      r.next += bytes;
    }
    if (r.next == r.end || r.failed_at >= 0) order_.erase(order_.begin());
  }
}

void RangeReader::submit() {
  fill();
  if (ready_.empty()) return;
  const size_t n = queue_->submit(ready_);
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(n));
  in_flight_ += static_cast<int64_t>(n);
  refused_ = in_flight_ > 0 ? 0 : refused_ + 1;
  if (refused_ > kMaxRefusals)
    raise<FileError>("{}", cannot_read(path_, ready_[0].bytes, ready_[0].offset,
                                       "the system starts no asynchronous reads"));
}

void RangeReader::poll(std::chrono::milliseconds timeout) {
  submit();
  // Nothing in flight will wake us when the system takes no reads for now.
  if (in_flight_ == 0 && !ready_.empty() && timeout.count() != 0) timeout = kRetryAfter;
  const size_t n = queue_->reap(done_, timeout);
  in_flight_ -= static_cast<int64_t>(n);
  for (size_t i = 0; i < n; ++i) take(done_[i]);
  if (n > 0) submit();
}

void RangeReader::take(const IoCompletion& done) {
  const auto tag = static_cast<size_t>(done.tag);
  HLITE_CHECK(tag < blocks_.size(), "tag {} of {}", tag, blocks_.size());
  Block& b = blocks_[tag];
  Range& r = ranges_[static_cast<size_t>(b.range)];
  const int64_t wanted = std::min(b.offset + b.bytes, r.offset + r.bytes) - b.offset;
  const auto finish = [&] {
    --r.blocks;
    unused_.push_back(tag);
  };
  int64_t forward = 0;
  if (done.result >= 0) {
    HLITE_CHECK(done.result <= b.bytes, "read {} of {} bytes", done.result, b.bytes);
    bytes_read_ += done.result;
    if (done.result >= wanted) return finish();
    // The file may have ended; a signal or the device may have cut the read short.
    if (const int64_t size = queue_->file_size(); size < r.offset + r.bytes) {
      fail(b, truncated(size));
      return finish();
    }
    forward = round_down(done.result, shape_.alignment);
  } else if (done.result != -EINTR && done.result != -EAGAIN) {
    fail(b, cannot_read(path_, b.bytes, b.offset,
                        std::generic_category().message(static_cast<int>(-done.result))));
    return finish();
  }
  b.idle_rounds = forward > 0 ? 0 : b.idle_rounds + 1;
  if (r.failed_at >= 0 || b.idle_rounds > kMaxIdleRounds) {
    if (r.failed_at < 0)
      fail(b, cannot_read(path_, b.bytes, b.offset,
                          fmt::format("{} reads in a row got no further", kMaxIdleRounds)));
    return finish();
  }
  b.offset += forward;
  b.bytes -= forward;
  ready_.insert(ready_.begin(), {b.offset, r.buffer + (b.offset - r.begin), b.bytes, tag});
}

// If several blocks of a range fail, the failure at the lowest offset is reported.
void RangeReader::fail(const Block& block, std::string failure) {
  Range& r = ranges_[static_cast<size_t>(block.range)];
  if (r.failed_at >= 0 && r.failed_at <= block.offset) return;
  r.failed_at = block.offset;
  r.failure = std::move(failure);
}

std::string RangeReader::truncated(int64_t size) const {
  return fmt::format("{}: truncated while reading: expected {} bytes, the file has {} now", path_,
                     file_bytes_, size);
}

bool RangeReader::has_grown() const {
  const int64_t size = queue_->file_size();
  if (size < file_bytes_) raise<FileError>("{}", truncated(size));
  return size > file_bytes_;
}

}  // namespace hlite::data
