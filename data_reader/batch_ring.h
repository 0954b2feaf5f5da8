// The part that sources which decode ahead have in common: a ring of slots, which threads of the
// source fill and next() hands out in order.
//
//   slot:   [free] -> (a thread fills it) -> [ready] -> next() -> [free]
//
// Position p, counted over all epochs, goes to slot p % slots. The slot of the batch that next()
// gave last stays with the consumer until it is called again. An error belongs to a position: the
// batches before it are delivered, later calls repeat it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/open_source.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

class BatchRing : public BatchSource {
 public:
  const HostBatch& next() override;
  [[nodiscard]] const HostBatch* ready() const override;
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

 protected:
  // See open_source(). Then the constructor of the source sets samples and slots; its destructor
  // calls join_threads().
  BatchRing(const config::DataConfig& config, int64_t batch_size, const SourceOptions& options);
  void set_samples(int64_t samples);
  // Sets which of the `held` samples in the files of `source` the config and the options use.
  // Throws DataError when the config wants more.
  void set_samples(const config::DataConfig& config, Split split, const std::string& source,
                   int64_t held);
  void make_slots(int64_t count);
  // Calls start_thread(): by the first next(), before which nothing of the data is read.
  virtual void start_threads() = 0;
  void start_thread(std::function<void()> work) { threads_.emplace_back(std::move(work)); }
  // Stops them first.
  void join_threads();

  [[nodiscard]] const SourceOptions& options() const { return options_; }
  [[nodiscard]] int64_t rows() const { return batch_size_ / options_.shard.count; }  // of a slot

  // Functions for the threads that fill slots.

  // State that the consumer and the other threads share.
  struct Gate {
    int64_t taken = 0;
    int64_t end = 0;  // no position from here on is wanted
    bool stop = false;
  };
  [[nodiscard]] Gate gate() const;
  [[nodiscard]] bool is_free(int64_t position, const Gate& now) const;
  // False when the position is not wanted.
  bool wait_until_free(int64_t position);
  [[nodiscard]] BatchBuffer& slot(int64_t position);
  // The slot of that position, for batch number `batch` of the file:
  // with its size and first sample.
  HostBatch& begin_batch(int64_t position, int64_t batch);
  void set_ready(int64_t position);
  void fail(int64_t position, std::exception_ptr error);
  // All that thread number `thread` of `threads` does: fill(position), which says false when the
  // source is to stop, for every so many'th position.
  void fill_in_order(const std::function<bool(int64_t position)>& fill, int64_t thread = 0,
                     int64_t threads = 1);
  // Ends every wait_until_free().
  void stop();
  [[nodiscard]] const std::atomic<bool>& stopped() const { return stop_; }
  void add_bytes_read(int64_t bytes) { bytes_read_ += bytes; }
  void add_decoding(std::chrono::nanoseconds time) { decode_nanoseconds_ += time.count(); }

 private:
  [[nodiscard]] Gate locked_gate() const { return {taken_, end_position_, stop_}; }

  const SourceOptions options_;
  const int64_t batch_size_, label_width_, dense_width_, key_columns_;
  int64_t samples_ = 0;
  std::vector<BatchBuffer> slots_;
  BatchBuffer end_;  // the empty batch

  // The slot of position taken_ - 1 is with the consumer.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int64_t> ready_position_;  // [slots] of the batch that is ready there
  int64_t taken_;
  int64_t end_position_ = 0;        // of a source that does not repeat, or of the error
  std::atomic<bool> stop_ = false;  // set under the lock
  std::exception_ptr error_;

  std::atomic<int64_t> bytes_read_ = 0, decode_nanoseconds_ = 0;
  double wait_seconds_ = 0;
  int64_t replaced_keys_ = 0;
  bool started_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hlite::data
