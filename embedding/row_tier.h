// RowTier: the memories that hold a rank's rows if the buffers of a TableStorage are too small for
// all of them, and how the rows of a batch come into the buffers. The buffers are then lines: in
// every batch one step admits its rows, which gives each one a line, and the other steps use the
// lines. A row moves with its optimizer states, so results are bitwise those of tables in memory.
//
// A tier is one class behind this interface, and a TierKind that says what it can serve and makes
// it. Steps, files, reports and the model use nothing else of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "embedding/line_of_row.h"
#include "embedding/residency_forecast.h"
#include "embedding/row_cache_counts.h"
#include "embedding/row_of_line.h"
#include "embedding/tables_place.h"
#include "embedding/tables_spec.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

class HostRows;

// A memory that holds a part of the rows.
struct StorageTier {
  std::string name, others = {};  // for messages; others: where the rows lie that it lacks
  bool disk = false;              // those lie on a disk; else the host's memory has all rows
  int64_t lines = 0;              // rows that it holds
  int64_t largest_file = 0;       // most bytes of the file on the disk
  std::optional<TierForecast> forecast = {};  // expected of a training batch; nullopt: not known
  RowCacheCounts moved = {};
};

// What a tier is made for.
struct TierSetup {
  const TablesSpec& spec;
  const TablesPlace& place;
  int64_t rows;  // of the rank
  // Writes the weights of an own row that has never been written.
  std::function<void(uint32_t row, std::byte* weights)> initial_weights;
};

class RowTier {
 public:
  explicit RowTier(std::vector<StorageTier> memories) : memories_(std::move(memories)) {}
  virtual ~RowTier() = default;

  // The memories that hold a part of the rows, the fastest first: the buffers. `counted`: with
  // counters, which synchronizes the device.
  [[nodiscard]] std::vector<StorageTier> memories(bool counted = false) const {
    std::vector<StorageTier> list = memories_;
    if (counted) count(list);
    return list;
  }
  // Rows that the buffers hold.
  [[nodiscard]] int64_t lines() const { return memories_.front().lines; }
  // Returns true if rows may lie on a disk. Files then have only those that were ever written.
  [[nodiscard]] bool on_disk() const { return memories_.back().disk; }
  // The forecast of memories()[memory] as a plan::Step has it, per sample of this rank's batch.
  // `ahead`: the keys of the next batch are known.
  [[nodiscard]] plan::TierBytes traffic(size_t memory, int64_t batch, bool ahead) const;
  // Bytes that it takes in addition to the buffers: on their device, and on a GPU's host.
  [[nodiscard]] virtual int64_t bytes() const = 0;
  [[nodiscard]] virtual int64_t host_bytes() const { return 0; }

  // ---- Steps: once or twice a batch ----

  // Names buffers of its own.
  virtual void declare(plan::Buffers&) {}
  // Returns true if the host of a GPU finds the rows of a batch before its run, and brings those of
  // hashed tables with the batch: uint32 HostRows::shape() on the device.
  [[nodiscard]] virtual bool finds_rows() const { return false; }
  [[nodiscard]] virtual plan::BufferId brought_rows() const { return plan::kNoBuffer; }
  // Says what finds them (host_rows.h). To be called before a run, where finds_rows().
  virtual void set_host_rows(HostRows&) {}
  // Sets the lines, and makes all rows ones that have never been written. To be called before the
  // rest; waits for a GPU.
  virtual void attach(const Exec& exec, const UpdatedRows& lines) = 0;
  // Adds what has to run before admission. Returns the buffer that admission then reads.
  virtual plan::BufferId emit(plan::Plan&) { return plan::kNoBuffer; }
  // The host's work around each run of a plan, where finds_rows(): before it is issued on `exec`, in
  // HostRows::begin_run()'s wake, and after that. begin_run() needs that the last run's input has
  // been copied. Throw FileError.
  virtual void begin_run(const Exec& /*exec*/, const Exec& /*host*/, bool /*training*/) {}
  virtual void end_run(const Exec& /*host*/) {}
  // lines[b, c] = the line that holds own row rows[b, c] from now on, first <= c < first + count;
  // numbers beyond the rows stay as they are. `training`: the lines are going to change. On the CPU
  // the two matrices are one; on a GPU they may be.
  virtual void admit(const Exec& exec, Matrix<const uint32_t> rows, Matrix<uint32_t> lines,
                     int64_t first, int64_t count, bool training) = 0;
  // Starts reading what admit() of these rows would have to fetch, where reads_ahead().
  [[nodiscard]] virtual bool reads_ahead() const { return false; }
  virtual void prefetch(const Exec&, Matrix<const uint32_t> /*rows*/, int64_t /*first*/,
                        int64_t /*count*/) {}
  // On a GPU: where the rows are that were admitted last. What lies in the lines, now and later, in
  // memory of their device.
  [[nodiscard]] virtual LineOfRow line_of_row() const { return {}; }
  [[nodiscard]] virtual RowOfLine row_of_line() const { return {}; }
  // Throws DeviceError when an admission on a GPU has failed; waits for it.
  virtual void check() const {}

  // ---- Rows by their numbers, while no step runs ----

  // An array of all own rows that kernels may read and write before their rows are admitted; it
  // begins without initial values. Null: rows that have never been written have these.
  [[nodiscard]] virtual const UpdatedRows* all_rows() const { return nullptr; }
  // out[i] = part `part` (0: weights, then states) of rows[i]; and the reverse.
  virtual void read(size_t part, std::span<const uint32_t> rows, void* out) = 0;
  virtual void write(size_t part, std::span<const uint32_t> rows, const void* in) = 0;
  // Lets rows close up: row from[i] becomes row to[i]; from[i] and the evicted ones have then never
  // been written. Returns false where there are all_rows(), which read() and write() move.
  virtual bool close_up(std::span<const uint32_t> /*from*/, std::span<const uint32_t> /*to*/,
                        std::span<const uint32_t> /*evicted*/) {
    return false;
  }
  // Own rows that have been written, ascending, where on_disk().
  [[nodiscard]] virtual std::vector<uint32_t> touched() const { return {}; }

 protected:
  // Sets `moved` of the memories.
  virtual void count(std::vector<StorageTier>& memories) const = 0;

 private:
  const std::vector<StorageTier> memories_;
};

// A way to hold rows in several memories.
struct TierKind {
  const char* keys;     // of solver.embedding_memory that name them
  bool by_key;          // that it serves hashed tables trained by key
  const char* instead;  // what to do where it does not
  // Returns true if rows may lie on a disk: RowTier::on_disk() of all ranks, one without rows as
  // well.
  bool (*on_disk)(const TierSetup& setup);
  // Returns null where the buffers hold all rows; throws ConfigError where place.memory is less
  // than two batches need.
  std::unique_ptr<RowTier> (*make)(const TierSetup& setup);
};
// The CPU's memory over a disk (disk_tier.h), a GPU's memory over the host's (device_row_cache.h),
// and both (host_lines.h).
extern const TierKind kDiskTier, kGpuTier, kThreeTiers;
inline const TierKind& tier_kind(bool gpu, bool disk) {
  return gpu ? disk ? kThreeTiers : kGpuTier : kDiskTier;
}

}  // namespace hlite::embedding
