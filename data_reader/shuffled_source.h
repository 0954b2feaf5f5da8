// ShuffledSource: a set in memory whose samples come in an order of their own in every epoch.
//
// Epoch e's order is shuffle_order(seed, e) over all samples (batch_order.h); batch p is the next
// batch_size of it, of which a shard takes its rows. So which sample comes when does not depend on
// how many ranks there are, nor on where a run was resumed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data_reader/batch_ring.h"

namespace hlite::data {

class ShuffledSource final : public BatchRing {
 public:
  static constexpr int64_t kSlots = 4;

  // `all`: a resident source of the whole set, in batches of this source's batch size, of which
  // nothing has been handed out. It is read when the first batch is asked for.
  ShuffledSource(const config::DataConfig& config, std::unique_ptr<BatchSource> all,
                 const SourceOptions& options);
  ~ShuffledSource() override { join_threads(); }

 private:
  void start_threads() override;
  void load();
  // False when the source is to stop.
  bool fill(int64_t position);

  const std::unique_ptr<BatchSource> all_;
  std::vector<const HostBatch*> batches_;  // of all_
  int64_t replaced_keys_ = 0;              // in an epoch
  int64_t epoch_ = -1;                     // of order_
  std::vector<int64_t> order_;
};

// The number in its file of the sample at place `sample` of an epoch's order.
int64_t shuffled_sample(uint64_t seed, int64_t epoch, int64_t samples, int64_t sample);

// Shuffles the samples of open_source(), whose arguments it takes. Throws DataError too where the
// set does not fit into half of the memory that is available, and says what to do instead.
std::unique_ptr<BatchSource> open_shuffled_source(const config::DataConfig& config,
                                                  const std::string& path, Split split,
                                                  int64_t batch_size,
                                                  std::span<const int64_t> slot_rows,
                                                  const SourceOptions& options);

}  // namespace hlite::data
