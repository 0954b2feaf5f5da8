#include "embedding/row_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

// Samples that a task looks at; lookups between asking for an entry of the map, reading it and
// asking for its line's use, and reading that.
constexpr int64_t kTaskSamples = 64, kAhead = 16;

}  // namespace

int64_t RowCache::memory_bytes(int64_t rows, int64_t lines, int64_t record_bytes) {
  return rows * static_cast<int64_t>(sizeof(uint32_t)) +
         lines * static_cast<int64_t>(sizeof(Line) + sizeof(uint32_t)) +
         RowLog::memory_bytes(record_bytes);
}

RowCache::RowCache(const RowCacheOptions& options, InitialWeights initial_weights)
    : options_(options), initial_weights_(std::move(initial_weights)) {
  HLITE_CHECK(options.rows < RowLog::kMaxPlaces && options.lines > 0 &&
                  options.lines < RowLog::kMaxPlaces - 1,
              "{}: {} rows, {} lines", options.name, options.rows, options.lines);
  record_bytes_ = part_begin(options.part_bytes.size());
  const std::vector<float> states(
      static_cast<size_t>((record_bytes_ - options.part_bytes[0]) / kFloatBytes),
      options.first_state);
  const auto bytes = std::as_bytes(std::span(states));
  first_states_.assign(bytes.begin(), bytes.end());
}

int64_t RowCache::part_begin(size_t part) const {
  const auto& bytes = options_.part_bytes;
  return std::accumulate(bytes.begin(), bytes.begin() + static_cast<int64_t>(part), int64_t{0});
}

void RowCache::attach(const UpdatedRows& lines) {
  parts_.clear();
  for (const WeightRows& part : {lines.w, WeightRows(lines.state0), WeightRows(lines.state1)})
    if (parts_.size() < options_.part_bytes.size()) {
      HLITE_CHECK(
          part.dim(0) == options_.lines && part.row_bytes() == options_.part_bytes[parts_.size()],
          "{}: lines of {}", options_.name, part.shape());
      parts_.push_back(part.bytes());
    }
  where_ = HostMemory(static_cast<size_t>(options_.rows) * sizeof(uint32_t), "map of rows");
  lines_.resize(static_cast<size_t>(options_.lines));
  uses_.resize(lines_.size());
  passed_.resize((lines_.size() + kGroup - 1) / kGroup);
  clear();
}

void RowCache::clear() {
  std::fill(where().begin(), where().end(), kUntouched);
  std::fill(lines_.begin(), lines_.end(), Line{});
  std::fill(uses_.begin(), uses_.end(), 0u);
  std::fill(passed_.begin(), passed_.end(), 0u);
  hand_ = 0;
  ++version_;
  batch_ = 2 * kBatch;  // no line has been used in it, nor in the one before
  free_lines_ = options_.lines;
  log_ = nullptr;  // before another one takes its memory
  log_ = std::make_unique<RowLog>(RowLogOptions{.folder = options_.folder,
                                                .name = options_.name,
                                                .record_bytes = record_bytes_,
                                                .max_bytes = options_.max_disk_bytes},
                                  [this](uint32_t row, RowLog::Place place) {
                                    uint32_t& at = where()[row];
                                    (in_memory(at) ? lines_[at & ~kLine].place : at) = place;
                                  });
}

// ---- Records ----

void RowCache::to_record(uint32_t line, std::byte* record) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const int64_t bytes = options_.part_bytes[i];
    record = std::copy_n(parts_[i] + line * bytes, bytes, record);
  }
}
void RowCache::from_record(const std::byte* record, uint32_t line) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const int64_t bytes = options_.part_bytes[i];
    std::copy_n(record, bytes, parts_[i] + line * bytes);
    record += bytes;
  }
}
void RowCache::first_record(uint32_t row, std::byte* record) const {
  initial_weights_(row, record);
  std::copy(first_states_.begin(), first_states_.end(), record + options_.part_bytes[0]);
}

// ---- Admission ----

