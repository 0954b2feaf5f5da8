// Reads files of records of one size (the raw formats) ahead of the consumer: threads keep reads of
// several batches in flight and decode what has arrived into the ring:
//
//   [free] -> (bytes in flight) -> (decoded in pieces) -> [ready]
//
// Position p, counted over all epochs, goes to thread p % threads, so that a thread alone touches
// its slots until they are ready, and the order does not depend on the number of threads or slots.
// Locks guard positions, never a read or a record.
//
// The file is read as it was when it was opened:
// growth is reported and ignored, shrinking is an error.
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

// Number of samples to use of a file of that many bytes, for the split's num_samples. Throws
// DataError when the file's size is no multiple of the record's, when it is empty, and, for the
// format Raw, when it holds fewer than num_samples. RawAsync takes the smaller of the two.
int64_t raw_sample_count(const config::DataConfig& config, Split split, const std::string& path,
                         int64_t file_bytes);

class AsyncReader final : public BatchRing {
 public:
  // See open_source(). `open`: where the reads go.
  AsyncReader(const config::DataConfig& config, const std::string& path, Split split,
              int64_t batch_size, std::span<const int64_t> slot_rows,
              const SourceOptions& options = {}, const IoQueueFactory& open = {});
  ~AsyncReader() override;

  const HostBatch& next() override;
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
    bool finished = false;      // under workers_mutex_: io is gone
  };
  void start_threads() override;
  void work(Worker& worker);
  void start_jobs(Worker& worker, const Gate& gate);
  void start_job(Worker& worker, int64_t position, int64_t range);
  // Decodes a piece of the first job; when that was the last one its batch is ready.
  void decode(Worker& worker);
  // The error of a position, which ends the work of all threads on later positions.
  void give_up(int64_t position);
  // Ends the thread's wait for reads, so that it looks at the gate.
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
