#include "data_reader/raw_reader.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"

namespace hlite::data {
namespace {
constexpr int64_t kPiece = 1 << 20;  // bytes read before they are decoded: they stay in the cache

// Stream of the shuffle among all that is drawn from one seed.
const uint64_t kShuffleStream = random::stream_of("data_reader.shuffle");
}  // namespace

int64_t raw_sample_count(const config::DataConfig& config, Split split, const std::string& path,
                         int64_t file_bytes) {
  const RawFormat format = RawFormat::from(config);
  if (file_bytes % format.record_bytes() != 0)
    raise<DataError>("{}: {} bytes is no multiple of the record size {}", path, file_bytes,
                     format.describe_record());
  const int64_t held = file_bytes / format.record_bytes();
  if (held == 0) raise<DataError>("{}: expected at least one sample, found an empty file", path);
  const auto& wanted = split == Split::kTrain ? config.num_samples : config.eval_num_samples;
  if (!wanted) return held;
  if (config.format == "Raw" && held < *wanted)
    raise<DataError>("{}: expected {} samples ({}), found {} ({} bytes, record size {})", path,
                     *wanted, split == Split::kTrain ? "num_samples" : "eval_num_samples", held,
                     file_bytes, format.describe_record());
  return std::min(held, *wanted);
}

void shuffle_order(uint64_t seed, int64_t epoch, std::span<int64_t> order) {
  std::iota(order.begin(), order.end(), int64_t{0});
  // Fisher-Yates. 64 random bits scaled to [0, i] are biased by less than i / 2^64.
  for (size_t i = order.size(); i-- > 1;) {
    const random::Block b = random::block(seed, kShuffleStream + static_cast<uint64_t>(epoch), i);
    const uint64_t bits = uint64_t{b.word[0]} << 32 | b.word[1];
    __extension__ using Wide = unsigned __int128;
    const auto j = static_cast<size_t>((Wide{bits} * (i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
}

RawReader::RawReader(const config::DataConfig& config, const std::string& path, Split split,
                     int64_t batch_size, std::span<const int64_t> slot_rows,
                     const RawReaderOptions& options)
    : format_(RawFormat::from(config)),
      options_(options),
      batch_size_(batch_size),
      file_(path),
      samples_(raw_sample_count(config, split, path, file_.size())),
      decoder_(path, format_, slot_rows, config.key_policy),
      end_(0, format_.label_dim, config.dense_width(), format_.keys.columns),
      filled_(options.start_batch),
      taken_(options.start_batch) {
  HLITE_CHECK(batch_size >= 1 && options.start_batch >= 0 && options.ring_slots >= 3,
              "batch size {}, start {}, slots {}", batch_size, options.start_batch,
              options.ring_slots);
  for (int i = 0; i < options.ring_slots; ++i)
    slots_.emplace_back(batch_size, format_.label_dim, config.dense_width(), format_.keys.columns);
  const int64_t record = format_.record_bytes();
  const int64_t piece = std::clamp<int64_t>(kPiece / record, 1, batch_size);
  records_.resize(static_cast<size_t>(piece * record));
  if (options.shuffle) order_.resize(static_cast<size_t>(batches_per_epoch()));
  thread_ = std::thread([this] { read_ahead(); });
}

RawReader::~RawReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool RawReader::at_end(int64_t position) const {
  return !options_.repeat && position >= batches_per_epoch();
}

int64_t RawReader::batch_at(int64_t position) {
  const int64_t n = batches_per_epoch(), epoch = position / n, index = position % n;
  if (!options_.shuffle) return index;
  if (epoch != order_epoch_) {
    shuffle_order(options_.seed, epoch, order_);
    order_epoch_ = epoch;
  }
  return order_[static_cast<size_t>(index)];
}

void RawReader::fill(int64_t position, BatchBuffer& slot) {
  const int64_t record = format_.record_bytes();
  const auto samples_of = [&](int64_t first) { return std::min(batch_size_, samples_ - first); };
  const int64_t first = batch_at(position) * batch_size_, size = samples_of(first);
  const int64_t piece = static_cast<int64_t>(records_.size()) / record;
  slot.set_size(size);
  slot.batch().first_sample = first;
  for (int64_t done = 0; done < size; done += piece) {
    const int64_t n = std::min(piece, size - done);
    const std::span<std::byte> bytes(records_.data(), static_cast<size_t>(n * record));
    file_.read((first + done) * record, bytes);
    slot.batch().replaced_keys += decoder_.decode(bytes, first + done, n, slot.batch(), done);
  }
  // The disk fetches the batch after this one while the consumer computes.
  if (!at_end(position + 1)) {
    const int64_t following = batch_at(position + 1) * batch_size_;
    file_.will_need(following * record, samples_of(following) * record);
  }
}

void RawReader::read_ahead() {
  const auto capacity = static_cast<int64_t>(slots_.size());
  try {
    for (int64_t position = options_.start_batch; !at_end(position); ++position) {
      {
        std::unique_lock lock(mutex_);
        // The slot of batch taken_ - 1 is still being looked at.
        changed_.wait(lock, [&] { return stop_ || position - taken_ < capacity - 1; });
        if (stop_) return;
      }
      fill(position, slots_[static_cast<size_t>(position % capacity)]);
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

const HostBatch& RawReader::next() {
  std::unique_lock lock(mutex_);
  if (at_end(taken_)) return end_.batch();
  if (filled_ == taken_ && !error_) {
    const auto start = std::chrono::steady_clock::now();
    changed_.wait(lock, [&] { return filled_ > taken_ || error_; });
    wait_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  // Batches before the unusable one are good.
  if (filled_ == taken_) std::rethrow_exception(error_);
  const int64_t position = taken_++;
  lock.unlock();
  changed_.notify_all();
  return slots_[static_cast<size_t>(position % static_cast<int64_t>(slots_.size()))].batch();
}

int64_t RawReader::position() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

std::vector<std::span<std::byte>> RawReader::memory() const {
  std::vector<std::span<std::byte>> all;
  for (const BatchBuffer& b : slots_) all.push_back(b.memory());
  return all;
}

}  // namespace hlite::data
