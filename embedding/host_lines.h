// HostLines: a rank's rows in three tiers, GPU memory over host memory over a disk; and the host's
// part of an iteration there.
//
// The host's memory holds the lines of a RowCache, page-locked, so that the GPU reads and writes
// them over the bus. The GPU's memory holds rows of these lines (DeviceRowCache). Both find rows by
// their numbers, and each row in the GPU's memory has a host line.
//
// Before a run uses a batch, all of its rows need host lines. The host knows the rows of the batch
// that comes next (host_rows.h), so it works a batch ahead, while the GPU runs:
//
//   host                                   GPU, in order
//   choose lines for batch N+1             .. run N-1
//   issue recall(evicted rows), run N      recall: newest values -> host lines
//   wait for the recall                    run N: copies the lines of batch N in, admits, trains
//   evicted rows -> disk, disk -> lines
//
// The rows of batch N keep their host lines meanwhile (RowCacheOptions::batches_in_use), and the
// evicted ones are in no batch that runs, so no step touches what the host reads and writes.
// Where the next batch was not known, or others came between as an evaluation does, the host does
// the same before it issues the run, and waits for all earlier ones if a row has to leave.
//
// Results do not depend on which of the two ways a batch went.
//
// Rows of hashed tables come with the lines. A new key has its row only when training comes to its
// batch. So for a batch with new keys the host chooses lines once more.
//
// On several ranks all of this is of the rows that their batches request of this rank.
#pragma once

#include <string>
#include <vector>

#include "embedding/device_row_cache.h"
#include "embedding/disk_tier.h"
#include "embedding/host_rows.h"
#include "hugectr_lite/core/device_memory.h"

namespace hlite::embedding {

// Its host is a DiskTier.
class HostLines final : public DiskTier {
 public:
  // `memories`: the GPU's and the host's, which the options are of.
  HostLines(const TierSetup& setup, std::vector<StorageTier> memories,
            const DeviceRowCacheOptions& device, const RowCacheOptions& host);
  ~HostLines() override;

  [[nodiscard]] int64_t bytes() const override { return device_.device_bytes(exec_); }
  [[nodiscard]] int64_t host_bytes() const override {
    return device_.host_bytes() + cache_bytes_ + pinned_bytes_;
  }
  void declare(plan::Buffers& buffers) override;
  void attach(const Exec& exec, const UpdatedRows& lines) override;
  [[nodiscard]] bool finds_rows() const override { return true; }
  [[nodiscard]] plan::BufferId brought_rows() const override { return copied_rows_; }
  void set_host_rows(HostRows& rows) override { host_rows_ = &rows; }
  // <layer>.host_lines copies the batch's host lines in, and the rows of hashed tables.
  plan::BufferId emit(plan::Plan& plan) override;
  // The batch's lines stay where they are until the next begin_run().
  void begin_run(const Exec& gpu, const Exec& host, bool training) override;
  void end_run(const Exec& host) override;
  void admit(const Exec& exec, Matrix<const uint32_t> rows, Matrix<uint32_t> lines, int64_t first,
             int64_t count, bool training) override;
  [[nodiscard]] bool reads_ahead() const override { return false; }
  [[nodiscard]] LineOfRow line_of_row() const override { return device_.line_of_row(); }
  [[nodiscard]] RowOfLine row_of_line() const override { return device_.row_of_line(); }
  void check() const override { device_.check(); }
  void read(size_t part, std::span<const uint32_t> rows, void* out) override;
  void write(size_t part, std::span<const uint32_t> rows, const void* in) override;
  // uint32 HostRows::shape(), page-locked: the host line of each row.
  [[nodiscard]] const std::byte* batch_lines() const {
    return reinterpret_cast<std::byte*>(list(side_));
  }

  // Page-locked bytes.
  [[nodiscard]] static int64_t bytes(const TablesSpec& spec, int64_t max_batch, int ranks = 1);

 protected:
  void count(std::vector<StorageTier>& memories) const override;

 private:
  [[nodiscard]] static int64_t max_rows(const TablesSpec& spec, int64_t max_batch, int ranks);
  [[nodiscard]] uint32_t* list(int i) const;
  [[nodiscard]] uint32_t* rows_on(int side) const { return list(2 + side); }
  [[nodiscard]] Matrix<uint32_t> lines_on(int side, const HostRows::Shape& shape) const;
  void find(const Exec& host, HostRows::Batch batch, int to, bool training);
  void choose(const Exec& gpu, const Exec& host, HostRows::Batch batch, int to, bool training);
  void fill(const Exec& host);

  const std::string name_;  // the layer's
  const Exec exec_;
  const int64_t train_batch_;
  const bool hashed_;
  DeviceRowCache device_;
  const int64_t columns_;  // of a batch's keys
  const int64_t max_;      // rows of a batch, repeats included
  const int64_t pinned_bytes_;
  HostRows* host_rows_ = nullptr;
  PinnedMemory memory_;  // lines of two batches, their rows if hashed, then evicted rows
  int side_ = 0;         // of the batch that runs
  bool chosen_ = false, recalled_ = false;
  int64_t version_ = 0;  // of the cache when the lines on the other side were chosen
  bool next_trains_ = false;
  int64_t rows_ = 0, next_rows_ = 0;  // that keys have now, and had then, if hashed
  void* recall_ = nullptr;            // event: the evicted rows are in their host lines
  const plan::Buffers* buffers_ = nullptr;
  // The batch's lines on the device, and its rows if hashed.
  plan::BufferId copied_ = plan::kNoBuffer, copied_rows_ = plan::kNoBuffer;
};

}  // namespace hlite::embedding
