#include "hugectr_lite/preparation/io/parquet_text.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/preparation/io/parquet_fields.h"

namespace hlite::prep {

namespace {

using data::parquet::ParquetColumn;
using data::parquet::ParquetFile;
using data::parquet::ValueType;

constexpr size_t kChunkBytes = size_t{1} << 18;  // of text handed over at a time
constexpr size_t kChunksAhead = 8;               // of one row group
// The stored size of the row groups that are worked at.
constexpr int64_t kGroupBytes = int64_t{256} << 20;

class ParquetText final : public InputStream {
 public:
  ParquetText(std::unique_ptr<StoredBytes> stored, const TextForm& form, int threads)
      : InputStream(std::move(stored)), file_(name()), form_(form) {
    find_columns();
    if (form_.header) add_header();
    const auto wanted = std::min<size_t>(static_cast<size_t>(threads), file_.groups().size());
    for (size_t t = 0; t < wanted; ++t) threads_.emplace_back([this] { work(); });
  }

  ~ParquetText() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  [[nodiscard]] int64_t stored_bytes_read() const override { return stored_read_; }

 private:
  // A row group on its way.
  struct TextGroup {
    std::deque<std::string> chunks;
    bool ended = false;
    std::exception_ptr failure;  // after the chunks
  };

  void find_columns() {
    const std::vector<int> all = columns_of_lines(file_, form_);
    for (size_t i = 0; i < all.size(); ++i) {
      const ParquetColumn& column = file_.columns()[static_cast<size_t>(all[i])];
      const auto index = static_cast<int64_t>(i);
      const bool hexadecimal = form_.first_hexadecimal >= 0 && index >= form_.first_hexadecimal;
      if (form_.wanted && !form_.wanted(index, column.name)) {
        columns_.push_back({-1, false});
        names_.push_back(column.name);
        continue;
      }
      if (!column.readable || column.is_list())
        raise<DataError>("{}: column \"{}\": expected numbers or texts, found {}", name(),
                         column.name, column.type);
      if (hexadecimal && !column.is_integer() && column.values != ValueType::kText)
        raise<DataError>("{}: column \"{}\": expected integers or hexadecimal digits, found {}",
                         name(), column.name, column.type);
      columns_.push_back({all[i], hexadecimal});
      names_.push_back(column.name);
    }
  }

  void add_header() {
    LineBuffer line(kChunkBytes);
    for (size_t i = 0; i < names_.size(); ++i) {
      if (i > 0) line.add(form_.separator);
      if (!add_field(names_[i], form_, line))
        raise<DataError>("{}: column {}: expected a name without line feed, found {}", name(), i,
                         in_quotes(names_[i]));
    }
    line.add('\n');
    current_ = line.text();
  }

  size_t decode(char* out, size_t bytes) override {
    if (taken_ == current_.size() && !next_chunk()) return 0;
    const size_t n = std::min(bytes, current_.size() - taken_);
    std::memcpy(out, current_.data() + taken_, n);
    taken_ += n;
    return n;
  }

  bool next_chunk() {
    std::unique_lock lock(mutex_);
    while (front_ < file_.groups().size()) {
      TextGroup& group = groups_[front_];
      changed_.wait(lock, [&] { return !group.chunks.empty() || group.ended; });
      if (!group.chunks.empty()) {
        current_ = std::move(group.chunks.front());
        taken_ = 0;
        group.chunks.pop_front();
        changed_.notify_all();
        return true;
      }
      if (group.failure) std::rethrow_exception(group.failure);
      const int64_t bytes = file_.groups()[front_].stored_bytes;
      stored_read_ += bytes;
      held_bytes_ -= bytes;
      groups_.erase(front_++);
      changed_.notify_all();
    }
    return false;
  }

  // The next row group that no thread has begun, when there is memory for it; the front one in any
  // case.
  [[nodiscard]] bool may_begin() const {
    return begun_ == front_ || held_bytes_ + file_.groups()[begun_].stored_bytes <= kGroupBytes;
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || begun_ == file_.groups().size() || may_begin(); });
      if (stop_ || begun_ == file_.groups().size()) return;
      const size_t number = begun_++;
      held_bytes_ += file_.groups()[number].stored_bytes;
      TextGroup& group = groups_[number];
      lock.unlock();
      std::exception_ptr failure;
      try {
        write(static_cast<int>(number), group);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      group.failure = failure;
      group.ended = true;
      changed_.notify_all();
    }
  }

  // The lines of a row group.
  void write(int number, TextGroup& group) {
    std::vector<std::unique_ptr<ParquetFields>> fields;
    for (const auto& [column, hexadecimal] : columns_)
      fields.push_back(
          column < 0 ? nullptr
                     : std::make_unique<ParquetFields>(file_, number, column, form_, hexadecimal));
    const int64_t rows = file_.groups()[static_cast<size_t>(number)].rows;
    LineBuffer lines(kChunkBytes + kChunkBytes / 8);
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < fields.size(); ++i) {
        if (i > 0) lines.add(form_.separator);
        if (fields[i]) fields[i]->add_to(lines);
      }
      lines.add('\n');
      if (lines.size() < kChunkBytes && row + 1 < rows) continue;
      if (!hand_over(std::string(lines.text()), group)) return;
      lines.clear();
    }
  }

  // False when it is not wanted any more.
  bool hand_over(std::string chunk, TextGroup& group) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || group.chunks.size() < kChunksAhead; });
    if (stop_) return false;
    group.chunks.push_back(std::move(chunk));
    changed_.notify_all();
    return true;
  }

  const ParquetFile file_;
  const TextForm form_;
  struct TextColumn {
    int index;  // of the file; -1: left empty
    bool hexadecimal;
  };
  std::vector<TextColumn> columns_;
  std::vector<std::string> names_;
  std::string current_;  // being handed out from taken_ on
  size_t taken_ = 0;
  int64_t stored_read_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<size_t, TextGroup> groups_;  // from front_ on
  size_t front_ = 0, begun_ = 0;
  int64_t held_bytes_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace

std::vector<int> columns_of_lines(const ParquetFile& file, const TextForm& form) {
  std::vector<int> columns;
  for (const std::string& name : form.names)
    if (const auto found = file.find(name)) columns.push_back(*found);
  if (!form.names.empty() && columns.size() == form.names.size()) return columns;
  columns.resize(file.columns().size());
  std::iota(columns.begin(), columns.end(), 0);
  return columns;
}

std::unique_ptr<InputStream> open_parquet_text(std::unique_ptr<StoredBytes> stored,
                                               const TextForm& form, int threads) {
  return std::make_unique<ParquetText>(std::move(stored), form, threads);
}

}  // namespace hlite::prep
