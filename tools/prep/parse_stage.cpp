#include "tools/prep/parse_stage.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "tools/prep/block_parser.h"

namespace hlite::tools {

namespace {

constexpr int64_t kBadRowsShown = 20;

// kTaken: by all lanes of the sink.
enum class BlockState {
  kFree,
  kText,
  kParsing,
  kParsed,
  kPlaced,
  kTaken,
  kWriting,
  kWritten,
  kDone
};

// A slot of the ring: lines and what became of them.
struct TextBlock {
  BlockState step = BlockState::kFree;
  // read
  LineBlock lines;  // none in the block that ends a file
  size_t file = 0;
  std::shared_ptr<const LineParser> parser;
  std::optional<std::string> first_line;  // in the block that begins a file
  InputFile::Position end;                // where the next block begins
  bool ends_file = false;
  int64_t file_bytes = 0;      // with ends_file
  int64_t input_done = 0;      // stored bytes of all inputs up to here
  std::exception_ptr failure;  // instead of all that
  PlacedRows rows;
  int lanes_left = 0;  // of the sink
};

class ParsePipeline {
 public:
  ParsePipeline(const PrepOptions& options, RowParser& parser, BlockSink& sink, ParseState& state,
                const std::function<void(const ParseState&)>& save, StageProgress& progress,
                int threads)
      : options_(options),
        parser_(parser),
        sink_(sink),
        state_(state),
        save_(save),
        progress_(progress),
        block_parser_(parser.layout(), options),
        read_ahead_(static_cast<size_t>(threads)),
        ring_(static_cast<size_t>(threads) * 2 + 2),
        first_input_(static_cast<size_t>(state.file)),
        first_position_(state.position),
        next_input_(first_input_),
        lanes_(static_cast<size_t>(sink.lanes())),
        placed_rows_(state.rows),
        placed_train_(state.rows_of("train")),
        placed_bad_(state.bad_rows()) {
    if (first_input_ < state.sources.size()) placed_file_rows_ = state.sources[first_input_].rows;
    // Files that were begun before: the parser learns of them as it did then.
    for (size_t i = 0; i < state.first_lines.size(); ++i) {
      line_parser_ = parser.open(options.inputs[i].path, state.first_lines[i]);
    }
    begun_ = state.first_lines.size();
  }

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
    state_.done = !stop_ && !failure_;
    try {
      save_(state_);
    } catch (const FileError&) {
      // As on a full disk, which is what failure_ then says: the state saved before holds.
      if (!failure_) throw;
    }
    if (failure_) std::rethrow_exception(failure_);
    if (stop_) throw Interrupted();
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
    bool found = true;
    try {
      found = read_next(block);
    } catch (...) {
      block.failure = std::current_exception();
    }
    lock.lock();
    reading_ = false;
    if (!found || block.failure) ended_ = true;
    if (!found) return;
    block.step = block.failure ? BlockState::kParsed : BlockState::kText;
    ++read_;
    if (block.failure) place();
  }

  // False when there is nothing left to read.
  bool read_next(TextBlock& block) {
    if (next_input_ == options_.inputs.size()) return false;
    if (!file_) {
      file_ = std::make_unique<InputFile>(options_.inputs[next_input_].path, parser_.text_form());
      if (next_input_ == first_input_) file_->skip_to(first_position_);
    }
    block.file = next_input_;
    block.first_line.reset();
    block.lines.size = 0;
    block.lines.lines = 0;
    block.ends_file = !file_->next(block.lines, static_cast<size_t>(options_.block_bytes));
    block.input_done = earlier_inputs_ + file_->stored_bytes_read();
    if (block.ends_file) {
      block.end = {};
      block.file_bytes = file_->bytes_read();
      earlier_inputs_ += file_->stored_bytes();
      file_.reset();
      ++next_input_;
      return true;
    }
    if (begun_ == next_input_) {
      block.first_line = block.lines.front();
      line_parser_ = parser_.open(file_->name(), *block.first_line);
      ++begun_;
    }
    block.parser = line_parser_;
    block.end = file_->position();
    return true;
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
      if (block.ends_file) {
        if (placed_file_rows_ == 0) {
          raise<DataError>("{}: expected at least one row, found none",
                           options_.inputs[block.file].path);
        }
        placed_file_rows_ = 0;
      }
      block.lanes_left = static_cast<int>(lanes_.size());
      block.step = lanes_.empty() ? BlockState::kTaken : BlockState::kPlaced;
    }
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
    bool any = false;
    for (; committed_ < placed_; ++committed_) {
      TextBlock& block = this->block(committed_);
      if (block.step != BlockState::kDone) break;
      add_to_state(block);
      block.step = BlockState::kFree;
      progress_.update(block.input_done, state_.rows);
      any = true;
    }
    const auto now = std::chrono::steady_clock::now();
    const double since = std::chrono::duration<double>(now - saved_).count();
    if (!any || saving_ || since < options_.checkpoint_seconds) return;
    const ParseState state = state_;
    saving_ = true;
    lock.unlock();
    save_(state);
    lock.lock();
    saving_ = false;
    saved_ = now;
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
    state_.file = static_cast<int64_t>(block.file) + (block.ends_file ? 1 : 0);
    state_.position = block.end;
  }

  const PrepOptions& options_;
  RowParser& parser_;
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
  // The reading thread's:
  std::unique_ptr<InputFile> file_;
  std::shared_ptr<const LineParser> line_parser_;
  const size_t first_input_;
  const InputFile::Position first_position_;
  size_t next_input_, begun_ = 0;
  int64_t earlier_inputs_ = 0;
  std::vector<Lane> lanes_;
  // Of what is placed:
  int64_t placed_rows_, placed_train_, placed_file_rows_ = 0, placed_bad_;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
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

}  // namespace hlite::tools
