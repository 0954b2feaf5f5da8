// Rows as the trainer's readers decode them, with the values that training would refuse.
#include <algorithm>
#include <cstring>

#include "data_reader/async_reader.h"
#include "data_reader/criteo/criteo_record.h"
#include "data_reader/norm_reader.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/inspect/issue_counts.h"
#include "hugectr_lite/preparation/inspect/rows.h"

namespace hlite::prep {
namespace {

constexpr int64_t kBatch = 4096;            // of rows in the order of the file
constexpr int64_t kMaxKeysOfASlot = 10000;  // in a Norm file that nothing else is known of

class RecordRows final : public RowStream {
 public:
  // `integers`: the dense features of batches are the bits of integers.
  RecordRows(const config::DataConfig& data, bool integers, int64_t wanted)
      : integers_(integers), wanted_(wanted) {
    const KeyLayout keys = data.key_layout();
    const bool criteo = data.dense_dim == criteo::kDense && keys.slots() == criteo::kSlots;
    if (data.label_dim > 0) schema_.label = "label";
    schema_.numbers_may_miss = schema_.keys_may_miss = false;
    for (const config::SparseInputConfig& input : data.sparse)
      schema_.keys_may_miss |= !input.is_fixed_length;
    for (int64_t d = 0; d < data.dense_dim; ++d)
      schema_.numbers.push_back(criteo ? fmt::format("I{}", d + 1) : fmt::format("dense {}", d));
    for (int64_t s = 0; s < keys.slots(); ++s)
      schema_.slots.push_back(criteo ? fmt::format("C{}", s + 1) : fmt::format("slot {}", s));
    for (int64_t c = 0; c < keys.columns; ++c)
      schema_.slot_of.push_back(static_cast<int>(keys.slot_of(c)));
    tables_.assign(static_cast<size_t>(keys.slots()), kNoKey);
  }
  // Opens the file: open(rows of tables, options) returns its source.
  template <typename Open>
  void open(bool shuffle, Open&& open) {
    shuffle_ = shuffle;
    source_ =
        open(tables_, data::SourceOptions{.shuffle = shuffle, .repeat = false, .sink = &ignored_});
  }

  [[nodiscard]] int64_t rows_in_file() const override { return source_->samples(); }
  [[nodiscard]] std::string part() const override {
    return wanted_ >= rows_in_file() ? "all"
           : shuffle_                ? "blocks spread over the file"
                                     : fmt::format("the first {}", rows_);
  }
  bool next(RowChunk& chunk) override {
    if (rows_ >= wanted_) return false;
    const data::HostBatch& batch = source_->next();
    if (batch.size == 0) return false;
    chunk.resize(std::min(batch.size, wanted_ - rows_), schema_);
    chunk.first = batch.first_sample;
    chunk.follows = rows_ > 0 && !shuffle_;
    for (int64_t r = 0; r < chunk.rows; ++r) copy_row(batch, r, chunk);
    rows_ += chunk.rows;
    return true;
  }

 private:
  void copy_row(const data::HostBatch& batch, int64_t row, RowChunk& chunk) const {
    if (!chunk.labels.empty()) chunk.labels[static_cast<size_t>(row)] = batch.labels(row, 0);
    const auto numbers = std::ssize(schema_.numbers), columns = std::ssize(schema_.slot_of);
    for (int64_t d = 0; d < numbers; ++d) {
      int32_t integer = 0;
      std::memcpy(&integer, batch.dense.row(row) + d, sizeof(integer));
      chunk.numbers[static_cast<size_t>(row * numbers + d)] =
          integers_ ? static_cast<double>(integer) : double{batch.dense(row, d)};
    }
    for (int64_t c = 0; c < columns; ++c) {
      const uint32_t key = batch.keys(row, c);
      chunk.keys[static_cast<size_t>(row * columns + c)] =
          key == kNoKey && schema_.keys_may_miss ? kMissingKey : key;
    }
  }