template <typename T, typename Body>
void RowCache::for_each_lookup(Matrix<T> rows, int64_t first, int64_t count, int64_t begin,
                               int64_t end, Body&& body) const {
  const std::span<const uint32_t> map = where();
  struct Position {
    int64_t sample, column;
    void advance(int64_t columns) {
      if (++column == columns) {
        column = 0;
        ++sample;
      }
    }
  };
  Position far{begin, 0}, near{begin, 0}, now{begin, 0};
  const auto row_at = [&](const Position& at) { return rows.row(at.sample) + first + at.column; };
  const int64_t lookups = count == 0 ? 0 : (end - begin) * count;
  for (int64_t i = -2 * kAhead; i < lookups; ++i) {
    if (i + 2 * kAhead < lookups) {
      if (const uint32_t row = *row_at(far); row < map.size()) __builtin_prefetch(&map[row]);
      far.advance(count);
    }
    if (i + kAhead >= 0 && i + kAhead < lookups) {
      if (const uint32_t row = *row_at(near); row < map.size() && in_memory(map[row]))
        __builtin_prefetch(&uses_[map[row] & ~kLine], 1);
      near.advance(count);
    }
    if (i < 0) continue;
    if (T* const row = row_at(now); *row < map.size()) body(row);
    now.advance(count);
  }
}

// Threads write the same value to the same line.
void RowCache::use(uint32_t line, bool training) {
  const std::atomic_ref<uint32_t> use(uses_[line]);
  const uint32_t before = use.load(std::memory_order_relaxed),
                 after = batch_ | (before & kChanged) | (training ? kChanged : 0);
  if (after != before) use.store(after, std::memory_order_relaxed);
}

void RowCache::choose(const Exec& exec, Matrix<uint32_t> rows, int64_t first, int64_t count,
                      bool training) {
  begin_batch();
  const std::span<uint32_t> map = where();
  const int64_t tasks = (rows.dim(0) + kTaskSamples - 1) / kTaskSamples;
  if (std::ssize(missed_) < tasks) missed_.resize(static_cast<size_t>(tasks));
  std::atomic<int64_t> lookups = 0;
  exec.threads().run(tasks, [&](int64_t task, int) {
    auto& missed = missed_[static_cast<size_t>(task)];
    missed.clear();
    int64_t looked_up = 0;
    const int64_t begin = task * kTaskSamples, end = std::min(rows.dim(0), begin + kTaskSamples);
    for_each_lookup(rows, first, count, begin, end, [&](uint32_t* row) {
      ++looked_up;
      if (const uint32_t at = map[*row]; in_memory(at))
        use(*row = at & ~kLine, training);
      else
        missed.push_back(row);
    });
    lookups.fetch_add(looked_up, std::memory_order_relaxed);
  });
  counts_.lookups += lookups;
  counts_.resident += lookups;
  fetches_.clear();
  evicted_.clear();
  victim_rows_.clear();
  victim_lines_.clear();
  for (int64_t task = 0; task < tasks; ++task)
    for (uint32_t* const row : missed_[static_cast<size_t>(task)]) {
      --counts_.resident;
      const uint32_t at = map[*row];
      *row = in_memory(at) ? at & ~kLine : take_line(*row, training);
    }
}

void RowCache::will_change(const Exec& exec, Matrix<const uint32_t> lines, int64_t first,
                           int64_t count) {
  exec.threads().parallel_for(lines.dim(0), kTaskSamples, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t c = first; c < first + count; ++c)
        if (const uint32_t line = lines(b, c); line < lines_.size()) use(line, true);
  });
}

void RowCache::fill(const Exec& exec) {
  if (fetches_.empty()) return;
  save_victims(exec);
  fetch(exec);
  write_victims();
}

// Batches are counted in 31 bits: long before they end, all lines are of an early one again, but
// for those of the batch before this one.
void RowCache::begin_batch() {
  constexpr uint32_t kLast = 0xfffffff0u;
  ++version_;
  batch_ += kBatch;
  if (batch_ < kLast) return;
  for (uint32_t& use : uses_)
    use = (use & kChanged) | ((use & ~kChanged) == batch_ - kBatch ? kBatch : 0);
  std::fill(passed_.begin(), passed_.end(), 0u);
  batch_ = 2 * kBatch;
}

