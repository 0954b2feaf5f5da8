#include "tools/prep/parse_stage.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "tools/prep/block_parser.h"

namespace hlite::tools {

namespace {

constexpr int64_t kBadRowsShown = 20;

enum class BlockState { kFree, kText, kParsing, kParsed, kPlaced, kWriting, kWritten };

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
  ParsedRows parsed;
  // placed
  int64_t first_row = 0;
};

class ParsePipeline {
 public:
  ParsePipeline(const PrepOptions& options, RowParser& parser,
                const std::vector<PlacedFile>& columns, ParseState& state,
                const std::function<void(const ParseState&)>& save, StageProgress& progress,
                int threads)
      : options_(options),
        parser_(parser),
        layout_(parser.layout()),
        columns_(columns),
        state_(state),
        save_(save),
        progress_(progress),
        block_parser_(layout_, options),
        read_ahead_(static_cast<size_t>(threads)),
        ring_(static_cast<size_t>(threads) * 2 + 2),
        first_input_(static_cast<size_t>(state.file)),
        first_position_(state.position),
        next_input_(first_input_),
        placed_rows_(state.rows),
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
        if (TextBlock* block = find(BlockState::kPlaced)) {
          write(*block, lock);
        } else if (stop_ || failure_) {
          break;
        } else if (may_read()) {
          read(ring_[read_ % ring_.size()], lock);
        } else if (TextBlock* text = find(BlockState::kText)) {
          parse(*text, lock);
        } else if (ended_ && committed_ == read_) {
          break;
        } else {
          changed_.wait(lock);
        }
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        if (!failure_) failure_ = std::current_exception();
      }
      changed_.notify_all();
    }
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

  // The first block in order that waits for this step.
  TextBlock* find(BlockState step) {
    for (size_t at = committed_; at < read_; ++at) {
      if (TextBlock& block = ring_[at % ring_.size()]; block.step == step) return &block;
    }
    return nullptr;
  }

  bool may_read() {
    if (ended_ || reading_ || read_ - committed_ == ring_.size()) return false;
    size_t waiting = 0;
    for (size_t at = committed_; at < read_; ++at)
      waiting += ring_[at % ring_.size()].step == BlockState::kText;
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
    block.parsed.rows = 0;
    block.parsed.bad.clear();
    if (!block.ends_file) block_parser_.parse(block.lines, block.file, *block.parser, block.parsed);
    lock.lock();
    block.step = BlockState::kParsed;
    place();
  }

  // Gives blocks, in order, their place in the column files.
  void place() {
    for (; placed_ < read_ && !failure_; ++placed_) {
      TextBlock& block = ring_[placed_ % ring_.size()];
      if (block.step != BlockState::kParsed) return;
      if (block.failure) std::rethrow_exception(block.failure);
      report_bad_rows(block);
      block.first_row = placed_rows_;
      placed_rows_ += block.parsed.rows;
      placed_file_rows_ += block.parsed.rows;
      if (block.ends_file) {
        if (placed_file_rows_ == 0) {
          raise<DataError>("{}: expected at least one row, found none",
                           options_.inputs[block.file].path);
        }
        placed_file_rows_ = 0;
      }
      block.step = BlockState::kPlaced;
    }
  }

  void report_bad_rows(const TextBlock& block) {
    const std::string& path = options_.inputs[block.file].path;
    for (const BadRow& row : block.parsed.bad) {
      const std::string where =
          fmt::format("{}:{}: {}", path == "-" ? "standard input" : path, row.line, row.reason);
      if (++placed_bad_ > options_.max_bad_rows) {
        if (options_.max_bad_rows == 0) throw DataError(where);
        raise<DataError>("{} (more than {} malformed rows)", where, options_.max_bad_rows);
      }
      if (placed_bad_ <= kBadRowsShown) log::warning("{}: row skipped", where);
    }
  }

  void write(TextBlock& block, Lock& lock) {
    block.step = BlockState::kWriting;
    lock.unlock();
    for (int c = 0; c < layout_.columns() && block.parsed.rows > 0; ++c) {
      if (options_.at_point) options_.at_point("column");
      const int width = layout_.bytes(c);
      columns_[static_cast<size_t>(c)].write(block.first_row * width,
                                             block.parsed.column(c, width));
    }
    lock.lock();
    block.step = BlockState::kWritten;
    commit(lock);
  }

  void commit(Lock& lock) {
    bool any = false;
    for (; committed_ < placed_; ++committed_) {
      TextBlock& block = ring_[committed_ % ring_.size()];
      if (block.step != BlockState::kWritten) break;
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
    source.rows += block.parsed.rows;
    source.bad_rows += static_cast<int64_t>(block.parsed.bad.size());
    state_.rows += block.parsed.rows;
    if (source.role == "train") {
      for (size_t k = 0; k < state_.missing.size() && block.parsed.rows > 0; ++k)
        state_.missing[k] += block.parsed.missing[k];
    }
    if (block.ends_file) source.bytes = block.file_bytes;
    state_.file = static_cast<int64_t>(block.file) + (block.ends_file ? 1 : 0);
    state_.position = block.end;
  }

  const PrepOptions& options_;
  RowParser& parser_;
  const RowLayout layout_;
  const std::vector<PlacedFile>& columns_;
  ParseState& state_;
  const std::function<void(const ParseState&)>& save_;
  StageProgress& progress_;
  const BlockParser block_parser_;
  const size_t read_ahead_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TextBlock> ring_;  // block number i in ring_[i % size]
  size_t read_ = 0, placed_ = 0, committed_ = 0;
  bool reading_ = false, saving_ = false, ended_ = false, stop_ = false;
  std::exception_ptr failure_;
  // The reading thread's:
  std::unique_ptr<InputFile> file_;
  std::shared_ptr<const LineParser> line_parser_;
  const size_t first_input_;
  const InputFile::Position first_position_;
  size_t next_input_, begun_ = 0;
  int64_t earlier_inputs_ = 0;
  // Of what is placed:
  int64_t placed_rows_, placed_file_rows_ = 0, placed_bad_;
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

void parse_inputs(const PrepOptions& options, RowParser& parser,
                  const std::vector<PlacedFile>& columns, ParseState& state,
                  const std::function<void(const ParseState&)>& save, StageProgress& progress,
                  ThreadPool& pool) {
  ParsePipeline pipeline(options, parser, columns, state, save, progress, pool.threads());
  pool.run(pool.threads(), [&](int64_t, int) { pipeline.work(); });
  pipeline.finish();
}

}  // namespace hlite::tools
