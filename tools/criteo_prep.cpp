#include "tools/criteo_prep.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tools/criteo_record.h"
#include "tools/input_file.h"
#include "tools/key_dictionary.h"

namespace hlite::tools {

namespace {

using criteo::kColumns;

struct BadRow {
  int64_t line;
  std::string reason;
};

// A block of lines and what became of it.
struct ParsedBlock {
  LineBlock lines;
  std::vector<uint32_t> records;  // [rows, kColumns]
  int64_t rows = 0;
  int64_t positives = 0;
  std::vector<BadRow> bad;
};

// Stops at more than `max_bad` malformed rows: the caller will not go on either.
void parse_block(ParsedBlock& block, uint32_t key_range, int64_t max_bad) {
  block.records.resize(static_cast<size_t>(block.lines.lines * kColumns));
  block.rows = 0;
  block.positives = 0;
  block.bad.clear();
  std::string_view text = block.lines.text();
  for (int64_t line = block.lines.first_line; !text.empty(); ++line) {
    const std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(row.size() + 1);
    uint32_t* record = block.records.data() + block.rows * kColumns;
    if (criteo::parse(row, key_range, record)) {
      ++block.rows;
      block.positives += record[0];
    } else {
      block.bad.push_back({line, criteo::explain(row)});
      if (static_cast<int64_t>(block.bad.size()) > max_bad) return;
    }
  }
}

class Pipeline {
 public:
  explicit Pipeline(const CriteoPrepOptions& options)
      : options_(options),
        pool_(options.threads > 0 ? options.threads : available_threads()),
        window_(static_cast<size_t>(pool_.threads()) * 4) {}

  void convert(const std::string& path, const std::string& role, RawWriter& writer) {
    InputFile file(path);
    SourceFile source{.name = file.name(), .role = role};
    for (;;) {
      const size_t blocks = read_window(file);
      if (blocks == 0) break;
      pool_.run(static_cast<int64_t>(blocks), [&](int64_t i, int) {
        parse_block(window_[static_cast<size_t>(i)], options_.max_ind_range, options_.max_bad_rows);
      });
      for (size_t i = 0; i < blocks; ++i) account_for_bad_rows(window_[i], source);
      pool_.run(criteo::kSlots, [&](int64_t slot, int) { number(static_cast<int>(slot), blocks); });
      for (size_t i = 0; i < blocks; ++i) {
        writer.write(window_[i].records.data(), window_[i].rows, window_[i].positives);
        source.rows += window_[i].rows;
      }
    }
    source.bytes = file.bytes_read();
    if (source.rows == 0)
      raise<DataError>("{}: expected at least one row, found none", file.name());
    sources_.push_back(source);
  }

  [[nodiscard]] const std::vector<SourceFile>& sources() const { return sources_; }
  [[nodiscard]] std::vector<int64_t> slot_sizes() const {
    std::vector<int64_t> sizes;
    for (const KeyDictionary& dictionary : dictionaries_) sizes.push_back(dictionary.size());
    return sizes;
  }

 private:
  size_t read_window(InputFile& file) {
    size_t blocks = 0;
    while (blocks < window_.size() &&
           file.next(window_[blocks].lines, static_cast<size_t>(options_.block_bytes))) {
      ++blocks;
    }
    return blocks;
  }

  void account_for_bad_rows(const ParsedBlock& block, SourceFile& source) {
    for (const BadRow& row : block.bad) {
      const std::string where = fmt::format("{}:{}: {}", source.name, row.line, row.reason);
      if (++bad_rows_ > options_.max_bad_rows) {
        if (options_.max_bad_rows == 0) throw DataError(where);
        raise<DataError>("{} (more than {} malformed rows)", where, options_.max_bad_rows);
      }
      ++source.bad_rows;
      if (bad_rows_ <= kBadRowsShown) log::warning("{}: row skipped", where);
    }
  }

