#include <algorithm>
#include <limits>
#include <optional>

#include "data_reader/norm_files.h"
#include "data_reader/norm_record.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/inspect/rows.h"

namespace hlite::prep {
namespace {

constexpr int64_t kChunkRows = 4096;
constexpr int64_t kMaxKeysOfASlot = 10000;  // of a slot, in a file that nothing else is known of

data::NormRecord record_of(const data::NormHeader& h, bool int64_keys) {
  const auto slots = static_cast<size_t>(h.slots);
  return data::NormRecord({.sum = h.sum,
                           .int64_keys = int64_keys,
                           .label_width = h.label_dim,
                           .dense_dim = h.dense_dim,
                           .hotness = std::vector<int64_t>(slots, kMaxKeysOfASlot),
                           .fixed_length = std::vector<bool>(slots, false)});
}

data::NormFiles::CheckHeader same_as_first() {
  return [first = std::optional<data::NormHeader>()](const std::string& path,
                                                     data::NormHeader h) mutable {
    if (!first) first = h;
    h.records = first->records;
    if (h != *first)
      raise<DataError>("{}: expected a header like that of the list's first file, found another",
                       path);
  };
}

// Every record of every file, from the front. Slots have as many key columns as the first records
// need; later keys beyond them are dropped from the statistics.
class NormRows final : public RowStream {
 public:
  NormRows(const std::vector<std::string>& paths, bool int64_keys, int64_t wanted)
      : files_(paths, same_as_first()),
        record_(record_of(files_.first_header(), int64_keys)),
        wanted_(std::min(wanted, files_.records())) {
    const data::NormHeader& h = files_.first_header();
    schema_.label = "label";
    schema_.numbers_may_miss = false;
    for (int64_t d = 0; d < h.dense_dim; ++d) schema_.numbers.push_back(fmt::format("dense {}", d));
    for (int64_t s = 0; s < h.slots; ++s) schema_.slots.push_back(fmt::format("slot {}", s));
    find_hotness();
  }

  [[nodiscard]] int64_t rows_in_file() const override { return files_.records(); }
  [[nodiscard]] std::string part() const override {
    return wanted_ >= files_.records() ? "all" : fmt::format("the first {}", wanted_);
  }

  bool next(RowChunk& chunk) override {
    const int64_t rows = std::min(kChunkRows, wanted_ - files_.position());
    if (rows <= 0) return false;
    chunk.resize(rows, schema_);
    chunk.first = files_.position();
    chunk.follows = chunk.first > 0;
    for (int64_t r = 0; r < rows; ++r) fill(chunk, static_cast<size_t>(r));
    return true;
  }

 private:
  template <typename Floats, typename Keys>
  void read(Floats&& floats, Keys&& keys) {
    const auto next = files_.next(record_.max_bytes());
    files_.passed(record_.read(next.bytes, next.place, floats, keys));
  }

  void find_hotness() {
    constexpr int64_t kSampledRecords = 1000;
    std::vector<int64_t> hotness(schema_.slots.size(), 1);
    while (files_.position() < std::min(kSampledRecords, files_.records()))
      read([](const std::byte*) {},
           [&](int64_t s, int64_t n, const std::byte*) {
             int64_t& most = hotness[static_cast<size_t>(s)];
             most = std::max(most, n);
           });
    for (size_t s = 0; s < hotness.size(); ++s)
      schema_.slot_of.insert(schema_.slot_of.end(), static_cast<size_t>(hotness[s]),
                             static_cast<int>(s));
    files_.approach(0);
  }

  void fill(RowChunk& chunk, size_t row) {
    const data::NormRecordShape& shape = record_.shape();
    const size_t numbers = schema_.numbers.size(), columns = schema_.slot_of.size();
    size_t c = 0;
    read(
        [&](const std::byte* p) {
          chunk.labels[row] = shape.label_width > 0 ? static_cast<double>(load<float>(p))
                                                    : std::numeric_limits<double>::quiet_NaN();
          p += 4 * shape.label_width;
          for (size_t d = 0; d < numbers; ++d, p += 4)
            chunk.numbers[row * numbers + d] = static_cast<double>(load<float>(p));
        },
        [&](int64_t s, int64_t n, const std::byte* p) {
          uint64_t* keys = chunk.keys.data() + row * columns;
          for (int64_t i = 0; c < columns && schema_.slot_of[c] == s; ++i, ++c)
            keys[c] = i >= n             ? kMissingKey
                      : shape.int64_keys ? load<uint64_t>(p + 8 * i)
                                         : load<uint32_t>(p + 4 * i);
        });
  }

  data::NormFiles files_;
  data::NormRecord record_;
  int64_t wanted_;
};

}  // namespace

std::unique_ptr<RowStream> norm_rows(const std::vector<std::string>& files, bool int64_keys,
                                     int64_t wanted) {
  return std::make_unique<NormRows>(files, int64_keys, wanted);
}

}  // namespace hlite::prep
