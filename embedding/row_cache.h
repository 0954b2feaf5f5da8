// RowCache keeps a part of a rank's rows in memory, for tables that are larger than the memory that
// solver.embedding_memory gives them. The other rows lie on a disk (RowLog).
//
// The rows in memory are lines of TableStorage's arrays. Before a step reads or writes rows, it
// admits them: it replaces row numbers by line numbers, gives a line to each row that has none, and
// evicts rows that no step of this batch needs. A row moves as one record of weights and optimizer
// states, so a step computes bit for bit what it would compute with the whole table in memory.
//
// Every row is in one of three places. Untouched: no batch has trained it. Its initial value is a
// function of (seed, table, key), and it takes no memory. In memory: it has a line. On the disk: it
// has a place in the log. A row that is read from the disk keeps that place until training changes
// the line, so evaluation writes nothing.
//
// CLOCK chooses the rows to evict: a hand goes around the lines, spares those that were used since
// its last visit, and takes the first one that was not. It depends on the order of the batches
// alone, so a run repeats. A batch never evicts its own rows, nor those of the batch before it
// where two are in use at a time. The hand's last visit is stored for kGroup lines together, and
// the last use of a line in one word of its own, so that a lookup touches only this word and the
// map.
//
// The lines are those of a CPU's tables. For a GPU they lie in page-locked memory, and the rows in
// use are in the GPU's (DeviceRowCache): host_lines.h joins the two caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "embedding/row_cache_counts.h"
#include "embedding/row_log.h"
#include "embedding/row_of_line.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::embedding {

struct RowCacheOptions {
  std::string name;  // the layer's
  int64_t rows = 0;  // that the rank owns, below 2^31
  int64_t lines = 0;
  std::vector<int64_t> part_bytes = {};  // per row: weights, then each state
  float first_state = 0;
  std::string folder = {};
  int64_t max_disk_bytes = 0;  // 0: no limit but the free space
  int batches_in_use = 1;      // 2: rows of the batch that was admitted before stay as well

  [[nodiscard]] int64_t record_bytes() const {
    return std::accumulate(part_bytes.begin(), part_bytes.end(), int64_t{0});
  }
};

class RowCache {
 public:
  // Writes the initial weights of an untouched row, part_bytes[0] bytes.
  using InitialWeights = std::function<void(uint32_t row, std::byte* weights)>;
  RowCache(const RowCacheOptions& options, InitialWeights initial_weights);

  // Sets the lines, [lines, part_bytes[i]] each. Must be called before the other functions.
  void attach(const UpdatedRows& lines);
  // Makes all rows untouched.
  void clear();

  // rows[b, c], first <= c < first + count: from an own row to its line; numbers beyond the rows
  // stay as they are. `training`: the lines are going to change. REQUIRES at least as many lines as
  // the batches in use have distinct rows. Throws FileError where the disk fails.
  void admit(const Exec& exec, Matrix<uint32_t> rows, int64_t first, int64_t count, bool training) {
    choose(exec, rows, first, count, training);
    fill(exec);
  }
  // The two parts of admit(), between which the caller may do something with the evicted rows,
  // which then lie in their lines still. REQUIRES that no other function is called in between.
  void choose(const Exec& exec, Matrix<uint32_t> rows, int64_t first, int64_t count, bool training);
  void fill(const Exec& exec);
  [[nodiscard]] std::span<const uint32_t> evicted() const { return evicted_; }
  // Makes the lines of the last batch, lines[b, c] as choose() gave them, ones that are going to
  // change: for a batch that was chosen before it was clear that training comes to it.
  void will_change(const Exec& exec, Matrix<const uint32_t> lines, int64_t first, int64_t count);
  // A number that changes when rows may have left or changed their lines, or stay no longer for the
  // batches in use. While it is the same, the lines of the last batch are as choose() gave them.
  [[nodiscard]] int64_t version() const { return version_; }
  // Starts reading what admit() of these rows would have to fetch. Throws likewise.
  void prefetch(const Exec& exec, Matrix<const uint32_t> rows, int64_t first, int64_t count);