  const bool integers_;
  const int64_t wanted_;
  std::vector<int64_t> tables_;
  IssueCounts ignored_;
  bool shuffle_ = false;
  std::unique_ptr<data::BatchSource> source_;
  int64_t rows_ = 0;
};

void add_input(config::DataConfig& data, std::vector<int64_t> hotness, bool fixed_length) {
  config::SparseInputConfig& input = data.sparse.emplace_back();
  input.slot_num = std::ssize(hotness);
  input.hotness = std::move(hotness);
  input.is_fixed_length = fixed_length;
}

// The most keys that one of the first `wanted` samples has in each slot.
std::vector<int64_t> find_hotness(const std::vector<std::string>& files,
                                  const data::NormHeader& header, bool int64_keys, int64_t wanted) {
  const auto slots = static_cast<size_t>(header.slots);
  const data::NormRecord record({.sum = header.sum,
                                 .int64_keys = int64_keys,
                                 .label_width = header.label_dim,
                                 .dense_dim = header.dense_dim,
                                 .hotness = std::vector<int64_t>(slots, kMaxKeysOfASlot),
                                 .fixed_length = std::vector<bool>(slots, false),
                                 .history = {}});
  data::NormFiles records(files, [](const auto&, const auto&) {});
  std::vector<int64_t> hotness(slots, 1);
  while (records.position() < std::min(wanted, records.records())) try {
      const auto next = records.next(record.max_bytes());
      records.passed(record.read(
          next.bytes, next.place, [](const std::byte*) {},
          [&](int64_t s, int64_t n, const std::byte*) {
            int64_t& most = hotness[static_cast<size_t>(s)];
            most = std::max(most, n);
          }));
    } catch (const DataError&) {  // the reader will say it
      break;
    }
  return hotness;
}

}  // namespace

void RowChunk::resize(int64_t n, const RowSchema& schema) {
  rows = n;
  const auto count = static_cast<size_t>(n);
  labels.resize(schema.label.empty() ? 0 : count);
  numbers.resize(count * schema.numbers.size());
  keys.resize(count * schema.slot_of.size());
}

std::unique_ptr<RowStream> raw_rows(const std::string& path, const data::RawFormat& format,
                                    int64_t wanted, int64_t batch) {
  config::DataConfig data;
  data.format = &config::data_format("RawAsync");
  data.num_workers = 1;
  data.label_dim = format.label_dim;
  data.dense_dim = format.dense_dim;
  data.float_label = format.float_label;
  data.float_dense = true;  // the words as they are
  data.real_label = format.real_label;
  data.sample_weight = format.sample_weight;
  for (int64_t s = 0; s < format.keys.slots(); ++s)
    add_input(data, {format.keys.hotness[static_cast<size_t>(s)]},
              !format.varies(format.keys.first_column[static_cast<size_t>(s)]));
  auto rows = std::make_unique<RecordRows>(data, !format.float_dense, wanted);
  const bool part = ReadFile(path).size() / format.record_bytes() > wanted;
  rows->open(part, [&](const auto& tables, const data::SourceOptions& options) {
    const auto open = [](const std::string& file, const IoQueueOptions& queue) {
      return std::make_unique<SynchronousQueue>(file, queue);
    };
    return std::make_unique<data::AsyncReader>(data, path, data::Split::kTrain,
                                               part ? std::min(wanted, batch) : kBatch, tables,
                                               options, open);
  });
  return rows;
}

std::unique_ptr<RowStream> norm_rows(const std::string& path, const std::vector<std::string>& files,
                                     const data::NormHeader& first, bool int64_keys,
                                     int64_t wanted) {
  config::DataConfig data;
  data.label_dim = first.label_dim;
  data.dense_dim = first.dense_dim;
  data.checksums = first.sum;
  data.int64_keys = int64_keys;
  add_input(data, find_hotness(files, first, int64_keys, wanted), false);
  auto rows = std::make_unique<RecordRows>(data, false, wanted);
  rows->open(false, [&](const auto& tables, const data::SourceOptions& options) {
    return std::make_unique<data::NormReader>(data, path, files, data::Split::kTrain, kBatch,
                                              tables, options);
  });
  return rows;
}

}  // namespace hlite::prep
