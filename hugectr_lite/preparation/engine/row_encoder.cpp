#include "hugectr_lite/preparation/engine/row_encoder.h"

#include <bit>
#include <cstring>
#include <numeric>

#include "data_reader/norm_format.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/no_key.h"

namespace hlite::prep {
namespace {

std::optional<MultiHot> multi_hot_of(const OutputOptions& options, const RowShape& shape,
                                     std::span<const int64_t> slot_sizes) {
  if (options.multi_hot.empty()) return std::nullopt;
  return MultiHot(output_hotness(options, shape), {slot_sizes.begin(), slot_sizes.end()},
                  options.seed, shape.slot_tables);
}

// memcpy() may not be given a null pointer, even for no bytes.
void copy_words(const uint32_t* from, int64_t words, uint32_t* to) {
  if (words > 0) std::memcpy(to, from, static_cast<size_t>(words) * sizeof(uint32_t));
}

}  // namespace

RowEncoder::RowEncoder(const OutputOptions& options, const RowShape& shape,
                       std::span<const int64_t> slot_sizes)
    : format_(options.format),
      norm_sum_(options.norm_sum),
      shape_(shape),
      multi_hot_(multi_hot_of(options, shape, slot_sizes)) {
  HLITE_CHECK(static_cast<int64_t>(slot_sizes.size()) == shape.slots, "{} tables for {} slots",
              slot_sizes.size(), shape.slots);
  data::Manifest types;
  describe_output(options, shape, types);
  float_label_ = types.float_label;
  float_dense_ = types.float_dense;
  for (const int64_t h : types.hotness) nnz_.push_back(static_cast<int32_t>(h));
  keys_ = std::accumulate(types.hotness.begin(), types.hotness.end(), int64_t{0});
  row_bytes_ = 4 * (1 + shape.dense + keys_);
  if (format_ == OutputFormat::kNorm) row_bytes_ += 4 * shape.slots + (norm_sum_ ? 5 : 0);
}

void RowEncoder::encode(const uint32_t* rows, int64_t count, EncodedRows& out) const {
  out.bytes.clear();
  out.rows = count;
  out.positives = 0;
  if (!shape_.real_label)
    for (int64_t i = 0; i < count; ++i) out.positives += rows[i * shape_.words()];
  out.labels.clear();
  if (shape_.real_label || shape_.weighted)
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t* const row = rows + i * shape_.words();
      out.labels.push_back(
          {label(row), shape_.weighted ? std::bit_cast<float>(row[shape_.labels]) : 1.0f});
    }
  if (format_ == OutputFormat::kRaw) {
    encode_raw(rows, count, out.bytes);
  } else {
    encode_norm(rows, count, out.bytes);
  }
}

float RowEncoder::label(const uint32_t* row) const {
  return shape_.real_label ? std::bit_cast<float>(row[0]) : static_cast<float>(row[0]);
}

void RowEncoder::put_keys(const uint32_t* row, uint32_t* out) const {
  if (multi_hot_)
    multi_hot_->expand(ids(row), out);
  else
    copy_words(ids(row), shape_.keys(), out);
}

int64_t RowEncoder::close_up(std::span<uint32_t> keys, std::span<int32_t> nnz) const {
  int64_t present = 0, column = 0;
  for (size_t slot = 0; slot < nnz_.size(); ++slot) {
    const int64_t before = present;
    for (int32_t i = 0; i < nnz_[slot]; ++i, ++column)
      if (const uint32_t key = keys[static_cast<size_t>(column)]; key != kNoKey)
        keys[static_cast<size_t>(present++)] = key;
    nnz[slot] = static_cast<int32_t>(present - before);
  }
  return present;
}

const uint32_t* RowEncoder::dense_words(const uint32_t* rows, int64_t count,
                                        std::vector<uint32_t>& words) const {
  const int64_t D = shape_.dense;
  words.resize(static_cast<size_t>(count * D));
  for (int64_t i = 0; i < count; ++i)
    copy_words(rows + i * shape_.words() + 1, D, words.data() + i * D);
  if (float_dense_ && !shape_.dense_is_float) {
    std::vector<float> logarithms(words.size());
    data::log_plus_one({reinterpret_cast<const int32_t*>(words.data()), words.size()}, logarithms);
    if (!words.empty()) std::memcpy(words.data(), logarithms.data(), words.size() * sizeof(float));
  }
  return words.data();
}

void RowEncoder::encode_raw(const uint32_t* rows, int64_t count,
                            std::vector<std::byte>& out) const {
  const int64_t D = shape_.dense, W = shape_.words();
  std::vector<uint32_t> scratch;
  const uint32_t* dense = dense_words(rows, count, scratch);
  out.resize(static_cast<size_t>(count * row_bytes_));
  auto* to = reinterpret_cast<uint32_t*>(out.data());
  for (int64_t i = 0; i < count; ++i, rows += W, dense += D) {
    *to++ = float_label_ ? std::bit_cast<uint32_t>(label(rows)) : rows[0];
    copy_words(dense, D, to);
    to += D;
    put_keys(rows, to);
    to += keys_;
  }
}

void RowEncoder::encode_norm(const uint32_t* rows, int64_t count,
                             std::vector<std::byte>& out) const {
  const auto D = static_cast<size_t>(shape_.dense);
  std::vector<uint32_t> scratch, keys(static_cast<size_t>(keys_));
  const uint32_t* words = dense_words(rows, count, scratch);
  std::vector<float> dense(D);
  std::vector<int32_t> nnz = nnz_;
  out.reserve(static_cast<size_t>(count * row_bytes_));
  for (int64_t i = 0; i < count; ++i, rows += shape_.words(), words += D) {
    const float label = this->label(rows);
    if (D > 0) std::memcpy(dense.data(), words, D * sizeof(float));
    put_keys(rows, keys.data());
    const int64_t present = shape_.hotness.empty() ? keys_ : close_up(keys, nnz);
    data::append_norm_sample(norm_sum_, {&label, 1}, dense, nnz,
                             std::span(keys).first(static_cast<size_t>(present)), out);
  }
}

}  // namespace hlite::prep
