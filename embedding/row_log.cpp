#include "embedding/row_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kBlock = 4096, kSegment = int64_t{1} << 20;
// Segments in memory: one is filled, the others are on their way to the disk.
constexpr int kBuffers = 8;
constexpr int64_t kStagedBytes = int64_t{16} << 20;
constexpr int64_t kDepth = 256;
// Dead records that the file may hold per live one, and further segments.
constexpr double kGarbage = 0.5;
constexpr int64_t kSpareSegments = 2 * kBuffers;
constexpr uint32_t kDead = 0xffffffffu;  // in place of the row of a dead record
// Tags of requests: a block that is read, or a buffer that is written.
constexpr uint64_t kWriteTag = uint64_t{1} << 63;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t block_bytes_of(int64_t record) {
  return record > kBlock ? round_up(record, kBlock) : kBlock;
}
int64_t segment_bytes_of(int64_t record) {
  const int64_t block = block_bytes_of(record);
  return std::max<int64_t>(1, kSegment / block) * block;
}
int64_t staged_blocks(int64_t record) {
  return std::max(kDepth, kStagedBytes / block_bytes_of(record));
}

std::string reason(int64_t error) {
  return std::generic_category().message(static_cast<int>(error));
}

// An empty file in the folder that no other process opens.
std::string make_file(const RowLogOptions& options) {
  std::string path = options.folder + "/.hugectr_lite-rows-XXXXXX";
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0)
    raise<FileError>("{}: cannot make a file for rows of {}: {}", options.folder, options.name,
                     reason(errno));
  ::close(fd);
  return path;
}

}  // namespace

int64_t RowLog::block_bytes(int64_t record) { return block_bytes_of(record); }

int64_t RowLog::largest_file(int64_t record, int64_t records) {
  const int64_t block = block_bytes_of(record), of_segment = segment_bytes_of(record),
                held = of_segment / block * (block / record);
  const auto live = static_cast<double>((records + held - 1) / held);
  return (static_cast<int64_t>(std::ceil(live * (1 + kGarbage))) + kSpareSegments) * of_segment;
}

int64_t RowLog::memory_bytes(int64_t record) {
  return kBuffers * segment_bytes_of(record) + staged_blocks(record) * block_bytes_of(record) +
         kBlock;
}

