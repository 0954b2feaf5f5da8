// HostRows: the own rows that a batch looks up, as the host of a GPU finds them before the batch
// runs, and those of the batch that comes next. On one rank its own keys say which they are; on
// several HostRequests (host_requests.h) ask the other hosts.
//
// The host has the index of hashed tables. A new key gets its row when training comes to its batch,
// not when this is announced.
#pragma once

#include <cstdint>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/hashed_index.h"
#include "embedding/key_columns.h"
#include "embedding/tables_spec.h"
#include "hugectr_lite/comm/traffic_totals.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

class HostRows {
 public:
  // `rows`: of this rank. `index`: null if the tables are not hashed. It must outlive this.
  HostRows(const TablesSpec& spec, int64_t rows, HashedIndex* index, int64_t max_batch);
  virtual ~HostRows() = default;
  HostRows(const HostRows&) = delete;
  HostRows& operator=(const HostRows&) = delete;

  [[nodiscard]] virtual int64_t bytes() const;
  // Takes them. To be called before the rest.
  virtual void prepare();

  // The matrix of rows [lists, columns] that steps on the GPU have of a batch of this rank. They use
  // `count` columns of it, from `first` on.
  struct Shape {
    int64_t lists = 0, columns = 0, first = 0, count = 0;
    [[nodiscard]] int64_t size() const { return lists * columns; }
  };
  [[nodiscard]] virtual Shape shape(int64_t batch) const;

  // Looks at the batch that is about to run, and at the next one where it is known. Collective on
  // several ranks.
  virtual void begin_run(const Exec& host, const plan::HostInput& input, int64_t batch);

  // These are of the last begin_run(). was_next(): the batch is what the one before had as the next.
  enum Batch { kThis, kNext };
  [[nodiscard]] bool was_next() const { return was_next_; }
  [[nodiscard]] bool has_next() const { return has_next_; }
  [[nodiscard]] Shape shape(Batch of) const { return shape(keys_[of].dim(0)); }
  // Writes the rows of one of the two batches to `rows`, shape(of). Numbers beyond the rows stand for
  // none. Hashed tables: keys get rows where `training`, and the number of rows that keys have then
  // is returned; else 0. Throws DataError where no row is left.
  virtual int64_t find(const Exec& host, Batch of, uint32_t* rows, bool training);

  // What this host has sent to others.
  [[nodiscard]] virtual std::vector<comm::StepTraffic> traffic() const { return {}; }

 protected:
  [[nodiscard]] const SlotsRef& slots() const { return slots_.ref(); }
  [[nodiscard]] Matrix<const uint32_t> keys(Batch of) const { return keys_[of]; }

  HashedIndex* const index_;
  bool was_next_ = false, has_next_ = false;

 private:
  [[nodiscard]] Matrix<const uint32_t> own_keys(const Exec& host, const uint32_t* keys,
                                                int64_t batch, Batch of) const;

  const DeviceSlots slots_;  // on the host
  const int64_t max_keys_;   // of a batch
  KeyColumns columns_;
  HostMemory selected_[2];           // keys, where the layer selects them
  Matrix<const uint32_t> keys_[2];   // of the layer
  std::vector<uint32_t> next_keys_;  // a copy of the next batch's
};

}  // namespace hlite::embedding
