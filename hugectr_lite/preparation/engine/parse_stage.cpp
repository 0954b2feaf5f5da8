#include "hugectr_lite/preparation/engine/parse_stage.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/preparation/engine/block_parser.h"
#include "hugectr_lite/preparation/engine/block_reader.h"

namespace hlite::prep {

namespace {

constexpr int64_t kBadRowsShown = 20;
// Of files that are read by columns: some more than threads, which have an even share then.
constexpr size_t kLanesOfThread = 4;

// kText: of lines. kColumns: for the lanes of a file that is read by columns. kTaken: by all lanes
// of the sink.
enum class BlockState {
  kFree,
  kText,
  kColumns,
  kParsing,
  kParsed,
  kPlaced,
  kTaken,
  kWriting,
  kWritten,
  kDone
};

// A slot of the ring: what was read, and what became of it.
struct TextBlock : InputBlock {
  BlockState step = BlockState::kFree;
  std::exception_ptr failure;  // instead of all that
  int failed_lane = 0;
  PlacedRows rows;
  int lanes_left = 0;  // of the file, then of the sink
};

class ParsePipeline {
 public:
  ParsePipeline(const PrepOptions& options, RowParser& parser, BlockSink& sink, ParseState& state,
                const std::function<void(const ParseState&)>& save, StageProgress& progress,
                int threads)
      : options_(options),
        sink_(sink),
        state_(state),
        save_(save),
        progress_(progress),
        block_parser_(parser.layout(), options),
        read_ahead_(static_cast<size_t>(threads)),
        ring_(static_cast<size_t>(threads) * 2 + 2),
        column_lanes_(std::min(static_cast<size_t>(threads) * kLanesOfThread,
                               static_cast<size_t>(parser.layout().columns()))),
        reader_(options, parser, static_cast<int>(column_lanes_.size()), state.first_lines),
        lanes_(static_cast<size_t>(sink.lanes())),
        placed_rows_(state.rows),
        placed_train_(state.rows_of("train")),
        placed_bad_(state.bad_rows()) {}

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (InterruptGuard::requested()) stop_ = true;
      try {
        if (TextBlock* taken = find(BlockState::kTaken)) {
          write(*taken, lock);
        } else if (const auto lane = waiting_lane()) {
          take(*lane, lock);
        } else if (stop_ || failure_) {
          break;
        } else if (may_read()) {
          read(block(read_), lock);
        } else if (const auto columns = waiting_column_lane()) {
          parse_columns(*columns, lock);
        } else if (TextBlock* text = find(BlockState::kText)) {
          parse(*text, lock);
        } else if (ended_ && committed_ == read_) {
          break;
        } else {
          changed_.wait(lock);
        }
      } catch (...) {
        keep_failure(lock);
      }
      changed_.notify_all();
    }
  }

  // Appends blocks until all are that were written when end() was called, or it fails.
  void append_all() {
    std::unique_lock lock(mutex_);
    try {
      for (;; changed_.notify_all()) {
        if (committed_ < read_ && block(committed_).step == BlockState::kWritten) {
          TextBlock& next = block(committed_);
          lock.unlock();
          sink_.append(next.rows);
          lock.lock();
          next.step = BlockState::kDone;
          commit(lock);
        } else if (ended_working_) {
          return;
        } else {
          changed_.wait(lock);
        }
      }
    } catch (...) {
      keep_failure(lock);
      changed_.notify_all();
    }
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_working_ = true;
    changed_.notify_all();
  }

  // After the last thread has left work().
  void finish() {
    if (failure_) std::rethrow_exception(failure_);
    if (stop_) throw Interrupted();
    state_.done = true;
    save_(state_);
  }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Lane {
    size_t next = 0;  // block
    bool busy = false;
  };

  TextBlock& block(size_t number) { return ring_[number % ring_.size()]; }

  void keep_failure(Lock& lock) {
    if (!lock.owns_lock()) lock.lock();
    if (!failure_) failure_ = std::current_exception();
  }

  // The first block in order that waits for this step.
  TextBlock* find(BlockState step) {
    for (size_t at = committed_; at < read_; ++at) {
      if (block(at).step == step) return &block(at);
    }
    return nullptr;
  }

  // A lane of the sink whose next block is placed.
  std::optional<size_t> waiting_lane() {
    for (size_t lane = 0; lane < lanes_.size(); ++lane)
      if (!lanes_[lane].busy && lanes_[lane].next < placed_) return lane;
    return std::nullopt;
  }

