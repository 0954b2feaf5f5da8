// Rows as the words of a RowSource to the bytes of an output format (split_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hugectr_lite/preparation/engine/label_sums.h"
#include "hugectr_lite/preparation/engine/multi_hot.h"
#include "hugectr_lite/preparation/engine/output_options.h"
#include "hugectr_lite/preparation/engine/row_source.h"

namespace hlite::prep {

struct EncodedRows {
  std::vector<std::byte> bytes;  // capacity is kept from use to use
  int64_t rows = 0;
  int64_t positives = 0;
  std::vector<WeightedLabel> labels;  // of real labels, and of rows with weights
};

class RowEncoder {
 public:
  RowEncoder(const OutputOptions& options, const RowShape& shape,
             std::span<const int64_t> slot_sizes);

  [[nodiscard]] int64_t bytes_per_row() const { return row_bytes_; }
  // `count` rows. Several threads may call it at once.
  void encode(const uint32_t* rows, int64_t count, EncodedRows& out) const;

 private:
  void encode_raw(const uint32_t* rows, int64_t count, std::vector<std::byte>& out) const;
  void encode_norm(const uint32_t* rows, int64_t count, std::vector<std::byte>& out) const;
  // The words of the dense values of rows, [count, dense], in the format's type.
  const uint32_t* dense_words(const uint32_t* rows, int64_t count,
                              std::vector<uint32_t>& words) const;
  [[nodiscard]] const uint32_t* ids(const uint32_t* row) const { return row + 1 + shape_.dense; }
  [[nodiscard]] float label(const uint32_t* row) const;
  // The keys of a row.
  void put_keys(const uint32_t* row, uint32_t* out) const;
  // Takes kNoKey out of a row's keys, and counts those of each slot. Returns how many are left.
  int64_t close_up(std::span<uint32_t> keys, std::span<int32_t> nnz) const;

  OutputFormat format_;
  bool norm_sum_;
  RowShape shape_;
  std::optional<MultiHot> multi_hot_;
  std::vector<int32_t> nnz_;  // [slots] keys that a row has, at most
  int64_t keys_ = 0, row_bytes_ = 0;
  bool float_label_, float_dense_;
};

}  // namespace hlite::prep
