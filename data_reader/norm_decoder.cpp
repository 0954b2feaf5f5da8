#include "data_reader/norm_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::data {
namespace {
std::string text_of(const NormPlace& place) {
  return fmt::format("{}: record {} (byte {})", place.path, place.record, place.byte);
}
}  // namespace

NormDecoder::NormDecoder(const config::DataConfig& config, std::span<const int64_t> slot_rows)
    : label_dim_(config.label_dim),
      dense_dim_(config.dense_dim),
      sum_(config.check == "Sum"),
      int64_keys_(config.int64_keys),
      layout_(config.key_layout()),
      key_check_(layout_, slot_rows, config.key_policy),
      key_bytes_(int64_keys_ ? 8 : 4) {
  for (const auto& sparse : config.sparse)
    fixed_length_.insert(fixed_length_.end(), static_cast<size_t>(sparse.slot_num),
                         sparse.is_fixed_length);
  uint64_t offset = 0;
  for (const int64_t rows : slot_rows) {
    key_offset_.push_back(config.global_keys ? offset : 0);
    offset += static_cast<uint64_t>(rows);
  }
  const int64_t frame = sum_ ? 5 : 0;
  least_bytes_ = 4 * (label_dim_ + dense_dim_ + layout_.slots()) + frame;
  for (size_t s = 0; s < fixed_length_.size(); ++s)
    if (fixed_length_[s]) least_bytes_ += key_bytes_ * layout_.hotness[s];
  most_bytes_ =
      4 * (label_dim_ + dense_dim_ + layout_.slots()) + frame + key_bytes_ * layout_.columns;
}

NormDecoder::Payload NormDecoder::payload(std::span<const std::byte> bytes,
                                          const NormPlace& place) const {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < least_bytes_)
    raise<DataError>("{}: expected at least {} bytes, found the end of the file after {}",
                     text_of(place), least_bytes_, size);
  if (!sum_) return {bytes, 0};
  const int64_t length = load<int32_t>(bytes.data());
  if (length < least_bytes_ - 5 || length > most_bytes_ - 5)
    raise<DataError>("{}: expected a block of {} to {} bytes, found a length of {}", text_of(place),
                     least_bytes_ - 5, most_bytes_ - 5, length);
  if (length + 5 > size)
    raise<DataError>("{}: expected {} bytes, found the end of the file after {}", text_of(place),
                     length + 5, size);
  return {bytes.subspan(4, static_cast<size_t>(length)), length + 5};
}

int64_t NormDecoder::read_nnz(std::span<const std::byte> bytes, int64_t s, int64_t& at,
                              const NormPlace& place) const {
  const int64_t left = static_cast<int64_t>(bytes.size()) - at;
  const int64_t most = layout_.hotness[static_cast<size_t>(s)];
  const char* whole = sum_ ? "block" : "file";
  if (left < 4)
    raise<DataError>("{}, slot {}: expected its number of keys, found the end of the {}",
                     text_of(place), s, whole);
  const int64_t nnz = load<int32_t>(bytes.data() + at);
  at += 4;
  if (nnz < 0 || nnz > most)
    raise<DataError>(
        "{}, slot {}: expected 0 to {} keys (max_nnz or nnz_per_slot of the config), found {}",
        text_of(place), s, most, nnz);
  if (fixed_length_[static_cast<size_t>(s)] && nnz != most)
    raise<DataError>("{}, slot {}: expected {} keys (nnz_per_slot, is_fixed_length), found {}",
                     text_of(place), s, most, nnz);
  if (left - 4 < nnz * key_bytes_)
    raise<DataError>(
        "{}, slot {}: expected {} keys of {} bytes, found {} bytes to the end of the {}",
        text_of(place), s, nnz, key_bytes_, left - 4, whole);
  return nnz;
}

int64_t NormDecoder::skip(std::span<const std::byte> bytes, const NormPlace& place) const {
  const Payload p = payload(bytes, place);
  if (p.framed_bytes > 0) return p.framed_bytes;
  int64_t at = 4 * (label_dim_ + dense_dim_);
  for (int64_t s = 0; s < layout_.slots(); ++s) {
    const int64_t nnz = read_nnz(bytes, s, at, place);
    at += nnz * key_bytes_;
  }
  return at;
}