// A line for a row that has none.
uint32_t RowCache::take_line(uint32_t row, bool training) {
  for (int64_t spared = 0;; ++spared) {
    if (spared > 2 * options_.lines)
      raise<DataError>(
          "embedding {}: {} more distinct rows than the {} that "
          "solver.embedding_memory.host_gb can hold",
          options_.name, options_.batches_in_use == 1 ? "a batch has" : "two batches have",
          options_.lines);
    const int64_t last = hand_ / kGroup;
    hand_ = hand_ + 1 < lines_.size() ? hand_ + 1 : 0;
    if (hand_ / kGroup != last || hand_ == 0) passed_[static_cast<size_t>(last)] = batch_;
    const uint32_t used = uses_[hand_] & ~kChanged;
    if (used < first_in_use() && used <= passed_[hand_ / kGroup]) break;
  }
  free_line(hand_);
  uint32_t& at = where()[row];
  fetches_.push_back({row, hand_, at});
  lines_[hand_] = {.row = row, .place = at};
  uses_[hand_] = batch_ | (training ? kChanged : 0);
  at = kLine | hand_;
  return hand_;
}

// The row of the line goes to the disk if it has changed, and else where it came from.
void RowCache::free_line(uint32_t line) {
  const Line& of = lines_[line];
  if (of.row == kNone) {
    free_lines_ = std::max<int64_t>(0, free_lines_ - 1);
    return;
  }
  evicted_.push_back(of.row);
  if (uses_[line] & kChanged) {
    victim_rows_.push_back(of.row);
    victim_lines_.push_back(line);
    if (of.place != kNone) log_->drop(of.place);
  }
  where()[of.row] = uses_[line] & kChanged ? kUntouched : of.place;
}

// Copies, since other rows take their lines before the write to the disk has started.
void RowCache::save_victims(const Exec& exec) {
  victims_.resize(victim_rows_.size() * static_cast<size_t>(record_bytes_));
  exec.threads().parallel_for(std::ssize(victim_lines_), 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to_record(victim_lines_[static_cast<size_t>(i)], victims_.data() + i * record_bytes_);
  });
}

void RowCache::fetch(const Exec& exec) {
  const auto on_disk = std::stable_partition(fetches_.begin(), fetches_.end(),
                                             [](const Fetch& f) { return f.place != kUntouched; });
  const int64_t stored = on_disk - fetches_.begin(), all = std::ssize(fetches_);
  fetched_.resize(static_cast<size_t>(all * record_bytes_));
  std::vector<RowLog::Read> reads(static_cast<size_t>(stored));
  for (int64_t i = 0; i < stored; ++i)
    reads[static_cast<size_t>(i)] = {fetches_[static_cast<size_t>(i)].place,
                                     fetched_.data() + i * record_bytes_};
  log_->get(std::move(reads));
  exec.threads().parallel_for(all, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Fetch& of = fetches_[static_cast<size_t>(i)];
      std::byte* const record = fetched_.data() + i * record_bytes_;
      if (i >= stored) first_record(of.row, record);
      from_record(record, of.line);
    }
  });
  for (int64_t i = 0; i < stored; ++i) {
    const Fetch& of = fetches_[static_cast<size_t>(i)];
    if (!(uses_[of.line] & kChanged)) continue;
    log_->drop(of.place);
    lines_[of.line].place = kNone;
  }
  counts_.fetched += stored;
  counts_.first += all - stored;
}

void RowCache::write_victims() {
  for (size_t i = 0; i < victim_rows_.size(); ++i) {
    const std::byte* const record = victims_.data() + static_cast<int64_t>(i) * record_bytes_;
    // put() comes first, as it may move other rows and change their entries.
    const RowLog::Place place = log_->put(victim_rows_[i], record);
    where()[victim_rows_[i]] = place;
  }
  counts_.written += std::ssize(victim_rows_);
}

void RowCache::prefetch(const Exec& exec, Matrix<const uint32_t> rows, int64_t first,
                        int64_t count) {
  const std::span<const uint32_t> map = where();
  const int64_t tasks = (rows.dim(0) + kTaskSamples - 1) / kTaskSamples;
  std::vector<std::vector<RowLog::Place>> places(static_cast<size_t>(tasks));
  exec.threads().run(tasks, [&](int64_t task, int) {
    const int64_t begin = task * kTaskSamples, end = std::min(rows.dim(0), begin + kTaskSamples);
    for_each_lookup(rows, first, count, begin, end, [&](const uint32_t* row) {
      if (const uint32_t at = map[*row]; at < kLine)
        places[static_cast<size_t>(task)].push_back(at);
    });
  });
  std::vector<RowLog::Place> all;
  for (const auto& of_task : places) all.insert(all.end(), of_task.begin(), of_task.end());
  log_->prefetch(std::move(all));
}

