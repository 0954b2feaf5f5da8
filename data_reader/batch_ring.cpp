#include "data_reader/batch_ring.h"

#include <algorithm>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::data {

BatchRing::BatchRing(const config::DataConfig& config, int64_t batch_size,
                     const SourceOptions& options)
    : options_(options),
      batch_size_(batch_size),
      label_width_(config.label_width()),
      dense_width_(config.dense_width()),
      key_columns_(config.key_layout().columns),
      end_(0, label_width_, dense_width_, key_columns_),
      taken_(options.start_batch) {
  HLITE_CHECK(batch_size >= 1 && batch_size % options.shard.count == 0 &&
                  options.start_batch >= 0 && !(options.resident && options.repeat),
              "batch size {}, {} shards, start {}", batch_size, options.shard.count,
              options.start_batch);
}

void BatchRing::set_samples(int64_t samples) {
  HLITE_CHECK(samples >= 1, "{} samples", samples);
  samples_ = samples;
  end_position_ = options_.repeat ? std::numeric_limits<int64_t>::max() : batches_per_epoch();
}

void BatchRing::set_samples(const config::DataConfig& config, Split split,
                            const std::string& source, int64_t held) {
  const auto& wanted = config.samples_of(split);
  if (wanted && held < *wanted)
    raise<DataError>("{}: expected {} samples ({}), found {} in its files", source, *wanted,
                     config.samples_key(split), held);
  set_samples(std::min(wanted.value_or(held), options_.max_samples));
}

void BatchRing::make_slots(int64_t count) {
  for (int64_t s = 0; s < count; ++s)
    slots_.emplace_back(rows(), label_width_, dense_width_, key_columns_);
  ready_position_.assign(slots_.size(), -1);
}

BatchRing::Gate BatchRing::gate() const {
  const std::lock_guard lock(mutex_);
  return locked_gate();
}

bool BatchRing::is_free(int64_t position, const Gate& now) const {
  const auto slots = static_cast<int64_t>(slots_.size());
  // A slot's first batch finds it free; a later one when the batch after the slot's last has been
  // handed out.
  return position - options_.start_batch < slots || position - now.taken < slots - 1;
}

bool BatchRing::wait_until_free(int64_t position) {
  std::unique_lock lock(mutex_);
  const auto wanted = [&] { return !stop_ && position < end_position_; };
  changed_.wait(lock, [&] { return !wanted() || is_free(position, locked_gate()); });
  return wanted();
}

BatchBuffer& BatchRing::slot(int64_t position) {
  return slots_[static_cast<size_t>(position) % slots_.size()];
}

HostBatch& BatchRing::begin_batch(int64_t position, int64_t batch) {
  const BatchRows rows = rows_of_batch(batch, samples_, batch_size_, options_.shard);
  BatchBuffer& buffer = slot(position);
  buffer.set_size(rows.size);
  buffer.batch().first_sample = rows.first_sample;
  return buffer.batch();
}

void BatchRing::set_ready(int64_t position) {
  {
    const std::lock_guard lock(mutex_);
    ready_position_[static_cast<size_t>(position) % slots_.size()] = position;
  }
  changed_.notify_all();
}

void BatchRing::fail(int64_t position, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (position < end_position_) {
      end_position_ = position;
      error_ = std::move(error);
    }
  }
  changed_.notify_all();
}

void BatchRing::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void BatchRing::join_threads() {
  stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void BatchRing::fill_in_order(const std::function<bool(int64_t)>& fill, int64_t thread,
                              int64_t threads) {
  int64_t position = options_.start_batch + thread;
  try {
    for (; wait_until_free(position) && fill(position); position += threads) set_ready(position);
  } catch (...) {
    fail(position, std::current_exception());
  }
}

const HostBatch* BatchRing::ready() const {
  const std::lock_guard lock(mutex_);
  const size_t slot = static_cast<size_t>(taken_) % slots_.size();
  return ready_position_[slot] == taken_ ? &slots_[slot].batch() : nullptr;
}

const HostBatch& BatchRing::next() {
  if (!started_) {
    started_ = true;
    try {
      start_threads();
    } catch (...) {
      fail(position(), std::current_exception());
    }
  }
  std::unique_lock lock(mutex_);
  const int64_t p = taken_;
  const auto is_ready = [&] {
    return ready_position_[static_cast<size_t>(p) % slots_.size()] == p;
  };
  if (!is_ready() && p < end_position_) {
    const auto start = Clock::now();
    changed_.wait(lock, [&] { return is_ready() || p >= end_position_; });
    wait_seconds_ += seconds_since(start);
  }
  if (!is_ready()) {
    if (error_) std::rethrow_exception(error_);
    return end_.batch();
  }
  taken_ = p + 1;
  lock.unlock();
  changed_.notify_all();
  const HostBatch& batch = slot(p).batch();
  replaced_keys_ += batch.replaced_keys;
  return batch;
}

int64_t BatchRing::position() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

std::vector<std::span<std::byte>> BatchRing::memory() const {
  std::vector<std::span<std::byte>> all;
  for (const BatchBuffer& b : slots_) all.push_back(b.memory());
  return all;
}

}  // namespace hlite::data
