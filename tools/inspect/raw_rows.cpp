#include <algorithm>
#include <bit>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/memory.h"
#include "tools/criteo/criteo_record.h"
#include "tools/inspect/rows.h"
#include "tools/io/numpy_file.h"

namespace hlite::tools {
namespace {

constexpr int64_t kChunkBytes = 1 << 20, kBlocks = 64;

uint32_t load_word(const std::byte* p, bool swapped) {
  const auto w = load<uint32_t>(p);
  return swapped ? __builtin_bswap32(w) : w;
}

double number_of(uint32_t word, bool is_float) {
  return is_float ? static_cast<double>(std::bit_cast<float>(word))
                  : static_cast<double>(static_cast<int32_t>(word));
}

// Records of a fixed size, block after block.
class RecordStream : public RowStream {
 public:
  [[nodiscard]] int64_t rows_in_file() const override { return total_; }
  [[nodiscard]] std::string part() const override {
    return blocks_.size() <= 1 ? "all"
                               : fmt::format("{} blocks spread over the file", blocks_.size());
  }
  bool next(RowChunk& chunk) override {
    while (block_ < blocks_.size() && at_ >= blocks_[block_].second) {
      ++block_;
      at_ = 0;
    }
    if (block_ == blocks_.size()) return false;
    const auto [first, count] = blocks_[block_];
    const int64_t rows = std::min(count - at_, std::max<int64_t>(1, kChunkBytes / record_));
    bytes_.resize(static_cast<size_t>(rows * record_));
    chunk.first = first + at_;
    chunk.follows = at_ > 0;
    file_.read(offset_ + chunk.first * record_, bytes_);
    chunk.resize(rows, schema_);
    for (int64_t r = 0; r < rows; ++r) decode(bytes_.data() + r * record_, r, chunk);
    at_ += rows;
    return true;
  }

 protected:
  RecordStream(const std::string& path, int64_t offset, int64_t record)
      : file_(path), offset_(offset), record_(std::max<int64_t>(record, 1)) {
    total_ = record > 0 ? (file_.size() - offset) / record : 0;
  }
  void plan(int64_t wanted, int64_t batch) {
    blocks_ = sample_blocks(total_, wanted, std::max<int64_t>(batch, 1));
  }
  virtual void decode(const std::byte* record, int64_t row, RowChunk& chunk) const = 0;

 private:
  ReadFile file_;
  int64_t offset_, record_, total_ = 0, at_ = 0;
  size_t block_ = 0;
  std::vector<std::pair<int64_t, int64_t>> blocks_;
  std::vector<std::byte> bytes_;
};

class RawRows final : public RecordStream {
 public:
  RawRows(const std::string& path, const data::RawFormat& format, bool swapped, int64_t wanted,
          int64_t batch)
      : RecordStream(path, 0, format.record_bytes()), format_(format), swapped_(swapped) {
    const bool criteo = format.dense_dim == criteo::kDense && format.keys.slots() == criteo::kSlots;
    schema_.label = "label";
    schema_.numbers_may_miss = schema_.keys_may_miss = false;
    for (int64_t d = 0; d < format.dense_dim; ++d)
      schema_.numbers.push_back(criteo ? fmt::format("I{}", d + 1) : fmt::format("dense {}", d));
    for (int64_t s = 0; s < format.keys.slots(); ++s)
      schema_.slots.push_back(criteo ? fmt::format("C{}", s + 1) : fmt::format("slot {}", s));
    for (int64_t c = 0; c < format.keys.columns; ++c)
      schema_.slot_of.push_back(static_cast<int>(format.keys.slot_of(c)));
    plan(wanted, batch);
  }

 private:
  void decode(const std::byte* p, int64_t row, RowChunk& chunk) const override {
    const auto r = static_cast<size_t>(row);
    chunk.labels[r] = number_of(load_word(p, swapped_), format_.float_label);
    p += 4 * format_.label_dim;
    double* numbers = chunk.numbers.data() + row * format_.dense_dim;
    for (int64_t d = 0; d < format_.dense_dim; ++d, p += 4)
      numbers[d] = number_of(load_word(p, swapped_), format_.float_dense);
    uint64_t* keys = chunk.keys.data() + row * format_.keys.columns;
    for (int64_t c = 0; c < format_.keys.columns; ++c, p += 4) keys[c] = load_word(p, swapped_);
  }

