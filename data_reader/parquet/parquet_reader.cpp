#include "data_reader/parquet/parquet_reader.h"

#include <algorithm>
#include <cstring>

#include "data_reader/parquet/parquet_library.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::data::parquet {
namespace {

constexpr int64_t kMaxAhead = int64_t{1} << 30;  // bytes of decoded groups
constexpr int64_t kMaxThreads = 64;
// Limits planning where memory does not: a shard may have no rows in any batch.
constexpr int64_t kMaxBatchesAhead = 4096;
// Rows copied at a time; sources and destination then stay in the cache.
constexpr int64_t kTileRows = 256;

int64_t thread_count(const config::DataConfig& config, const SourceOptions& options) {
  const int64_t own = std::max<int64_t>(1, available_threads() / options.shard.count);
  return std::min(config.num_workers.value_or(own), kMaxThreads);
}

// Batches in memory: one for each thread, one in use, and two that wait.
int64_t slot_count(int64_t threads) { return threads + 3; }

int64_t group_budget(const SourceOptions& options) {
  return std::min(kMaxAhead, available_memory_bytes() / 8 / options.shard.count);
}

}  // namespace

ParquetReader::ParquetReader(const config::DataConfig& config, const std::string& path, Split split,
                             int64_t batch_size, std::span<const int64_t> slot_rows,
                             const SourceOptions& options)
    : BatchRing(config, batch_size, options),
      set_(config, path),
      decoder_(config, slot_rows),
      thread_count_(thread_count(config, options)) {
  HLITE_CHECK(!options.shuffle && !options.shuffle_samples,
              "Parquet files are read in order and cannot be shuffled");
  set_samples(config, split, path, set_.rows());
  make_slots(options.resident
                 ? batches_per_epoch()
                 : std::min<int64_t>(batches_per_epoch() + 1, slot_count(thread_count_)));
  groups_in_use_ = set_.group_of(samples() - 1) + 1;
  budget_ = group_budget(options);
  planned_ = next_ = options.start_batch;
}

ParquetReader::~ParquetReader() {
  stop();
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
  join_threads();
}

void ParquetReader::start_threads() {
  for (int64_t t = 0; t < thread_count_; ++t) start_thread([this] { work(); });
}

ParquetReader::Span ParquetReader::span_of(int64_t position) const {
  const int64_t epoch = position / batches_per_epoch(), batch = position % batches_per_epoch();
  const BatchRows rows = rows_of_batch(batch, samples(), batch_size(), options().shard);
  Span span{.first_row = rows.first_sample, .rows = rows.size};
  const int64_t before = epoch * groups_in_use_;
  span.first_group = before + set_.group_of(std::min(span.first_row, samples() - 1));
  span.end_group = rows.size == 0 ? span.first_group
                                  : before + set_.group_of(span.first_row + rows.size - 1) + 1;
  return span;
}

int64_t ParquetReader::group_bytes(int64_t number) const {
  const auto& group = set_.groups()[static_cast<size_t>(number % groups_in_use_)];
  int64_t words = 0;
  for (int64_t c = 0; c < decoder_.columns(); ++c) words += decoder_.width(c);
  return 4 * words * std::min(group.rows, samples() - group.first_row);
}

// Adds the next group that a batch needs, if there is memory for it; for the oldest batch, always.
// Returns whether it added one.
bool ParquetReader::begin_group() {
  for (const int64_t end = std::min(gate().end, next_ + kMaxBatchesAhead); planned_ < end;
       ++planned_) {
    const Span span = span_of(planned_);
    planned_group_ = std::max(planned_group_, span.first_group);
    if (planned_group_ >= span.end_group) continue;
    const int64_t bytes = group_bytes(planned_group_);
    if (planned_ > next_ && held_bytes_ + bytes > budget_) return false;
    const auto& group = set_.groups()[static_cast<size_t>(planned_group_ % groups_in_use_)];
    Group& added = groups_[planned_group_++];
    added.rows = std::min(group.rows, samples() - group.first_row);
    added.columns.resize(static_cast<size_t>(decoder_.columns()));
    held_bytes_ += bytes;
    return true;
  }
  return false;
}

