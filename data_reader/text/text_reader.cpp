#include "data_reader/text/text_reader.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "data_reader/criteo/criteo_record.h"
#include "data_reader/raw_format.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/mix.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::data {
namespace {

// Characters that are parsed together: columns and records of their lines stay in the second cache.
constexpr size_t kPieceBytes = size_t{1} << 16;
// The bytes of a line in estimates of memory; Criteo's lines have about 240.
constexpr int64_t kLineBytes = 256;

RowLayout layout_of_lines() { return {.dense = criteo::kDense, .slots = criteo::kSlots}; }

// Whole lines at the front of `text`: about kPieceBytes of them, or one that is longer.
std::string_view first_lines(std::string_view text) {
  if (text.size() <= kPieceBytes) return text;
  size_t feed = text.rfind('\n', kPieceBytes - 1);
  if (feed == std::string_view::npos) feed = text.find('\n', kPieceBytes);
  return text.substr(0, feed + 1);
}

int64_t slots_of(const config::DataConfig& config) { return 2 * config.readers() + 2; }

// Lines that there are to read: up to the last sample that is used.
int64_t max_lines(const config::DataConfig& config, Split split, const SourceOptions& options) {
  return std::min(config.samples_of(split).value_or(std::numeric_limits<int64_t>::max()),
                  options.max_samples);
}

}  // namespace

// A thread's part: lines to columns, columns to raw records with hashed keys, records to a batch.
class TextReader::Decoder {
 public:
  explicit Decoder(const TextReader& reader)
      : path_(reader.file_.path()),
        parser_(*reader.parser_),
        decoder_(path_, RawFormat::from(reader.config_), reader.slot_rows_, {},
                 reader.options().sink ? *reader.options().sink : refusing_sink()),
        ranges_(criteo::kSlots) {
    const KeyCheck keys(reader.config_.key_layout(), reader.slot_rows_);
    for (int64_t s = 0; s < criteo::kSlots; ++s)
      ranges_[static_cast<size_t>(s)] = int64_t{keys.last_key(s)} + 1;
  }

  // Decodes the first lines of text_, at most as many as are missing, into rows from `row` on.
  // `first_line`: the file's line in row 0, from 1. Returns the rows.
  int64_t decode(std::string_view lines, int64_t first_line, int64_t row, HostBatch& batch) {
    reserve(lines.size());
    const int64_t found = parse(lines, first_line + row);
    const int64_t used = std::min(found, batch.size - row);
    make_records(used);
    decoder_.decode({records_.data(), static_cast<size_t>(used * kRecordBytes)},
                    batch.first_sample + row, used, batch, row);
    return used;
  }
  std::string text;  // of the batch

 private:
  static constexpr int64_t kRecordBytes = 4 * criteo::kColumns;

  void reserve(size_t bytes) {
    const auto rows = static_cast<int64_t>(bytes / criteo::kColumns) + 1;
    if (rows <= rows_) return;
    rows_ = rows;
    columns_.resize(static_cast<size_t>(criteo::kColumns * stride()));
    records_.resize(static_cast<size_t>(kRecordBytes * rows));
  }
  [[nodiscard]] int64_t stride() const { return rows_ + ColumnArrays::kRowsBeyond; }
  [[nodiscard]] const uint32_t* column(int64_t c) const { return columns_.data() + c * stride(); }

  int64_t parse(std::string_view lines, int64_t line) {
    int64_t missing[criteo::kSlots] = {};  // not asked for
    const ColumnArrays out(layout_of_lines(), reinterpret_cast<std::byte*>(columns_.data()),
                           static_cast<size_t>(4 * stride()), missing);
    int64_t rows = 0;
    while (!lines.empty()) {
      const ParsedFront front =
          parser_.parse_front(line + rows, lines, out, rows, [](int64_t) { return true; });
      lines.remove_prefix(front.bytes);
      rows += front.rows;
      if (lines.empty()) break;
      const std::string_view one = lines.substr(0, lines.find('\n'));
      if (parser_.parse(line + rows, one, out, rows) != LineKind::kRow)
        raise<DataError>("{}:{}: {}", path_, line + rows, parser_.explain(one));
      lines.remove_prefix(one.size() + 1);
      ++rows;
    }
    return rows;
  }