  // A lane of a file that is read by columns whose next block is there.
  std::optional<size_t> waiting_column_lane() {
    for (size_t i = 0; i < column_lanes_.size(); ++i) {
      Lane& lane = column_lanes_[i];
      if (lane.busy) continue;
      lane.next = std::max(lane.next, committed_);
      while (lane.next < read_ && block(lane.next).step != BlockState::kColumns) ++lane.next;
      if (lane.next < read_) return i;
    }
    return std::nullopt;
  }

  bool may_read() {
    if (ended_ || reading_ || read_ - committed_ == ring_.size()) return false;
    size_t waiting = 0;
    for (size_t at = committed_; at < read_; ++at) waiting += block(at).step == BlockState::kText;
    return waiting < read_ahead_;
  }

  void read(TextBlock& block, Lock& lock) {
    reading_ = true;
    lock.unlock();
    block.failure = nullptr;
    bool found = true, interrupted = false;
    try {
      found = reader_.next(block);
    } catch (const InterruptedError&) {  // while it waited: what was read before is kept
      found = false;
      interrupted = true;
    } catch (...) {
      block.failure = std::current_exception();
    }
    const bool by_columns = !block.failure && block.by_columns && !block.ends_file;
    if (by_columns) block_parser_.begin(block.columns, block.rows.parsed);
    lock.lock();
    reading_ = false;
    stop_ |= interrupted;
    if (!found || block.failure) ended_ = true;
    if (!found) return;
    block.step = block.failure ? BlockState::kParsed
                 : by_columns  ? BlockState::kColumns
                               : BlockState::kText;
    block.lanes_left = static_cast<int>(column_lanes_.size());
    ++read_;
    if (block.failure) place();
  }

  void parse_columns(size_t number, Lock& lock) {
    Lane& lane = column_lanes_[number];
    TextBlock& block = this->block(lane.next);
    lane.busy = true;  // for good, if it fails
    lock.unlock();
    std::exception_ptr failure;
    try {
      block.by_columns->parse(static_cast<int>(number), block.columns, block.rows.parsed);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && (!block.failure || static_cast<int>(number) < block.failed_lane)) {
      block.failure = failure;
      block.failed_lane = static_cast<int>(number);
    }
    if (!failure) lane = {.next = lane.next + 1};
    if (--block.lanes_left > 0) return;
    block.step = BlockState::kParsing;
    if (!block.failure) {
      lock.unlock();
      block_parser_.finish(block.columns, block.file, block.rows.parsed);
      lock.lock();
    }
    block.step = BlockState::kParsed;
    place();
  }

  void parse(TextBlock& block, Lock& lock) {
    block.step = BlockState::kParsing;
    lock.unlock();
    block.rows.parsed.rows = 0;
    block.rows.parsed.bad.clear();
    if (!block.ends_file)
      block_parser_.parse(block.lines, block.file, *block.parser, block.rows.parsed);
    lock.lock();
    block.step = BlockState::kParsed;
    place();
  }

  // Gives blocks, in order, their place in the column files.
  void place() {
    for (; placed_ < read_ && !failure_; ++placed_) {
      TextBlock& block = this->block(placed_);
      if (block.step != BlockState::kParsed) return;
      if (block.failure) std::rethrow_exception(block.failure);
      report_bad_rows(block);
      block.rows.first = placed_rows_;
      block.rows.is_train = options_.inputs[block.file].role == "train";
      placed_rows_ += block.rows.parsed.rows;
      placed_train_ += block.rows.is_train ? block.rows.parsed.rows : 0;
      block.rows.train = placed_train_;
      block.rows.zeros.assign(state_.missing.size(), 0);
      placed_file_rows_ += block.rows.parsed.rows;
      count_line_bytes(block);
      if (block.ends_file) {
        if (placed_file_rows_ == 0 && !options_.inputs[block.file].may_be_empty) {
          raise<DataError>("{}: expected at least one row, found none",
                           options_.inputs[block.file].path);
        }
        placed_file_rows_ = 0;
      }
      block.lanes_left = static_cast<int>(lanes_.size());
      block.step = lanes_.empty() ? BlockState::kTaken : BlockState::kPlaced;
    }
  }

  // Rows that are read by columns have the bytes of their lines in manifests.
  void count_line_bytes(TextBlock& block) {
    if (!block.by_columns) return;
    if (block.ends_file) {
      block.file_bytes = std::exchange(placed_file_bytes_, 0);
      return;
    }
    placed_file_bytes_ += block.columns.rows * std::ssize(block.columns.columns);
    for (const ParsedColumn& column : block.columns.columns)
      placed_file_bytes_ += column.field_bytes;
  }

