// HostLines: the host's part of an iteration where rows lie in three tiers: GPU memory over host
// memory over a disk, on one rank, for tables that are not hashed.
//
// The host's memory holds the lines of a RowCache, page-locked, so that the GPU reads and writes
// them over the bus. The GPU's memory holds rows of these lines (DeviceRowCache). Both find rows by
// their numbers, and each row in the GPU's memory has a host line.
//
// Before a run uses a batch, all of its rows need host lines. The host knows the keys of the batch
// that comes next, so it works a batch ahead, while the GPU runs:
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
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/core/device_memory.h"

namespace hlite::embedding {

class HostLines {
 public:
  // `max_batch`: samples of the largest batch. `storage` must outlive this.
  HostLines(const TableStorage& storage, const SlotLayout& layout, int64_t max_batch);
  ~HostLines();
  HostLines(const HostLines&) = delete;
  HostLines& operator=(const HostLines&) = delete;

  // Allocates memory. To be called before the rest.
  void prepare(const cuda::Backend& gpu);
  // Before the run with this batch is issued on `gpu`, and after it. The batch's lines stay where
  // they are until the next begin_run(), which needs that they have been copied. Throw FileError.
  void begin_run(const Exec& gpu, const Exec& host, const plan::HostInput& input, int64_t batch,
                 bool training);
  void end_run(const Exec& host);
  // uint32 [batch, columns of the batch's keys], page-locked: the host line of each key.
  [[nodiscard]] const std::byte* lines() const { return side(side_); }

  // Page-locked bytes.
  [[nodiscard]] static int64_t bytes(const SlotLayout& layout, int64_t max_batch);

 private:
  [[nodiscard]] std::byte* side(int i) const;
  [[nodiscard]] Matrix<uint32_t> lines_on(int i, int64_t batch) const;
  void choose(const Exec& gpu, const Exec& host, Matrix<const uint32_t> keys, int to,
              bool training);
  void fill(const Exec& host);

  const TableStorage& storage_;
  const DeviceSlots slots_;  // on the host
  const int64_t max_;        // keys in a batch
  PinnedMemory memory_;      // lines of two batches, then evicted rows
  int side_ = 0;             // of the batch that runs
  bool chosen_ = false, recalled_ = false;
  std::vector<uint32_t> next_keys_;  // of the batch whose lines lie on the other side
  int64_t version_ = 0;              // of the cache then
  bool next_trains_ = false;
  const cuda::Backend* gpu_ = nullptr;
  void* recall_ = nullptr;  // event: the evicted rows are in their host lines
};

}  // namespace hlite::embedding