// Decodes a column of the first group that has some left. Returns false if none has.
bool ParquetReader::decode_one(Lock& lock) {
  const auto left = [](const auto& entry) {
    return entry.second.next < std::ssize(entry.second.columns);
  };
  auto found = std::find_if(groups_.begin(), groups_.end(), left);
  if (found == groups_.end() && begin_group())
    found = std::find_if(groups_.begin(), groups_.end(), left);
  if (found == groups_.end()) return false;
  Group& group = found->second;  // stays: it is dropped when all of its columns are decoded
  const int64_t column = group.next++;
  const auto& place = set_.groups()[static_cast<size_t>(found->first % groups_in_use_)];
  lock.unlock();
  const auto start = Clock::now();
  const ParquetFile& file = set_.file(place.file);
  const int index = set_.column_of(place.file, column);
  DecodedColumn decoded = decoder_.decode(file, place.index, index, column, group.rows);
  add_bytes_read(file.stored_bytes(place.index, index));
  add_decoding(Clock::now() - start);
  lock.lock();
  group.columns[static_cast<size_t>(column)] = std::move(decoded);
  if (++group.finished == std::ssize(group.columns)) find_problem(place, group);
  changed_.notify_all();
  return true;
}

// Keeps the problem of the first unusable row; if several columns have one there, of the first column.
void ParquetReader::find_problem(const ParquetSet::Group& place, Group& group) const {
  for (const DecodedColumn& column : group.columns) {
    if (column.bad_row < 0 || (group.bad_row >= 0 && column.bad_row >= group.bad_row)) continue;
    group.bad_row = column.bad_row;
    group.problem = column.problem;
  }
  if (const auto uneven = decoder_.find_uneven(group.columns);
      uneven && (group.bad_row < 0 || uneven->row < group.bad_row)) {
    const auto& [row, a, b] = *uneven;
    const ParquetFile& file = set_.file(place.file);
    const auto name = [&](int64_t column) {
      const auto index = static_cast<size_t>(set_.column_of(place.file, column));
      return fmt::format("column \"{}\"", file.columns()[index].name);
    };
    const auto keys = [&](int64_t column) {
      return group.columns[static_cast<size_t>(column)].lengths[static_cast<size_t>(row)];
    };
    group.bad_row = row;
    group.problem = fmt::format("{}, row {}: {}", file.path(),
                                file.groups()[static_cast<size_t>(place.index)].first_row + row,
                                HistoryCheck::uneven(name(a), keys(a), name(b), keys(b)));
  }
  for (DecodedColumn& column : group.columns) column.lengths = {};
}

// Assembles the next batch if its groups are decoded and its slot is free; with `wait`, waits for the
// slot. Returns false if there was nothing to do.
bool ParquetReader::assemble_one(Lock& lock, bool wait) {
  const int64_t position = next_;
  const Gate now = gate();
  if (position >= now.end || (!wait && !is_free(position, now))) return false;
  const Span span = span_of(position);
  // These groups stay while the batch is in assembling_.
  std::vector<std::pair<int64_t, const Group*>> groups;
  for (int64_t g = span.first_group; g < span.end_group; ++g) {
    const auto group = groups_.find(g);
    if (group == groups_.end() || !group->second.decoded()) return false;
    groups.emplace_back(g, &group->second);
  }
  ++next_;
  assembling_.insert(position);
  lock.unlock();
  if (wait_until_free(position)) {
    try {
      const auto start = Clock::now();
      assemble(position, span, groups);
      add_decoding(Clock::now() - start);
      set_ready(position);
    } catch (...) {
      fail(position, std::current_exception());
    }
  }
  lock.lock();
  assembling_.erase(position);
  drop_used();
  changed_.notify_all();
  return true;
}