int64_t NormDecoder::decode(std::span<const std::byte> bytes, const NormPlace& place,
                            HostBatch& batch, int64_t row) const {
  HLITE_CHECK(row >= 0 && row < batch.labels.dim(0) && batch.labels.dim(1) == label_dim_ &&
                  batch.dense.dim(1) >= dense_dim_ && batch.keys.dim(1) == layout_.columns,
              "row {} of {} {} {}", row, batch.labels.shape(), batch.dense.shape(),
              batch.keys.shape());
  const Payload p = payload(bytes, place);
  if (p.framed_bytes > 0) {
    const std::byte found = bytes[static_cast<size_t>(p.framed_bytes - 1)];
    if (const std::byte expected = byte_sum(p.bytes); expected != found)
      raise<DataError>("{}: expected the checksum {} (the sum of its bytes), found {}",
                       text_of(place), static_cast<int>(expected), static_cast<int>(found));
  }
  const auto label_bytes = static_cast<size_t>(4 * label_dim_),
             dense_bytes = static_cast<size_t>(4 * dense_dim_);
  if (label_bytes > 0) std::memcpy(batch.labels.row(row), p.bytes.data(), label_bytes);
  if (dense_bytes > 0) std::memcpy(batch.dense.row(row), p.bytes.data() + label_bytes, dense_bytes);
  check_values(place, batch, row);
  const int64_t size = int64_keys_ ? decode_keys<int64_t>(p.bytes, place, batch, row)
                                   : decode_keys<uint32_t>(p.bytes, place, batch, row);
  if (p.framed_bytes == 0) return size;
  if (size != p.framed_bytes - 5)
    raise<DataError>("{}: expected a block of {} bytes, as its numbers of keys say, found {}",
                     text_of(place), size, p.framed_bytes - 5);
  return p.framed_bytes;
}

template <typename Key>
int64_t NormDecoder::decode_keys(std::span<const std::byte> bytes, const NormPlace& place,
                                 HostBatch& batch, int64_t row) const {
  uint32_t* column = batch.keys.row(row);
  int64_t at = 4 * (label_dim_ + dense_dim_), c = 0;
  for (int64_t s = 0; s < layout_.slots(); ++s) {
    const int64_t nnz = read_nnz(bytes, s, at, place), end = c + nnz;
    const int64_t next = c + layout_.hotness[static_cast<size_t>(s)];
    const uint64_t offset = key_offset_[static_cast<size_t>(s)];
    for (; c < end; ++c, at += static_cast<int64_t>(sizeof(Key))) {
      // A key below its table, or negative, wraps round and is above it.
      const Key found = load<Key>(bytes.data() + at);
      const uint64_t key = static_cast<uint64_t>(found) - offset;
      if (key <= key_check_.last_key(c)) {
        column[c] = static_cast<uint32_t>(key);
        continue;
      }
      if (!key_check_.replaces()) fail_key(place, c, static_cast<int64_t>(found));
      column[c] = key_check_.replacement(c);
      ++batch.replaced_keys;
    }
    for (; c < next; ++c) column[c] = kNoKey;
  }
  return at;
}

void NormDecoder::check_values(const NormPlace& place, const HostBatch& batch, int64_t row) const {
  const float *labels = batch.labels.row(row), *dense = batch.dense.row(row);
  for (int64_t l = 0; l < label_dim_; ++l)
    if (!(labels[l] >= 0 && labels[l] <= 1))
      raise<DataError>("{}, label {}: expected a value in [0, 1], found {}", text_of(place), l,
                       labels[l]);
  // Subtracting gives NaN exactly for what is not finite.
  bool bad = false;
  for (int64_t d = 0; d < dense_dim_; ++d) bad |= dense[d] - dense[d] != 0;
  for (int64_t d = 0; bad && d < dense_dim_; ++d)
    if (!std::isfinite(dense[d]))
      raise<DataError>("{}, dense {}: expected a finite value, found {}", text_of(place), d,
                       dense[d]);
}

void NormDecoder::fail_key(const NormPlace& place, int64_t column, int64_t found) const {
  const auto offset =
      static_cast<int64_t>(key_offset_[static_cast<size_t>(layout_.slot_of(column))]);
  const int64_t rows = int64_t{key_check_.last_key(column)} + 1;
  const std::string where = text_of(place) + ", " + layout_.describe(column);
  if (offset == 0 && found >= 0)
    raise<DataError>("{}: expected less than {}, the rows of its table, found {}", where, rows,
                     found);
  raise<DataError>("{}: expected {} to {}, the rows of its table among all, found {}", where,
                   offset, offset + rows - 1, found);
}

}  // namespace hlite::data
