// Reads files of records of one size (the raw formats) ahead of the consumer: threads keep reads of
// several batches in flight and decode what has arrived into a ring of slots.
//
//   slot:   [free] -> (bytes in flight) -> (decoded in pieces) -> [ready] -> next() -> [free]
//
// Position p, counted over all epochs, goes to slot p % slots and thread p % threads, so that a
// thread alone touches its slots until they are ready, and the order does not depend on the number
// of either. The lock guards positions, never a read or a record.
//
// The file is read as it was when it was opened: growth is reported and ignored, shrinking is an
// error. An error belongs to a position: the batches before it are delivered.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data_reader/batch_order.h"
#include "data_reader/batch_source.h"
#include "data_reader/range_reader.h"
#include "data_reader/raw_format.h"
#include "data_reader/read_queue.h"
#include "data_reader/reader_plan.h"
#include "data_reader/source.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::data {

// Number of samples to use of a file of that many bytes, for the split's num_samples. Throws
// DataError when the file's size is no multiple of the record's, when it is empty, and, for the
// format Raw, when it holds fewer than num_samples. RawAsync takes the smaller of the two.
int64_t raw_sample_count(const config::DataConfig& config, Split split, const std::string& path,
                         int64_t file_bytes);

class AsyncReader final : public BatchSource {
 public:
  // See open_source(). `open`: where the reads go.
  AsyncReader(const config::DataConfig& config, const std::string& path, Split split,
              int64_t batch_size, std::span<const int64_t> slot_rows,
              const SourceOptions& options = {}, const ReadQueueFactory& open = {});
  ~AsyncReader() override;

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
  [[nodiscard]] const ReaderPlan& plan() const { return plan_; }

 private:
  // A batch that a thread is at: its bytes in flight, arrived or being decoded.
  struct Job {
    int64_t position = 0;
    int64_t range = 0;  // of the RangeReader
    int64_t decoded = 0;
  };
  struct Worker {
    std::unique_ptr<RangeReader> io;
    std::unique_ptr<RawDecoder> decoder;
    int64_t next_position = 0;
    std::vector<Job> jobs;  // by position
    std::vector<int64_t> idle_ranges;
    int64_t counted_bytes = 0;  // of io->bytes_read()
    bool finished = false;      // under mutex_: io is gone
    std::thread thread;
  };
  // What the consumer and the other threads have come to.
  struct Gate {
    int64_t taken = 0;
    int64_t end = 0;  // no position from here on is wanted
    bool stop = false;
  };

  void work(Worker& worker);
  void start_jobs(Worker& worker, const Gate& gate);
  void start_job(Worker& worker, int64_t position, int64_t range);
  // Decodes a piece of the first job; when that was the last one its batch is ready.
  void decode(Worker& worker);
  void fail(int64_t position, std::exception_ptr error);
  // REQUIRES: mutex_ is locked.
  void wake_all();
  void stop_threads();
  [[nodiscard]] Gate gate() const;
  [[nodiscard]] BatchBuffer& slot(int64_t position);

  const std::string path_;
  const RawFormat format_;
  const SourceOptions options_;
  const int64_t batch_size_;
  int64_t file_bytes_ = 0, samples_ = 0;
  ReaderPlan plan_;
  std::unique_ptr<BatchOrder> order_;
  std::vector<BatchBuffer> slots_;
  BatchBuffer end_;  // the empty batch
  std::vector<std::unique_ptr<Worker>> workers_;

  // The slot of position taken_ - 1 is with the consumer.
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<int64_t> ready_position_;  // [slots] of the batch that is ready there
  int64_t taken_;
  int64_t end_position_;  // of a source that does not repeat, or of the error
  bool stop_ = false;
  std::exception_ptr error_;

  std::atomic<bool> told_growth_ = false;
  std::atomic<int64_t> bytes_read_ = 0, decode_nanoseconds_ = 0;
  double wait_seconds_ = 0;
  int64_t replaced_keys_ = 0;
};

}  // namespace hlite::data