  // Keys of one column of the window become ids, in row order.
  void number(int slot, size_t blocks) {
    KeyDictionary& dictionary = dictionaries_[static_cast<size_t>(slot)];
    for (size_t i = 0; i < blocks; ++i) {
      uint32_t* key = window_[i].records.data() + criteo::kFirstKey + slot;
      for (int64_t row = 0; row < window_[i].rows; ++row, key += kColumns) {
        *key = dictionary.id(*key);
      }
    }
  }

  static constexpr int64_t kBadRowsShown = 20;

  const CriteoPrepOptions& options_;
  ThreadPool pool_;
  std::vector<ParsedBlock> window_;
  std::array<KeyDictionary, criteo::kSlots> dictionaries_;
  std::vector<SourceFile> sources_;
  int64_t bad_rows_ = 0;
};

void check(const CriteoPrepOptions& options) {
  if (options.train.empty()) raise<ConfigError>("--train: expected at least one file");
  if (options.split_last_half && !options.val.empty()) {
    raise<ConfigError>("--split-last-half makes the validation file itself: leave out --val");
  }
  if (options.split_last_half && options.train.size() < 2) {
    raise<ConfigError>("--split-last-half: expected at least two --train files, found one");
  }
  const auto standard_inputs = std::count(options.train.begin(), options.train.end(), "-") +
                               std::count(options.val.begin(), options.val.end(), "-");
  if (standard_inputs > 1) raise<ConfigError>("standard input (-) can be given only once");
  if (options.block_bytes < 1) raise<ConfigError>("block size: expected at least 1 byte");
}

// Copies the records of a written, unpublished file: the first half to `first`, the rest to
// `second`.
void split_half(RawWriter& whole, RawWriter& first, RawWriter& second) {
  whole.file().finish();
  const ReadFile in(whole.file().temporary_path());
  const int64_t rows = whole.rows(), half = (rows + 1) / 2;
  std::vector<uint32_t> records;
  for (int64_t at = 0; at < rows;) {
    const bool in_first = at < half;
    const int64_t count = std::min<int64_t>((in_first ? half : rows) - at, 1 << 15);
    records.resize(static_cast<size_t>(count * kColumns));
    in.read(at * kColumns * static_cast<int64_t>(sizeof(uint32_t)),
            std::as_writable_bytes(std::span(records)));
    int64_t positives = 0;
    for (int64_t i = 0; i < count; ++i) positives += records[static_cast<size_t>(i * kColumns)];
    (in_first ? first : second).write(records.data(), count, positives);
    at += count;
  }
}

}  // namespace

RawManifest criteo_prep(const CriteoPrepOptions& options) {
  check(options);
  make_folder(options.out);
  Pipeline pipeline(options);
  std::vector<std::unique_ptr<RawWriter>> writers;
  const auto open = [&](const char* role) -> RawWriter& {
    return *writers.emplace_back(std::make_unique<RawWriter>(options.out, role, kColumns));
  };

  RawWriter& train = open("train");
  const size_t trained = options.train.size() - (options.split_last_half ? 1 : 0);
  for (size_t i = 0; i < trained; ++i) pipeline.convert(options.train[i], "train", train);
  if (options.split_last_half) {
    RawWriter last(options.out, "last", kColumns);  // never published
    pipeline.convert(options.train.back(), "val+test", last);
    RawWriter& val = open("val");
    RawWriter& test = open("test");
    split_half(last, val, test);
  } else if (!options.val.empty()) {
    RawWriter& val = open("val");
    for (const std::string& path : options.val) pipeline.convert(path, "val", val);
  }

  RawManifest manifest;
  manifest.tool = "criteo_prep";
  manifest.dense_dim = criteo::kDense;
  manifest.slot_sizes = pipeline.slot_sizes();
  manifest.sources = pipeline.sources();
  manifest.options = {{"max_ind_range", options.max_ind_range},
                      {"max_bad_rows", options.max_bad_rows},
                      {"split_last_half", options.split_last_half}};
  publish(options.out, manifest, writers);
  return manifest;
}

}  // namespace hlite::tools
