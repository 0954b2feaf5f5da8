#include "data_reader/shuffled_source.h"

#include <algorithm>

#include "data_reader/batch_order.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::data {
namespace {

template <typename T>
void copy_row(const Matrix<T>& from, int64_t i, const Matrix<T>& to, int64_t j) {
  std::copy_n(from.row(i), from.dim(1), to.row(j));
}

}  // namespace

ShuffledSource::ShuffledSource(const config::DataConfig& config, std::unique_ptr<BatchSource> all,
                               const SourceOptions& options)
    : BatchRing(config, all->batch_size(), options), all_(std::move(all)) {
  HLITE_CHECK(all_->position() == 0, "the source is at batch {}", all_->position());
  set_samples(all_->samples());
  make_slots(kSlots);
}

void ShuffledSource::start_threads() {
  start_thread([this] { fill_in_order([this](int64_t position) { return fill(position); }); });
}

void ShuffledSource::load() {
  for (int64_t b = 0; b < all_->batches_per_epoch() && !stopped(); ++b)
    batches_.push_back(&all_->next());
  add_bytes_read(all_->bytes_read());
  replaced_keys_ = all_->replaced_keys();
}

bool ShuffledSource::fill(int64_t position) {
  const int64_t epoch = position / batches_per_epoch(), index = position % batches_per_epoch();
  if (batches_.empty()) load();
  if (stopped()) return false;
  const auto start = Clock::now();
  if (epoch != epoch_) {
    order_.resize(static_cast<size_t>(samples()));
    shuffle_order(options().seed, epoch, order_);
    epoch_ = epoch;
  }
  HostBatch& batch = begin_batch(position, index);
  for (int64_t i = 0; i < batch.size; ++i) {
    const int64_t sample = order_[static_cast<size_t>(batch.first_sample + i)];
    const HostBatch& from = *batches_[static_cast<size_t>(sample / batch_size())];
    const int64_t row = sample % batch_size();
    copy_row(from.labels, row, batch.labels, i);
    copy_row(from.dense, row, batch.dense, i);
    copy_row(from.keys, row, batch.keys, i);
  }
  // The samples that have them are not kept: they count as distributed evenly over an epoch.
  const auto replaced_before = [this](int64_t sample) {
    return replaced_keys_ / samples() * sample + replaced_keys_ % samples() * sample / samples();
  };
  batch.replaced_keys =
      replaced_before(batch.first_sample + batch.size) - replaced_before(batch.first_sample);
  add_decoding(Clock::now() - start);
  return true;
}

int64_t shuffled_sample(uint64_t seed, int64_t epoch, int64_t samples, int64_t sample) {
  std::vector<int64_t> order(static_cast<size_t>(samples));
  shuffle_order(seed, epoch, order);
  return order[static_cast<size_t>(sample)];
}

std::unique_ptr<BatchSource> open_shuffled_source(const config::DataConfig& config,
                                                  const std::string& path, Split split,
                                                  int64_t batch_size,
                                                  std::span<const int64_t> slot_rows,
                                                  const SourceOptions& options) {
  SourceOptions whole;
  whole.max_samples = options.max_samples;
  const auto streaming = open_source(config, path, split, batch_size, slot_rows, whole);
  const auto bytes =
      static_cast<int64_t>(streaming->memory().front().size()) * streaming->batches_per_epoch();
  // Ranks of one machine hold the set each.
  const int64_t wanted = bytes * options.shard.count, available = available_memory_bytes();
  if (wanted > available / 2)
    raise<DataError>(
        "{}: expected a set that fits into half of the available memory ({} MB), as "
        "shuffle_samples keeps it there, found one that takes {} MB{}; shuffle it when it is "
        "prepared (--shuffle), and use async_param.shuffle",
        path, available / 1'000'000, wanted / 1'000'000,
        options.shard.count > 1 ? fmt::format(" on {} ranks", options.shard.count) : "");
  whole.repeat = false;
  whole.resident = true;
  return std::make_unique<ShuffledSource>(
      config, open_source(config, path, split, batch_size, slot_rows, whole), options);
}

}  // namespace hlite::data
