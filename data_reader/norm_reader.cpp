#include "data_reader/norm_reader.h"

#include <algorithm>
#include <chrono>

#include "hugectr_lite/core/error.h"

namespace hlite::data {
namespace {
using Clock = std::chrono::steady_clock;

constexpr int64_t kSlots = 4;
// Samples between two looks at whether to stop.
constexpr int64_t kPieceRows = 4096;

int64_t samples_in_use(const config::DataConfig& config, Split split, const std::string& list,
                       int64_t held, int64_t most) {
  const bool train = split == Split::kTrain;
  const auto& wanted = train ? config.num_samples : config.eval_num_samples;
  if (wanted && held < *wanted)
    raise<DataError>("{}: expected {} samples ({}), found {} in its files", list, *wanted,
                     train ? "num_samples" : "eval_num_samples", held);
  return std::min(wanted.value_or(held), most);
}
}  // namespace

NormReader::NormReader(const config::DataConfig& config, const std::string& list, Split split,
                       int64_t batch_size, std::span<const int64_t> slot_rows,
                       const SourceOptions& options)
    : options_(options),
      batch_size_(batch_size),
      stream_(config, list, slot_rows),
      samples_(samples_in_use(config, split, list, stream_.samples(), options.max_samples)),
      end_(0, config.label_dim, config.dense_width(), config.key_layout().columns),
      filled_(options.start_batch),
      taken_(options.start_batch) {
  HLITE_CHECK(batch_size >= 1 && batch_size % options.shard.count == 0 &&
                  options.start_batch >= 0 && samples_ >= 1 && !options.shuffle &&
                  !(options.resident && options.repeat),
              "batch size {}, {} shards, start {}, {} samples", batch_size, options.shard.count,
              options.start_batch, samples_);
  const int64_t slots = options.resident ? batches_per_epoch() : kSlots;
  for (int64_t i = 0; i < slots; ++i)
    slots_.emplace_back(batch_size / options.shard.count, config.label_dim, config.dense_width(),
                        config.key_layout().columns);
  thread_ = std::thread([this] { read_ahead(); });
}

NormReader::~NormReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool NormReader::fill(int64_t position, BatchBuffer& slot) {
  const BatchRows rows =
      rows_of_batch(position % batches_per_epoch(), samples_, batch_size_, options_.shard);
  slot.set_size(rows.size);
  slot.batch().first_sample = rows.first_sample;
  if (!stream_.seek(rows.first_sample, &stop_)) return false;
  const auto start = Clock::now();
  for (int64_t done = 0; done < rows.size; done += kPieceRows) {
    if (stop_) return false;
    stream_.decode(std::min(kPieceRows, rows.size - done), slot.batch(), done);
  }
  bytes_read_ = stream_.bytes_read();
  decode_nanoseconds_ +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  return true;
}

void NormReader::read_ahead() {
  const auto capacity = static_cast<int64_t>(slots_.size());
  // In the ring the slot of batch taken_ - 1 is still being looked at.
  const int64_t ahead = options_.resident ? capacity : capacity - 1;
  try {
    for (int64_t position = options_.start_batch; !at_end(position); ++position) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || position - taken_ < ahead; });
      }
      if (stop_ || !fill(position, slot(position))) return;
      {
        const std::lock_guard lock(mutex_);
        filled_ = position + 1;
      }
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
  changed_.notify_all();
}

const HostBatch& NormReader::next() {
  std::unique_lock lock(mutex_);
  if (at_end(taken_)) return end_.batch();
  if (filled_ == taken_ && !error_) {
    const auto start = Clock::now();
    changed_.wait(lock, [&] { return filled_ > taken_ || error_; });
    wait_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }
  // Batches before the unusable one are good.
  if (filled_ == taken_) std::rethrow_exception(error_);
  const HostBatch& batch = slot(taken_).batch();
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  replaced_keys_ += batch.replaced_keys;
  return batch;
}

int64_t NormReader::position() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

std::vector<std::span<std::byte>> NormReader::memory() const {
  std::vector<std::span<std::byte>> all;
  for (const BatchBuffer& b : slots_) all.push_back(b.memory());
  return all;
}

}  // namespace hlite::data
