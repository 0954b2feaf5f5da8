// RowLog: records of one size in a file on a disk, for the rows of tables that do not fit in memory
// (row_cache.h).
//
// Records go into the file in the order they come, a segment of many at a time, so that writing
// costs their own bytes and no more; a record that is written again has a new place, and its old
// one is garbage. A segment without a live record is used again. Where garbage makes the file much
// larger than what lives in it, the live records of the emptiest segment are moved. (Rosenblum and
// Ousterhout 1992, "The Design and Implementation of a Log-Structured File System".)
//
// No record crosses a block of 4 KiB needlessly. Reads are of blocks, past the page cache, many at
// a time in the order of the file; prefetch() starts those of the next batch while this one is
// worked on. Written segments stay in memory until the disk has them.
//
// The file has no name once it is open: however the process ends, its disk space is released.
//
//   block     4 KiB, or the blocks that one larger record takes
//   place     number of a record: block * records of a block + index
//   segment   1 MiB of blocks, or one block if that is larger
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "hugectr_lite/core/io_queue.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::embedding {

struct RowLogOptions {
  std::string folder;  // on a local file system
  std::string name;    // the tables' name, for messages
  int64_t record_bytes = 0;
  int64_t max_bytes = 0;     // maximum file size; 0: the free space of the disk
  IoQueueFactory open = {};  // null: open_io_queue()
};

class RowLog {
 public:
  using Place = uint32_t;
  static constexpr int64_t kMaxPlaces = int64_t{1} << 31;
  // Called when the record of a row has moved. REQUIRES that the callee stores the new place.
  using Moved = std::function<void(uint32_t row, Place place)>;

  // Throws FileError where the folder takes no file.
  RowLog(RowLogOptions options, Moved moved);
  ~RowLog();
  RowLog(const RowLog&) = delete;
  RowLog& operator=(const RowLog&) = delete;

  // Appends the record of a row, which must have no other. May move other records. Throws FileError
  // when a write has failed or the file would become too large; so does every call after that.
  Place put(uint32_t row, const std::byte* record);
  // Drops the record. REQUIRES that there is one in the place.
  void drop(Place place);
  // The record is that of another row from now on.
  void rename(Place place, uint32_t row) { row_of_[place] = row; }

  struct Read {
    Place place;
    std::byte* to;  // [record_bytes]
  };
  // Waits for all of them. What prefetch() has read serves this call, and is let go of by it.
  void get(std::vector<Read> reads);
  // Starts reading the blocks that these records lie in, as many as the queue allows.
  void prefetch(std::vector<Place> places);

  // Bytes of the file, garbage included; its live records; bytes read and written so far.
  [[nodiscard]] int64_t file_bytes() const { return std::ssize(segments_) * segment_bytes_; }
  [[nodiscard]] int64_t live() const { return live_; }
  [[nodiscard]] int64_t read_bytes() const { return read_bytes_; }
  [[nodiscard]] int64_t written_bytes() const { return written_bytes_; }
  // Bytes of a block, which is what a read of a record takes; and the largest file of so many live
  // records, garbage included.
  [[nodiscard]] static int64_t block_bytes(int64_t record_bytes);
  [[nodiscard]] static int64_t largest_file(int64_t record_bytes, int64_t records);
  // Bytes of memory that it takes, but for 4 a record of the file.
  [[nodiscard]] static int64_t memory_bytes(int64_t record_bytes);

 private:
  struct LogSegment {
    int64_t live = 0;
    int pins = 0;     // blocks that are read or held
    int buffer = -1;  // in memory, until it is written
  };
  struct Staged {
    int64_t slot;
    bool arrived;
  };
  [[nodiscard]] int64_t block_of(Place place) const { return place / per_block_; }
  [[nodiscard]] int64_t segment_of(Place place) const { return place / per_segment_; }
  [[nodiscard]] std::byte* buffer(int index) const { return buffers_ + index * segment_bytes_; }
  [[nodiscard]] std::byte* stage(int64_t slot) const { return staging_ + slot * block_bytes_; }
  void check_usable() const;
  [[noreturn]] void fail(const std::string& message);
  void open_segment();
  void seal();
  void clean();
  void unused(int64_t segment);
  int take_buffer();
  bool start_block(int64_t block);
  void submit(const IoRequest& request);
  void reap_some();
  void release_staged();
  void finish(const IoCompletion& done);
  void copy_out(const Read& read, const std::byte* block) const;

  const RowLogOptions options_;
  const Moved moved_;
  const int64_t block_bytes_, per_block_, segment_bytes_, per_segment_;
  std::string path_, failure_;
  HostMemory memory_;
  std::byte *buffers_ = nullptr, *staging_ = nullptr;
  std::vector<int> free_buffers_;
  std::vector<int64_t> free_slots_;
  std::vector<LogSegment> segments_;
  std::set<int64_t> free_segments_;
  std::vector<uint32_t> row_of_;  // [places]
  int64_t filling_ = -1, filled_ = 0, live_ = 0, in_flight_ = 0;
  bool cleaning_ = false;
  std::unordered_map<int64_t, Staged> staged_;  // by block
  int64_t read_bytes_ = 0, written_bytes_ = 0;
  std::unique_ptr<IoQueue> queue_;  // last: it ends before the memory it works on
};

}  // namespace hlite::embedding