  void make_records(int64_t rows) {
    auto* const words = reinterpret_cast<uint32_t*>(records_.data());
    for (int64_t c = 0; c < criteo::kColumns; ++c) {
      const uint32_t* const from = column(c);
      uint32_t* to = words + c;
      if (c < criteo::kFirstKey) {
        for (int64_t i = 0; i < rows; ++i, to += criteo::kColumns) *to = from[i];
      } else {
        const auto range =
            static_cast<uint64_t>(ranges_[static_cast<size_t>(c - criteo::kFirstKey)]);
        for (int64_t i = 0; i < rows; ++i, to += criteo::kColumns) *to = hashed_id(from[i], range);
      }
    }
  }

  const std::string& path_;
  const LineParser& parser_;
  RawDecoder decoder_;
  std::vector<int64_t> ranges_;  // [slots] that ids are below
  int64_t rows_ = 0;             // allocated
  std::vector<uint32_t> columns_;
  std::vector<std::byte> records_;
};

TextReader::TextReader(const config::DataConfig& config, const std::string& path, Split split,
                       int64_t batch_size, std::span<const int64_t> slot_rows,
                       const SourceOptions& options)
    : BatchRing(config, batch_size, options),
      config_(config),
      slot_rows_(slot_rows.begin(), slot_rows.end()),
      parser_(criteo::make_line_parser(0)),
      file_(path, rows(), max_lines(config, split, options)) {
  HLITE_CHECK(!options.shuffle && !options.shuffle_samples, "lines of text, shuffled");
  set_samples(config, split, path, file_.lines());
  make_slots(options.resident ? batches_per_epoch() : slots_of(config));
}

void TextReader::start_threads() {
  const int64_t threads = config_.readers();
  for (int64_t t = 0; t < threads; ++t)
    start_thread([this, t, threads] {
      Decoder decoder(*this);
      fill_in_order([&](int64_t position) { return fill(position, decoder); }, t, threads);
    });
}

bool TextReader::fill(int64_t position, Decoder& decoder) {
  HostBatch& batch = begin_batch(position, position % batches_per_epoch());
  if (batch.size == 0) return true;  // of a partial batch that ends before this shard
  file_.read(batch.first_sample / rows(), decoder.text);
  add_bytes_read(std::ssize(decoder.text));
  const auto start = Clock::now();
  std::string_view left = decoder.text;
  for (int64_t row = 0; row < batch.size;) {
    if (stopped()) return false;
    const std::string_view lines = first_lines(left);
    left.remove_prefix(lines.size());
    row += decoder.decode(lines, batch.first_sample + 1, row, batch);
  }
  add_decoding(Clock::now() - start);
  return true;
}

namespace {

class TextRecords final : public RecordFormat {
 public:
  [[nodiscard]] std::unique_ptr<BatchSource> open(const config::DataConfig& config,
                                                  const std::string& path, Split split,
                                                  int64_t batch_size,
                                                  std::span<const int64_t> slot_rows,
                                                  const SourceOptions& options) const override {
    return std::make_unique<TextReader>(config, path, split, batch_size, slot_rows, options);
  }
  [[nodiscard]] int64_t memory_bytes(const config::DataConfig& config, int64_t rows,
                                     int64_t row_bytes, int64_t /*samples*/,
                                     const SourceOptions&) const override {
    return slots_of(config) * rows * row_bytes + config.readers() * rows * kLineBytes;
  }
};

}  // namespace

const RecordFormat& text_records() {
  static const TextRecords records;
  return records;
}

}  // namespace hlite::data