  data::RawFormat format_;
  bool swapped_;
};

class NumpyRows final : public RecordStream {
 public:
  NumpyRows(const std::string& path, const NumpyHeader& header, int64_t wanted)
      : RecordStream(path, header.data_offset, columns_of(header) * header.item_bytes()),
        header_(header),
        columns_(columns_of(header)) {
    keys_ = header.type.size() > 1 && header.type[1] == 'u';
    schema_.numbers_may_miss = header.type.size() > 1 && header.type[1] == 'f';
    schema_.keys_may_miss = false;
    for (int64_t c = 0; c < columns_; ++c) {
      (keys_ ? schema_.slots : schema_.numbers).push_back(fmt::format("column {}", c));
      if (keys_) schema_.slot_of.push_back(static_cast<int>(c));
    }
    plan(wanted, 1);
  }

 private:
  static int64_t columns_of(const NumpyHeader& h) {
    if (h.shape.empty() || h.shape.size() > 2 || (h.fortran_order && h.shape.size() == 2)) {
      raise<DataError>("a NumPy array of {} dimensions{}: only its header can be shown",
                       h.shape.size(), h.fortran_order ? ", column by column" : "");
    }
    const auto bytes = static_cast<uint64_t>(h.item_bytes());
    const bool swapped = h.type[0] == '>' && bytes > 1, half = h.type[1] == 'f' && bytes < 4;
    if (swapped || half || h.type[1] == 'c' || bytes > 8 || !std::has_single_bit(bytes))
      raise<DataError>("a NumPy array of {} items: only its header can be shown", h.type);
    return h.shape.size() == 2 ? h.shape[1] : 1;
  }
  template <typename T>
  [[nodiscard]] T item(const std::byte* p) const {
    const int64_t bytes = header_.item_bytes();
    switch (header_.type[1]) {
      case 'f':
        return static_cast<T>(bytes == 4 ? double{load<float>(p)} : load<double>(p));
      case 'u':
        return static_cast<T>(bytes == 4   ? load<uint32_t>(p)
                              : bytes == 8 ? load<uint64_t>(p)
                              : bytes == 2 ? load<uint16_t>(p)
                                           : load<uint8_t>(p));
      default:
        return static_cast<T>(bytes == 4   ? load<int32_t>(p)
                              : bytes == 8 ? load<int64_t>(p)
                              : bytes == 2 ? load<int16_t>(p)
                                           : load<int8_t>(p));
    }
  }
  void decode(const std::byte* p, int64_t row, RowChunk& chunk) const override {
    for (int64_t c = 0; c < columns_; ++c, p += header_.item_bytes()) {
      const auto i = static_cast<size_t>(row * columns_ + c);
      if (keys_) {
        chunk.keys[i] = item<uint64_t>(p);
      } else {
        chunk.numbers[i] = item<double>(p);
      }
    }
  }

  NumpyHeader header_;
  int64_t columns_;
  bool keys_ = false;
};

}  // namespace

void RowChunk::resize(int64_t n, const RowSchema& schema) {
  rows = n;
  const auto count = static_cast<size_t>(n);
  labels.resize(schema.label.empty() ? 0 : count);
  numbers.resize(count * schema.numbers.size());
  keys.resize(count * schema.slot_of.size());
}

std::vector<std::pair<int64_t, int64_t>> sample_blocks(int64_t total, int64_t wanted,
                                                       int64_t least) {
  if (total <= 0 || wanted <= 0) return {};
  if (total <= wanted) return {{0, total}};
  const int64_t block = std::min(wanted, std::max(wanted / kBlocks, least));
  const int64_t blocks = std::max<int64_t>(1, wanted / std::max<int64_t>(block, 1));
  std::vector<std::pair<int64_t, int64_t>> out;
  for (int64_t b = 0; b < blocks; ++b) {
    // (total - block) * b / (blocks - 1) without overflow.
    const double place =
        blocks > 1 ? static_cast<double>(b) / static_cast<double>(blocks - 1) : 0.0;
    out.emplace_back(static_cast<int64_t>(static_cast<double>(total - block) * place), block);
  }
  return out;
}

std::unique_ptr<RowStream> raw_rows(const std::string& path, const data::RawFormat& format,
                                    bool swapped, int64_t wanted, int64_t batch) {
  return std::make_unique<RawRows>(path, format, swapped, wanted, batch);
}

std::unique_ptr<RowStream> numpy_rows(const std::string& path, int64_t wanted) {
  const NumpyHeader header = read_numpy_header(ReadFile(path));
  return std::make_unique<NumpyRows>(path, header, wanted);
}

}  // namespace hlite::tools
