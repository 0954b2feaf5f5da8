// Reads a Raw file ahead of the consumer: a thread reads and decodes whole batches into a ring of
// slots.
//
//   slots:   [free] -> (thread reads, decodes) -> [ready] -> (next() hands it out) -> [free]
//
// Batch p (counted over all epochs) is batch order(p % n) of the file, n batches an epoch; order is
// the identity, or with shuffle a permutation drawn from (seed, p / n). The partial last batch
// takes part in the shuffle.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/file.h"

namespace hlite::data {

enum class Split { kTrain, kEval };

struct RawReaderOptions {
  int64_t start_batch = 0;  // batches handed out before, by the run that this one resumes
  uint64_t seed = 0;        // of the shuffle
  bool shuffle = false;     // the order of batches
  bool repeat = true;       // start over at the end; else next() then gives batches of size 0
  int ring_slots = 4;       // at least 3
};

// Number of samples to use of a file of that many bytes, for the split's num_samples. Throws
// DataError when the file's size is no multiple of the record's, when it is empty, and, for the
// format Raw, when it holds fewer than num_samples. RawAsync takes the smaller of the two.
int64_t raw_sample_count(const config::DataConfig& config, Split split, const std::string& path,
                         int64_t file_bytes);

// The batch at place `index` of epoch `epoch`'s order, for all indices: a permutation of [0, n)
// drawn by (seed, epoch).
void shuffle_order(uint64_t seed, int64_t epoch, std::span<int64_t> order);

class RawReader final : public BatchSource {
 public:
  // `path`: the resolved source or eval_source. `slot_rows`: rows of each slot's table.
  RawReader(const config::DataConfig& config, const std::string& path, Split split,
            int64_t batch_size, std::span<const int64_t> slot_rows,
            const RawReaderOptions& options = {});
  ~RawReader() override;

  const HostBatch& next() override;
  [[nodiscard]] int64_t batch_size() const override { return batch_size_; }
  [[nodiscard]] int64_t samples() const override { return samples_; }
  [[nodiscard]] int64_t position() const override;
  [[nodiscard]] double wait_seconds() const override { return wait_seconds_; }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() const override;

 private:
  void read_ahead();
  void fill(int64_t position, BatchBuffer& slot);
  // Number of the batch at `position`.
  int64_t batch_at(int64_t position);
  [[nodiscard]] bool at_end(int64_t position) const;

  RawFormat format_;
  RawReaderOptions options_;
  int64_t batch_size_;
  ReadFile file_;
  int64_t samples_;
  RawDecoder decoder_;
  std::vector<BatchBuffer> slots_;  // batch p lies in slot p % slots
  BatchBuffer end_;                 // the empty batch
  std::vector<std::byte> records_;  // of a piece of a batch
  std::vector<int64_t> order_;      // of epoch order_epoch_, when shuffling
  int64_t order_epoch_ = -1;

  // Positions taken <= filled <= taken + slots; the slot of taken - 1 is with the consumer.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_;
  int64_t taken_;
  bool stop_ = false;
  std::exception_ptr error_;
  double wait_seconds_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace hlite::data
