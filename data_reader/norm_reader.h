// Reads a list of Norm files ahead of the consumer: a thread reads, checks and decodes whole
// batches into a ring of slots.
//
//   slots:   [free] -> (thread reads, decodes) -> [ready] -> (next() hands it out) -> [free]
//
// Batch p, counted over all epochs, is samples [b B, (b + 1) B) of the files one after another, b =
// p % batches. Records have no fixed size, so batches keep this order. An error belongs to a
// position: the batches before it are delivered.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/norm_stream.h"
#include "data_reader/source.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::data {

class NormReader final : public BatchSource {
 public:
  // See open_source(); `list` is the file list. Throws DataError also when the files hold fewer
  // samples than the config's num_samples.
  NormReader(const config::DataConfig& config, const std::string& list, Split split,
             int64_t batch_size, std::span<const int64_t> slot_rows,
             const SourceOptions& options = {});
  ~NormReader() override;

  const HostBatch& next() override;
  [[nodiscard]] int64_t batch_size() const override { return batch_size_; }
  [[nodiscard]] int64_t samples() const override { return samples_; }
  [[nodiscard]] int64_t position() const override;
  [[nodiscard]] int64_t replaced_keys() const override { return replaced_keys_; }
  [[nodiscard]] double wait_seconds() const override { return wait_seconds_; }
  [[nodiscard]] int64_t bytes_read() const override { return bytes_read_; }
  [[nodiscard]] double decode_seconds() const override {
    return static_cast<double>(decode_nanoseconds_) * 1e-9;
  }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() const override;

 private:
  void read_ahead();
  // False when the reader is to stop.
  bool fill(int64_t position, BatchBuffer& slot);
  [[nodiscard]] bool at_end(int64_t position) const {
    return !options_.repeat && position >= batches_per_epoch();
  }
  [[nodiscard]] BatchBuffer& slot(int64_t position) {
    return slots_[static_cast<size_t>(position) % slots_.size()];
  }

  const SourceOptions options_;
  const int64_t batch_size_;
  NormStream stream_;  // the thread's
  int64_t samples_;
  std::vector<BatchBuffer> slots_;
  BatchBuffer end_;  // the empty batch

  // Positions taken <= filled <= taken + slots - 1; the slot of taken - 1 is with the consumer.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_;
  int64_t taken_;
  std::exception_ptr error_;
  std::atomic<bool> stop_ = false;

  std::atomic<int64_t> bytes_read_ = 0, decode_nanoseconds_ = 0;
  double wait_seconds_ = 0;
  int64_t replaced_keys_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace hlite::data