  // out[i] = part `part` (0: weights, then states) of rows[i]; in order of the disk where it can.
  void read(size_t part, std::span<const uint32_t> rows, void* out);
  // The reverse. Rows that have these values already stay as they are.
  void write(size_t part, std::span<const uint32_t> rows, const void* in);
  // Lets rows close up: those of `evicted` become untouched, then row from[i] becomes row to[i],
  // which is untouched, and leaves its own number untouched.
  void close_up(std::span<const uint32_t> from, std::span<const uint32_t> to,
                std::span<const uint32_t> evicted);
  // The own rows that have lines, until the next attach().
  [[nodiscard]] RowOfLine row_of_line() const {
    return {&lines_[0].row, sizeof(Line) / sizeof(uint32_t)};
  }
  // Own rows that are not untouched, ascending.
  [[nodiscard]] std::vector<uint32_t> touched() const;

  [[nodiscard]] const RowCacheCounts& counts() const { return counts_; }
  [[nodiscard]] const RowLog& log() const { return *log_; }
  // Bytes of memory in addition to the lines themselves.
  [[nodiscard]] static int64_t memory_bytes(int64_t rows, int64_t lines, int64_t record_bytes);

 private:
  static constexpr uint32_t kUntouched = 0xffffffffu, kLine = 0x80000000u, kNone = 0xffffffffu;
  static constexpr uint32_t kChanged = 1, kBatch = 2;  // bits of a line's use: the batch, changed
  static constexpr int64_t kGroup = 64;
  struct Line {
    uint32_t row = kNone;
    uint32_t place = kNone;  // on the disk, of a line that has not changed since
  };
  struct Fetch {
    uint32_t row, line, place;
  };
  static bool in_memory(uint32_t where) { return where >= kLine && where != kUntouched; }
  [[nodiscard]] std::span<uint32_t> where() const {
    return {reinterpret_cast<uint32_t*>(where_.data()), static_cast<size_t>(options_.rows)};
  }
  // Calls body(row) for the lookups of samples [begin, end), with what it will read on its way.
  template <typename T, typename Body>
  void for_each_lookup(Matrix<T> rows, int64_t first, int64_t count, int64_t begin, int64_t end,
                       Body&& body) const;
  void begin_batch();
  // The use of a line in the first of the batches in use.
  [[nodiscard]] uint32_t first_in_use() const {
    return batch_ - static_cast<uint32_t>(options_.batches_in_use - 1) * kBatch;
  }
  void use(uint32_t line, bool training);
  uint32_t take_line(uint32_t row, bool training);
  void free_line(uint32_t line);
  void save_victims(const Exec& exec);
  void fetch(const Exec& exec);
  void write_victims();
  void to_record(uint32_t line, std::byte* record) const;
  void from_record(const std::byte* record, uint32_t line) const;
  void first_record(uint32_t row, std::byte* record) const;
  void read_record(uint32_t row, std::byte* record);
  // The offset in bytes of a part in a record.
  [[nodiscard]] int64_t part_begin(size_t part) const;

  const RowCacheOptions options_;
  const InitialWeights initial_weights_;
  int64_t record_bytes_ = 0;
  std::vector<std::byte> first_states_;  // states of an untouched row
  std::vector<std::byte*> parts_;        // lines
  HostMemory where_;                     // per row: kUntouched, kLine | line, or its place
  std::vector<Line> lines_;
  std::vector<uint32_t> uses_;    // per line: batch * kBatch, and kChanged
  std::vector<uint32_t> passed_;  // per group: batch * kBatch when the hand came by
  uint32_t hand_ = 0;
  uint32_t batch_ = 0;  // times kBatch
  int64_t version_ = 0;
  int64_t free_lines_ = 0;
  std::vector<std::vector<uint32_t*>> missed_;  // by task
  std::vector<Fetch> fetches_;
  std::vector<uint32_t> evicted_;                     // rows that leave their lines
  std::vector<uint32_t> victim_rows_, victim_lines_;  // those of them that have changed
  std::vector<std::byte> victims_, fetched_;          // records
  RowCacheCounts counts_;
  std::unique_ptr<RowLog> log_;
};

}  // namespace hlite::embedding