void ParquetReader::assemble(int64_t position, const Span& span,
                             std::span<const std::pair<int64_t, const Group*>> groups) {
  HostBatch& batch = begin_batch(position, position % batches_per_epoch());
  int64_t row = 0;
  for (const auto& [number, group] : groups) {
    const auto& place = set_.groups()[static_cast<size_t>(number % groups_in_use_)];
    const int64_t first = span.first_row + row - place.first_row;
    const int64_t rows = std::min(span.rows - row, group->rows - first);
    if (group->bad_row >= 0 && group->bad_row < first + rows) throw DataError(group->problem);
    copy_rows(*group, first, rows, batch, row);
    row += rows;
  }
}

void ParquetReader::copy_rows(const Group& group, int64_t first, int64_t rows, HostBatch& batch,
                              int64_t row) const {
  const auto* columns = group.columns.data();
  for (int64_t c = 0; c < decoder_.columns(); ++c) {
    const auto& replaced = columns[c].replaced;
    const auto begin = std::lower_bound(replaced.begin(), replaced.end(), first);
    batch.replaced_keys += std::lower_bound(begin, replaced.end(), first + rows) - begin;
  }
  for (int64_t tile = 0; tile < rows; tile += kTileRows) {
    const int64_t count = std::min(kTileRows, rows - tile), from = first + tile, to = row + tile;
    int64_t key = 0;
    for (int64_t c = 0; c < decoder_.columns(); ++c) {
      const int64_t width = decoder_.width(c);
      const uint32_t* words = columns[c].words.get() + from * width;
      const bool is_label = c < decoder_.label_width();
      if (decoder_.is_slot(c)) {
        uint32_t* keys = batch.keys.row(to) + key;
        const int64_t stride = batch.keys.dim(1);
        if (width == 1)
          for (int64_t i = 0; i < count; ++i) keys[i * stride] = words[i];
        else
          for (int64_t i = 0; i < count; ++i)
            std::copy_n(words + i * width, width, keys + i * stride);
        key += width;
        continue;
      }
      float* out =
          is_label ? batch.labels.row(to) + c : batch.dense.row(to) + (c - decoder_.label_width());
      const int64_t stride = is_label ? batch.labels.dim(1) : batch.dense.dim(1);
      for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * stride, words + i, sizeof(float));
    }
  }
}

// Drops the groups before the oldest unfinished batch.
void ParquetReader::drop_used() {
  const int64_t oldest = assembling_.empty() ? next_ : *assembling_.begin();
  const int64_t first = span_of(oldest).first_group;
  while (!groups_.empty() && groups_.begin()->first < first && groups_.begin()->second.decoded()) {
    held_bytes_ -= group_bytes(groups_.begin()->first);
    groups_.erase(groups_.begin());
  }
}

void ParquetReader::work() {
  Lock lock(mutex_);
  try {
    while (!stopped() && next_ < gate().end) {
      if (assemble_one(lock, false) || decode_one(lock) || assemble_one(lock, true)) continue;
      if (stopped() || next_ >= gate().end) break;
      changed_.wait(lock);
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    fail(assembling_.empty() ? next_ : std::min(next_, *assembling_.begin()),
         std::current_exception());
  }
  changed_.notify_all();
}

namespace {

class ParquetRecords final : public RecordFormat {
 public:
  [[nodiscard]] std::unique_ptr<BatchSource> open(const config::DataConfig& config,
                                                  const std::string& path, Split split,
                                                  int64_t batch_size,
                                                  std::span<const int64_t> slot_rows,
                                                  const SourceOptions& options) const override {
    return std::make_unique<ParquetReader>(config, path, split, batch_size, slot_rows, options);
  }
  [[nodiscard]] int64_t memory_bytes(const config::DataConfig& config, int64_t rows,
                                     int64_t row_bytes, int64_t samples,
                                     const SourceOptions& options) const override {
    return slot_count(thread_count(config, options)) * rows * row_bytes +
           std::min(group_budget(options), samples * row_bytes);
  }
  [[nodiscard]] bool holds_samples() const override { return true; }
  [[nodiscard]] std::vector<std::string> files(const std::string& path) const override {
    return ParquetSource::find(path).files;
  }
  [[nodiscard]] std::string why_missing() const override { return parquet::why_missing(); }
};

}  // namespace

const RecordFormat& parquet_records() {
  static const ParquetRecords records;
  return records;
}

}  // namespace hlite::data::parquet
