#include <algorithm>
#include <cstring>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "tools/inspect/rows.h"

namespace hlite::tools {
namespace {

constexpr int64_t kChunkRows = 4096;
constexpr int64_t kWindow = 1 << 20;
constexpr int64_t kMostKeysOfASlot = 100000;  // of a slot, in a file that nothing else is known of

template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// Every record of every file, from the front. Slots have as many key columns as the first records
// need; later keys beyond them are dropped from the statistics.
class NormRows final : public RowStream {
 public:
  NormRows(std::vector<std::string> files, bool int64_keys, int64_t wanted)
      : files_(std::move(files)), key_bytes_(int64_keys ? 8 : 4), wanted_(wanted) {
    for (const std::string& path : files_) {
      headers_.push_back(data::read_norm_header(ReadFile(path)));
      total_ += headers_.back().records;
    }
    HLITE_CHECK(!files_.empty(), "no files");
    const data::NormHeader& h = headers_.front();
    schema_.label = "label";
    for (int64_t d = 0; d < h.dense_dim; ++d) schema_.numbers.push_back(fmt::format("dense {}", d));
    for (int64_t s = 0; s < h.slots; ++s) schema_.slots.push_back(fmt::format("slot {}", s));
    find_hotness();
  }

  [[nodiscard]] int64_t rows_in_file() const override { return total_; }
  [[nodiscard]] std::string part() const override {
    return wanted_ >= total_ ? "all" : fmt::format("the first {}", wanted_);
  }

  bool next(RowChunk& chunk) override {
    int64_t rows = std::min(kChunkRows, wanted_ - row_);
    if (rows <= 0) return false;
    chunk.resize(rows, schema_);
    chunk.first = row_;
    chunk.follows = row_ > 0;
    int64_t r = 0;
    for (; r < rows; ++r) {
      if (!read_record()) break;
      fill(chunk, r);
    }
    chunk.resize(r, schema_);
    row_ += r;
    return r > 0;
  }

 private:
  // One record as it was read.
  struct Record {
    std::vector<float> values;  // label, dense
    std::vector<std::vector<uint64_t>> keys;
  };

  void find_hotness() {
    constexpr int64_t kLookedAt = 1000;
    std::vector<size_t> hotness(schema_.slots.size(), 1);
    for (int64_t i = 0; i < kLookedAt && read_record(); ++i)
      for (size_t s = 0; s < hotness.size(); ++s)
        hotness[s] = std::max(hotness[s], record_.keys[s].size());
    for (size_t s = 0; s < hotness.size(); ++s)
      schema_.slot_of.insert(schema_.slot_of.end(), hotness[s], static_cast<int>(s));
    file_.reset();
    current_ = 0;
  }

  // The next `bytes` bytes of the open file.
  const std::byte* take(int64_t bytes) {
    if (end_ - begin_ < bytes) {
      const int64_t place = place_ + begin_;
      const int64_t have = std::min(std::max(bytes, kWindow), file_->size() - place);
      if (have < bytes) {
        raise<DataError>("{}: record {} (byte {}): the file ends inside of it", file_->name(),
                         record_number_, place);
      }
      window_.resize(static_cast<size_t>(have));
      file_->read(place, window_);
      place_ = place;
      begin_ = 0;
      end_ = have;
    }
    begin_ += bytes;
    return window_.data() + begin_ - bytes;
  }

  bool read_record() {
    while (file_ == nullptr || record_number_ == headers_[current_].records) {
      if (file_ != nullptr && current_ + 1 == files_.size()) return false;
      if (file_ != nullptr) ++current_;
      file_ = std::make_unique<ReadFile>(files_[current_]);
      place_ = headers_[current_].framed_bytes();
      begin_ = end_ = record_number_ = 0;
    }
    const data::NormHeader& h = headers_[current_];
    const int64_t start = place_ + begin_;
    const auto fail = [&](const std::string& what) {
      raise<DataError>("{}: record {} (byte {}): {}", file_->name(), record_number_, start, what);
    };
    int64_t framed = 0;
    if (h.sum) {
      framed = load<int32_t>(take(4));
      if (framed < 0 || framed > file_->size()) {
        fail(fmt::format("expected the length of a record, found {}", framed));
      }
      const std::byte* p = take(framed + 1);
      if (data::byte_sum({p, static_cast<size_t>(framed)}) != p[framed]) {
        fail("its checksum is wrong");
      }
      begin_ -= framed + 1;
    }
    const int64_t body = place_ + begin_;
    const auto values = static_cast<size_t>(h.label_dim + h.dense_dim);
    record_.values.resize(values);
    const std::byte* p = take(static_cast<int64_t>(4 * values));
    if (values > 0) std::memcpy(record_.values.data(), p, 4 * values);
    record_.keys.resize(static_cast<size_t>(h.slots));
    for (auto& keys : record_.keys) {
      const auto nnz = load<int32_t>(take(4));
      if (nnz < 0 || nnz > kMostKeysOfASlot) {
        fail(fmt::format("expected the number of a slot's keys, found {}", nnz));
      }
      keys.clear();
      const std::byte* k = take(nnz * key_bytes_);
      for (int32_t i = 0; i < nnz; ++i, k += key_bytes_)
        keys.push_back(key_bytes_ == 8 ? load<uint64_t>(k) : load<uint32_t>(k));
    }
    const int64_t used = place_ + begin_ - body;
    if (h.sum) {
      if (used != framed) {
        fail(fmt::format("its frame says {} bytes, its {}-bit keys make it {}", framed,
                         8 * key_bytes_, used));
      }
      take(1);
    }
    ++record_number_;
    return true;
  }

  void fill(RowChunk& chunk, int64_t row) const {
    const size_t numbers = schema_.numbers.size(), columns = schema_.slot_of.size();
    const auto r = static_cast<size_t>(row);
    const auto labels = record_.values.size() - std::min(record_.values.size(), numbers);
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    chunk.labels[r] = labels > 0 ? static_cast<double>(record_.values[0]) : kNone;
    for (size_t d = 0; d < numbers; ++d)
      chunk.numbers[r * numbers + d] = labels + d < record_.values.size()
                                           ? static_cast<double>(record_.values[labels + d])
                                           : kNone;
    size_t i = 0;
    for (size_t c = 0; c < columns; ++c) {
      const auto s = static_cast<size_t>(schema_.slot_of[c]);
      i = c > 0 && schema_.slot_of[c - 1] == schema_.slot_of[c] ? i + 1 : 0;
      const bool there = s < record_.keys.size() && i < record_.keys[s].size();
      chunk.keys[r * columns + c] = there ? record_.keys[s][i] : kMissingKey;
    }
  }

  std::vector<std::string> files_;
  std::vector<data::NormHeader> headers_;
  int64_t key_bytes_, wanted_, total_ = 0, row_ = 0;
  size_t current_ = 0;
  std::unique_ptr<ReadFile> file_;
  int64_t record_number_ = 0;
  int64_t place_ = 0;  // of window_ in the file
  int64_t begin_ = 0, end_ = 0;
  std::vector<std::byte> window_;
  Record record_;
};

}  // namespace

std::unique_ptr<RowStream> norm_rows(const std::vector<std::string>& files, bool int64_keys,
                                     int64_t wanted) {
  return std::make_unique<NormRows>(files, int64_keys, wanted);
}

}  // namespace hlite::tools