RowLog::RowLog(RowLogOptions options, Moved moved)
    : options_(std::move(options)),
      moved_(std::move(moved)),
      block_bytes_(block_bytes_of(options_.record_bytes)),
      per_block_(block_bytes_ / options_.record_bytes),
      segment_bytes_(segment_bytes_of(options_.record_bytes)),
      per_segment_(segment_bytes_ / block_bytes_ * per_block_),
      memory_(static_cast<size_t>(memory_bytes(options_.record_bytes)), "rows on their way") {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  buffers_ = memory_.data() + (-address & static_cast<uintptr_t>(kBlock - 1));
  staging_ = buffers_ + kBuffers * segment_bytes_;
  for (int i = kBuffers; i-- > 0;) free_buffers_.push_back(i);
  for (int64_t i = staged_blocks(options_.record_bytes); i-- > 0;) free_slots_.push_back(i);
  path_ = make_file(options_);
  const IoQueueOptions how{.depth = kDepth, .alignment = kBlock, .writable = true};
  try {
    queue_ = options_.open ? options_.open(path_, how) : open_io_queue(path_, how);
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
  ::unlink(path_.c_str());
}

// The queue waits for what is in flight.
RowLog::~RowLog() = default;

void RowLog::check_usable() const {
  if (!failure_.empty()) throw FileError(failure_);
}

void RowLog::fail(const std::string& message) {
  failure_ = fmt::format("{}: rows of {}: {}", options_.folder, options_.name, message);
  throw FileError(failure_);
}

// ---- Requests ----

void RowLog::submit(const IoRequest& request) {
  while (in_flight_ == kDepth) reap_some();
  while (queue_->submit(std::span(&request, 1)) == 0) {
    if (in_flight_ > 0)
      reap_some();
    else
      ::usleep(1000);  // the system's queue is full with requests that are not ours to wait for
  }
  ++in_flight_;
}

void RowLog::reap_some() {
  IoCompletion done[64];
  const size_t n = queue_->reap(done, IoQueue::kForever);
  in_flight_ -= static_cast<int64_t>(n);
  for (size_t i = 0; i < n; ++i) finish(done[i]);
}

void RowLog::finish(const IoCompletion& done) {
  const bool writes = (done.tag & kWriteTag) != 0;
  const auto number = static_cast<int64_t>(done.tag & ~kWriteTag);
  const int64_t expected = writes ? segment_bytes_ : block_bytes_;
  if (done.result != expected) {
    const char* const verb = writes ? "write" : "read";
    const int64_t offset = number * expected;
    if (done.result < 0)
      fail(fmt::format("cannot {} {} bytes at offset {}: {}", verb, expected, offset,
                       reason(-done.result)));
    fail(fmt::format("cannot {} {} bytes at offset {}: {} bytes, and no more", verb, expected,
                     offset, done.result));
  }
  (writes ? written_bytes_ : read_bytes_) += expected;
  if (!writes) {
    staged_.at(number).arrived = true;
    return;
  }
  LogSegment& segment = segments_[static_cast<size_t>(number)];
  free_buffers_.push_back(std::exchange(segment.buffer, -1));
  unused(number);
}

// ---- Writing ----

void RowLog::unused(int64_t segment) {
  const LogSegment& of = segments_[static_cast<size_t>(segment)];
  if (of.live == 0 && of.pins == 0 && of.buffer < 0 && segment != filling_)
    free_segments_.insert(segment);
}

int RowLog::take_buffer() {
  while (free_buffers_.empty()) reap_some();
  const int index = free_buffers_.back();
  free_buffers_.pop_back();
  return index;
}

void RowLog::open_segment() {
  const int index = take_buffer();
  if (free_segments_.empty()) {
    const int64_t bytes = file_bytes() + segment_bytes_;
    if (options_.max_bytes > 0 && bytes > options_.max_bytes)
      fail(
          fmt::format("expected at most {} bytes, as solver.embedding_memory.disk_gb says, found "
                      "{} live records of {} bytes that need more",
                      options_.max_bytes, live_, options_.record_bytes));
    if ((std::ssize(segments_) + 1) * per_segment_ > kMaxPlaces)
      fail(fmt::format("expected at most {} records, found more", kMaxPlaces));
    free_segments_.insert(std::ssize(segments_));
    segments_.emplace_back();
    row_of_.resize(row_of_.size() + static_cast<size_t>(per_segment_), kDead);
  }
  filling_ = *free_segments_.begin();
  free_segments_.erase(free_segments_.begin());
  segments_[static_cast<size_t>(filling_)].buffer = index;
  filled_ = 0;
  if (!cleaning_) clean();
}

// Moves what lives in the emptiest segments until the file holds little garbage.
void RowLog::clean() {
  const auto wanted = [&] {
    return kSpareSegments +
           static_cast<int64_t>(static_cast<double>(live_) * (1 + kGarbage)) / per_segment_;
  };
  cleaning_ = true;
  std::vector<std::byte> record(static_cast<size_t>(options_.record_bytes));
  while (std::ssize(segments_) - std::ssize(free_segments_) > wanted()) {
    int64_t emptiest = -1;
    for (int64_t s = 0; s < std::ssize(segments_); ++s) {
      const LogSegment& of = segments_[static_cast<size_t>(s)];
      if (of.live > 0 && of.pins == 0 && of.buffer < 0 &&
          (emptiest < 0 || of.live < segments_[static_cast<size_t>(emptiest)].live))
        emptiest = s;
    }
    if (emptiest < 0) break;
    std::vector<Place> live;
    for (int64_t i = 0; i < per_segment_; ++i)
      if (const int64_t place = emptiest * per_segment_ + i;
          row_of_[static_cast<size_t>(place)] != kDead)
        live.push_back(static_cast<Place>(place));
    std::vector<std::byte> records(live.size() * record.size());
    std::vector<Read> reads;
    for (size_t i = 0; i < live.size(); ++i)
      reads.push_back({live[i], records.data() + i * record.size()});
    get(std::move(reads));
    for (size_t i = 0; i < live.size(); ++i) {
      const uint32_t row = row_of_[live[i]];
      drop(live[i]);
      moved_(row, put(row, records.data() + i * record.size()));
    }
  }
  cleaning_ = false;
}

// Sends the segment that is full on its way.
void RowLog::seal() {
  const int64_t segment = std::exchange(filling_, -1);
  submit({.offset = segment * segment_bytes_,
          .buffer = buffer(segments_[static_cast<size_t>(segment)].buffer),
          .bytes = segment_bytes_,
          .tag = kWriteTag | static_cast<uint64_t>(segment),
          .writes = true});
}

RowLog::Place RowLog::put(uint32_t row, const std::byte* record) {
  check_usable();
  if (filling_ < 0) open_segment();
  const int64_t at = filled_++;
  LogSegment& segment = segments_[static_cast<size_t>(filling_)];
  std::memcpy(buffer(segment.buffer) + at / per_block_ * block_bytes_ +
                  at % per_block_ * options_.record_bytes,
              record, static_cast<size_t>(options_.record_bytes));
  const auto place = static_cast<Place>(filling_ * per_segment_ + at);
  row_of_[place] = row;
  ++segment.live;
  ++live_;
  if (filled_ == per_segment_) seal();
  return place;
}

void RowLog::drop(Place place) {
  HLITE_CHECK(place < row_of_.size() && row_of_[place] != kDead, "{}: no record at {}",
              options_.name, place);
  const int64_t segment = segment_of(place);
  row_of_[place] = kDead;
  --segments_[static_cast<size_t>(segment)].live;
  --live_;
  unused(segment);
}

// ---- Reading ----

void RowLog::copy_out(const Read& read, const std::byte* block) const {
  std::memcpy(read.to, block + read.place % per_block_ * options_.record_bytes,
              static_cast<size_t>(options_.record_bytes));
}

// Returns false if there is no space.
bool RowLog::start_block(int64_t block) {
  if (free_slots_.empty()) return false;
  const int64_t slot = free_slots_.back();
  free_slots_.pop_back();
  staged_.emplace(block, Staged{slot, false});
  ++segments_[static_cast<size_t>(block * per_block_ / per_segment_)].pins;
  submit({.offset = block * block_bytes_,
          .buffer = stage(slot),
          .bytes = block_bytes_,
          .tag = static_cast<uint64_t>(block)});
  return true;
}

void RowLog::release_staged() {
  for (const auto& [block, staged] : staged_) {
    while (!staged.arrived) reap_some();
    free_slots_.push_back(staged.slot);
    const int64_t segment = block * per_block_ / per_segment_;
    --segments_[static_cast<size_t>(segment)].pins;
    unused(segment);
  }
  staged_.clear();
}

void RowLog::get(std::vector<Read> reads) {
  check_usable();
  std::sort(reads.begin(), reads.end(),
            [](const Read& a, const Read& b) { return a.place < b.place; });
  const auto served = [&](const Read& read) {  // from memory
    const LogSegment& segment = segments_[static_cast<size_t>(segment_of(read.place))];
    if (segment.buffer < 0) return false;
    copy_out(read, buffer(segment.buffer) +
                       (block_of(read.place) % (per_segment_ / per_block_)) * block_bytes_);
    return true;
  };
  for (size_t begin = 0, end = 0; begin < reads.size(); begin = end) {
    // Starts as many reads as slots are free; release_staged() frees those of prefetched blocks.
    for (; end < reads.size(); ++end) {
      if (served(reads[end])) {
        reads[end].to = nullptr;
        continue;
      }
      if (!staged_.contains(block_of(reads[end].place)) && !start_block(block_of(reads[end].place)))
        break;
    }
    for (size_t i = begin; i < end; ++i) {
      if (!reads[i].to) continue;
      const Staged& staged = staged_.at(block_of(reads[i].place));
      while (!staged.arrived) reap_some();
      copy_out(reads[i], stage(staged.slot));
    }
    release_staged();
  }
  release_staged();
}

void RowLog::prefetch(std::vector<Place> places) {
  check_usable();
  std::sort(places.begin(), places.end());
  for (const Place place : places)
    if (segments_[static_cast<size_t>(segment_of(place))].buffer < 0 &&
        !staged_.contains(block_of(place)) && !start_block(block_of(place)))
      return;
}

}  // namespace hlite::embedding
