#include <algorithm>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/preparation/inspect/rows.h"

namespace hlite::prep {
namespace {

constexpr int64_t kChunkBytes = 1 << 20, kBlocks = 64;

double load_number(const std::byte* p, bool is_float) {
  return is_float ? double{load<float>(p)} : static_cast<double>(load<int32_t>(p));
}

// Records of a fixed size, block after block.
class RawRows final : public RowStream {
 public:
  RawRows(const std::string& path, const data::RawFormat& format, int64_t wanted, int64_t batch)
      : file_(path),
        format_(format),
        record_(format.record_bytes()),
        blocks_(sample_blocks(rows_in_file(), wanted, std::max<int64_t>(batch, 1))) {
    const bool criteo = format.dense_dim == criteo::kDense && format.keys.slots() == criteo::kSlots;
    schema_.label = "label";
    schema_.numbers_may_miss = false;
    schema_.keys_may_miss =
        std::find(format.varying.begin(), format.varying.end(), true) != format.varying.end();
    for (int64_t d = 0; d < format.dense_dim; ++d)
      schema_.numbers.push_back(criteo ? fmt::format("I{}", d + 1) : fmt::format("dense {}", d));
    for (int64_t s = 0; s < format.keys.slots(); ++s)
      schema_.slots.push_back(criteo ? fmt::format("C{}", s + 1) : fmt::format("slot {}", s));
    for (int64_t c = 0; c < format.keys.columns; ++c)
      schema_.slot_of.push_back(static_cast<int>(format.keys.slot_of(c)));
  }
  [[nodiscard]] int64_t rows_in_file() const override { return file_.size() / record_; }
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
    file_.read(chunk.first * record_, bytes_);
    chunk.resize(rows, schema_);
    for (int64_t r = 0; r < rows; ++r) decode(bytes_.data() + r * record_, r, chunk);
    at_ += rows;
    return true;
  }

 private:
  void decode(const std::byte* p, int64_t row, RowChunk& chunk) const {
    const auto r = static_cast<size_t>(row);
    chunk.labels[r] = load_number(p, format_.float_label);
    p += 4 * format_.label_width();
    double* numbers = chunk.numbers.data() + row * format_.dense_dim;
    for (int64_t d = 0; d < format_.dense_dim; ++d, p += 4)
      numbers[d] = load_number(p, format_.float_dense);
    uint64_t* keys = chunk.keys.data() + row * format_.keys.columns;
    for (int64_t c = 0; c < format_.keys.columns; ++c, p += 4) {
      const auto key = load<uint32_t>(p);
      keys[c] = key == kNoKey && format_.varies(c) ? kMissingKey : key;
    }
  }

  ReadFile file_;
  data::RawFormat format_;
  int64_t record_, at_ = 0;
  size_t block_ = 0;
  std::vector<std::pair<int64_t, int64_t>> blocks_;
  std::vector<std::byte> bytes_;
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
                                    int64_t wanted, int64_t batch) {
  return std::make_unique<RawRows>(path, format, wanted, batch);
}

}  // namespace hlite::prep
