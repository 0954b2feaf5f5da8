// Reads files with records of a fixed size (the raw formats) ahead of the consumer. Threads keep
// reads of several batches in flight and decode arrived bytes into the slots of the ring:
//
//   [free] -> (bytes in flight) -> (decoded in pieces) -> [ready]
//
// Position p, counted over all epochs, belongs to thread p % threads. So only one thread touches a
// slot until it is ready, and the order of batches does not depend on the number of threads or
// slots. Locks are held to update positions, never during a read or while a record is decoded.
//
// If the file grows after it was opened, this is reported and ignored; shrinking is an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_order.h"
#include "data_reader/batch_ring.h"
#include "data_reader/open_source.h"
#include "data_reader/range_reader.h"
#include "data_reader/raw_format.h"
#include "data_reader/reader_plan.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/io_queue.h"

namespace hlite::data {

// Returns the number of samples to use from a file of `file_bytes` bytes: num_samples of the split
// or, without it, all. If the file has fewer, RawAsync uses all and Raw throws DataError. Throws
// DataError also if the file is empty or its size is not a multiple of the record size.
int64_t raw_sample_count(const config::DataConfig& config, Split split, const std::string& path,
                         int64_t file_bytes);

class AsyncReader final : public BatchRing {
 public:
  // See open_source(). `open` makes the queues for reads; by default the file decides which.
  AsyncReader(const config::DataConfig& config, const std::string& path, Split split,
              int64_t batch_size, std::span<const int64_t> slot_rows,
              const SourceOptions& options = {}, const IoQueueFactory& open = {});
  ~AsyncReader() override;

  const HostBatch& next() override;
  [[nodiscard]] const ReaderPlan& plan() const { return plan_; }

 private:
  // A batch whose bytes a thread reads or decodes.
  struct Job {
    int64_t position = 0;
    int64_t range = 0;    // of the RangeReader
    int64_t decoded = 0;  // samples
  };
  struct Worker {
    std::unique_ptr<RangeReader> io;
    std::unique_ptr<RawDecoder> decoder;
    int64_t next_position = 0;
    std::vector<Job> jobs;  // ascending positions
    std::vector<int64_t> idle_ranges;
    int64_t counted_bytes = 0;  // part of io->bytes_read() already in the statistics
    bool finished = false;      // io must not be used any more; guarded by workers_mutex_
  };
  void start_threads() override;
  void work(Worker& worker);
  void start_jobs(Worker& worker, const Gate& gate);
  void start_job(Worker& worker, int64_t position, int64_t range);
  // Decodes the next piece of the first job. After the last piece the batch is ready.
  void decode(Worker& worker);
  // Records the current exception as the error of `position`. All threads drop later positions.
  void give_up(int64_t position);
  // Interrupts the thread's wait for reads, so that it checks gate() again.
  void wake(Worker& worker);
  void wake_all();

  const std::string path_;
  const RawFormat format_;
  const int64_t file_bytes_;
  ReaderPlan plan_;
  std::unique_ptr<BatchOrder> order_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex workers_mutex_;
  std::atomic<bool> reported_growth_ = false;
};

}  // namespace hlite::data
