// Reads several byte ranges of a file at once, through an IoQueue. It widens a range to the
// alignment, cuts it into blocks, and continues the read of a block that the system cut short. For
// use by one thread.
//
//   range:   idle, start(), blocks in flight, finished, bytes(), release(), idle
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/core/io_queue.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::data {

struct ReadShape {
  int64_t block = int64_t{512} << 10;  // bytes of a read; a multiple of the alignment
  int64_t depth = 16;                  // maximum number of reads in flight
  int64_t alignment = 4096;            // of offsets, memory and sizes; a power of two
};

class RangeReader {
 public:
  // Has `ranges` buffers, each for a range of up to `max_bytes`. `file_bytes`: the file's size
  // when it was opened; bytes that were added since are never returned.
  RangeReader(std::string path, std::unique_ptr<IoQueue> queue, int64_t file_bytes,
              const ReadShape& shape, int64_t ranges, int64_t max_bytes);
  // Waits for the reads in flight, in queue_.
  ~RangeReader() = default;

  // Memory that one range takes.
  static int64_t buffer_bytes(const ReadShape& shape, int64_t max_bytes);

  // Begins to read bytes [offset, offset + bytes) of the file; the reads themselves begin in
  // poll(). REQUIRES: range is idle.
  void start(int64_t range, int64_t offset, int64_t bytes);
  // Starts reads up to the depth and handles completions. Waits for a completion, queue().wake() or
  // `timeout` (negative: without limit); may return before that.
  void poll(std::chrono::milliseconds timeout);
  // Returns true if all of the range has arrived, or will not.
  [[nodiscard]] bool finished(int64_t range) const;
  // The range's bytes, until release(). REQUIRES finished(). Throws FileError
  // "<path>: cannot read 4096 bytes at offset 123: <reason>", or
  // "<path>: truncated while reading: expected 1600 bytes, the file has 800 now".
  [[nodiscard]] std::span<const std::byte> bytes(int64_t range) const;
  void release(int64_t range);

  // Returns whether the file has grown since it was opened. Throws FileError if it is shorter.
  [[nodiscard]] bool has_grown() const;
  [[nodiscard]] IoQueue& queue() { return *queue_; }
  // Bytes that have arrived so far.
  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Range {
    HostMemory memory;
    std::byte* buffer = nullptr;           // aligned; holds [begin, end) of the file
    int64_t offset = 0, bytes = 0;         // requested
    int64_t begin = 0, end = 0, next = 0;  // aligned; blocks from `next` on have no read yet
    int64_t blocks = 0;                    // begun and not finished
    bool busy = false;
    int64_t failed_at = -1;  // offset of the first block that could not be read
    std::string failure;
  };
  struct Block {
    int64_t range = 0, offset = 0, bytes = 0;
    int idle_rounds = 0;  // consecutive reads that returned no bytes
  };

  void fill();
  void submit();
  void take(const IoCompletion& done);
  void fail(const Block& block, std::string failure);
  [[nodiscard]] std::string truncated(int64_t size) const;

  std::string path_;
  int64_t file_bytes_;
  ReadShape shape_;
  std::vector<Range> ranges_;
  std::vector<Block> blocks_;     // [depth]: tags are indices into it
  std::vector<size_t> unused_;    // blocks without a read
  std::vector<IoRequest> ready_;  // to be submitted, retries first
  std::vector<int64_t> order_;    // ranges that have blocks without a read, the oldest first
  std::vector<IoCompletion> done_;
  int64_t in_flight_ = 0;
  int64_t bytes_read_ = 0;
  int refused_ = 0;                 // consecutive calls that started no read
  std::unique_ptr<IoQueue> queue_;  // last: its reads end before the buffers do
};

}  // namespace hlite::data