  void report_bad_rows(const TextBlock& block) {
    const std::string& path = options_.inputs[block.file].path;
    for (const BadRow& row : block.rows.parsed.bad) {
      const std::string where =
          fmt::format("{}:{}: {}", path == "-" ? "standard input" : path, row.line, row.reason);
      if (++placed_bad_ > options_.max_bad_rows) {
        if (options_.max_bad_rows == 0) throw DataError(where);
        raise<DataError>("{} (more than {} malformed rows)", where, options_.max_bad_rows);
      }
      if (placed_bad_ <= kBadRowsShown) log::warning("{}: row skipped", where);
    }
  }

  void take(size_t lane, Lock& lock) {
    TextBlock& block = this->block(lanes_[lane].next);
    lanes_[lane].busy = true;  // for good, if it fails
    lock.unlock();
    sink_.take(static_cast<int>(lane), block.rows);
    lock.lock();
    lanes_[lane] = {.next = lanes_[lane].next + 1};
    if (--block.lanes_left == 0) block.step = BlockState::kTaken;
  }

  void write(TextBlock& block, Lock& lock) {
    block.step = BlockState::kWriting;
    lock.unlock();
    sink_.write(block.rows);
    lock.lock();
    block.step = sink_.appends() ? BlockState::kWritten : BlockState::kDone;
    commit(lock);
  }

  void commit(Lock& lock) {
    std::optional<ParseState> whole;  // files
    for (; committed_ < placed_; ++committed_) {
      TextBlock& block = this->block(committed_);
      if (block.step != BlockState::kDone) break;
      add_to_state(block);
      block.step = BlockState::kFree;
      block.by_columns.reset();
      progress_.update(block.input_done, state_.rows);
      if (block.ends_file) whole = state_;
    }
    if (!whole || saving_) return;
    saving_ = true;
    lock.unlock();
    save_(*whole);
    lock.lock();
    saving_ = false;
  }

  void add_to_state(const TextBlock& block) {
    if (state_.sources.size() == block.file) {
      const PrepInput& input = options_.inputs[block.file];
      state_.sources.push_back(
          {.name = input.path == "-" ? "standard input" : input.path, .role = input.role});
    }
    if (block.first_line) state_.first_lines.push_back(*block.first_line);
    data::ManifestSource& source = state_.sources[block.file];
    source.rows += block.rows.parsed.rows;
    source.bad_rows += static_cast<int64_t>(block.rows.parsed.bad.size());
    state_.rows += block.rows.parsed.rows;
    if (source.role == "train") {
      for (size_t k = 0; k < state_.missing.size() && block.rows.parsed.rows > 0; ++k)
        state_.missing[k] += block.rows.parsed.missing[k];
    }
    if (block.ends_file) source.bytes = block.file_bytes;
  }

  const PrepOptions& options_;
  BlockSink& sink_;
  ParseState& state_;
  const std::function<void(const ParseState&)>& save_;
  StageProgress& progress_;
  const BlockParser block_parser_;
  const size_t read_ahead_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TextBlock> ring_;  // block number i in ring_[i % size]
  size_t read_ = 0, placed_ = 0, committed_ = 0;
  bool reading_ = false, saving_ = false, ended_ = false, stop_ = false, ended_working_ = false;
  std::exception_ptr failure_;
  std::vector<Lane> column_lanes_;
  BlockReader reader_;  // of the reading thread
  std::vector<Lane> lanes_;
  // Counts of what is placed:
  int64_t placed_rows_, placed_train_, placed_file_rows_ = 0, placed_bad_;
  int64_t placed_file_bytes_ = 0;  // as lines, of a file that is read by columns
};

}  // namespace

int64_t ParseState::bad_rows() const {
  int64_t sum = 0;
  for (const auto& source : sources) sum += source.bad_rows;
  return sum;
}

int64_t ParseState::rows_of(std::string_view role) const {
  int64_t sum = 0;
  for (const auto& source : sources) sum += source.role == role ? source.rows : 0;
  return sum;
}

void parse_inputs(const PrepOptions& options, RowParser& parser, BlockSink& sink, ParseState& state,
                  const std::function<void(const ParseState&)>& save, StageProgress& progress,
                  ThreadPool& pool) {
  ParsePipeline pipeline(options, parser, sink, state, save, progress, pool.threads());
  std::thread appending;
  if (sink.appends()) appending = std::thread([&] { pipeline.append_all(); });
  pool.run(pool.threads(), [&](int64_t, int) { pipeline.work(); });
  pipeline.end();
  if (appending.joinable()) appending.join();
  pipeline.finish();
}

}  // namespace hlite::prep