// ---- Files ----

void RowCache::read_record(uint32_t row, std::byte* record) {
  const uint32_t at = where()[row];
  if (in_memory(at)) return to_record(at & ~kLine, record);
  if (at == kUntouched) return first_record(row, record);
  log_->get({{at, record}});
}

void RowCache::read(size_t part, std::span<const uint32_t> rows, void* out) {
  const int64_t bytes = options_.part_bytes[part], before = part_begin(part);
  std::vector<RowLog::Read> reads;
  std::vector<std::byte> records(rows.size() * static_cast<size_t>(record_bytes_));
  const auto record = [&](size_t i) {
    return records.data() + static_cast<int64_t>(i) * record_bytes_;
  };
  for (size_t i = 0; i < rows.size(); ++i)
    if (const uint32_t at = where()[rows[i]]; at < kLine)
      reads.push_back({at, record(i)});
    else
      read_record(rows[i], record(i));
  log_->get(std::move(reads));
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(record(i) + before, bytes,
                static_cast<std::byte*>(out) + static_cast<int64_t>(i) * bytes);
}

void RowCache::write(size_t part, std::span<const uint32_t> rows, const void* in) {
  const auto bytes = static_cast<size_t>(options_.part_bytes[part]);
  std::vector<std::byte> record(static_cast<size_t>(record_bytes_));
  std::byte* const values = record.data() + part_begin(part);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::byte* const from = static_cast<const std::byte*>(in) + i * bytes;
    read_record(rows[i], record.data());
    if (std::memcmp(values, from, bytes) == 0) continue;
    std::memcpy(values, from, bytes);
    const uint32_t at = where()[rows[i]];
    if (in_memory(at)) {
      from_record(record.data(), at & ~kLine);
      use(at & ~kLine, true);
    } else if (at == kUntouched && free_lines_ > 0) {  // the hand has come by none of them yet
      from_record(record.data(), take_line(rows[i], true));
      fetches_.clear();
    } else {
      if (at != kUntouched) log_->drop(at);
      const auto place = log_->put(rows[i], record.data());
      where()[rows[i]] = place;
    }
  }
  begin_batch();  // no batch is in use any more
}

// The hand finds the lines that rows leave in its turn. They are not among free_lines_, which
// write() knows to be next.
void RowCache::close_up(std::span<const uint32_t> from, std::span<const uint32_t> to,
                        std::span<const uint32_t> evicted) {
  const std::span<uint32_t> map = where();
  ++version_;
  for (const uint32_t row : evicted) {
    const uint32_t at = std::exchange(map[row], kUntouched);
    if (in_memory(at)) {
      Line& line = lines_[at & ~kLine];
      if (line.place != kNone) log_->drop(line.place);
      line = {};
      uses_[at & ~kLine] = 0;
    } else if (at != kUntouched) {
      log_->drop(at);
    }
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const uint32_t at = std::exchange(map[from[i]], kUntouched);
    map[to[i]] = at;
    if (at == kUntouched) continue;
    const uint32_t place = in_memory(at) ? lines_[at & ~kLine].place : at;
    if (in_memory(at)) lines_[at & ~kLine].row = to[i];
    if (place != kNone) log_->rename(place, to[i]);
  }
}

std::vector<uint32_t> RowCache::touched() const {
  std::vector<uint32_t> rows;
  for (int64_t row = 0; row < options_.rows; ++row) {
    const uint32_t at = where()[static_cast<size_t>(row)];
    if (at == kUntouched) continue;
    if (in_memory(at)) {
      const uint32_t line = at & ~kLine;
      if (!(uses_[line] & kChanged) && lines_[line].place == kNone) continue;
    }
    rows.push_back(static_cast<uint32_t>(row));
  }
  return rows;
}

}  // namespace hlite::embedding
