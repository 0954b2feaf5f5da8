#include "data_reader/norm_record.h"

#include <algorithm>

#include "data_reader/history_check.h"
#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"

namespace hlite::data {

NormRecordShape NormRecordShape::from(const config::DataConfig& config) {
  NormRecordShape shape;
  shape.sum = config.checksums;
  shape.int64_keys = config.int64_keys;
  shape.label_width = config.label_width();
  shape.dense_dim = config.dense_dim;
  shape.hotness = config.key_layout().hotness;
  for (const auto& sparse : config.sparse) {
    const auto slots = static_cast<size_t>(sparse.slot_num);
    shape.fixed_length.insert(shape.fixed_length.end(), slots, sparse.is_fixed_length);
    shape.history.insert(shape.history.end(), slots, sparse.max_len > 0);
  }
  return shape;
}

NormRecord::NormRecord(NormRecordShape shape)
    : shape_(std::move(shape)), key_bytes_(shape_.int64_keys ? 8 : 4) {
  min_bytes_ = max_bytes_ =
      4 * (shape_.label_width + shape_.dense_dim + std::ssize(shape_.hotness)) +
      (shape_.sum ? kFrameBytes : 0);
  for (size_t s = 0; s < shape_.hotness.size(); ++s) {
    const bool history = !shape_.history.empty() && shape_.history[s];
    min_keys_.push_back(shape_.fixed_length[s] ? shape_.hotness[s] : 0);
    max_keys_.push_back(history ? kLongestHistory : shape_.hotness[s]);
    min_bytes_ += key_bytes_ * min_keys_[s];
    max_bytes_ += key_bytes_ * shape_.hotness[s];
    longest_ += key_bytes_ * (max_keys_[s] - shape_.hotness[s]);
  }
  longest_ += max_bytes_;
}

int64_t NormRecord::bytes_needed(std::span<const std::byte> bytes) const {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < min_bytes_ || longest_ == max_bytes_) return max_bytes_;
  if (shape_.sum)
    return std::clamp<int64_t>(load<int32_t>(bytes.data()), 0, longest_) + kFrameBytes;
  int64_t at = 4 * (shape_.label_width + shape_.dense_dim);
  for (const int64_t most : max_keys_) {
    at += 4;
    if (at > size) break;
    at += key_bytes_ * std::clamp<int64_t>(load<int32_t>(bytes.data() + at - 4), 0, most);
  }
  return at;
}

NormRecord::Payload NormRecord::payload(std::span<const std::byte> bytes,
                                        const RecordPlace& place) const {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < min_bytes_)
    raise<DataError>("{}: expected at least {} bytes, found the end of the file after {}",
                     text_of(place), min_bytes_, size);
  if (!shape_.sum) return {bytes, 0};
  const int64_t length = load<int32_t>(bytes.data());
  if (length < min_bytes_ - kFrameBytes || length > longest_ - kFrameBytes)
    raise<DataError>("{}: expected a block of {} to {} bytes, found a length of {}", text_of(place),
                     min_bytes_ - kFrameBytes, longest_ - kFrameBytes, length);
  if (length + kFrameBytes > size)
    raise<DataError>("{}: expected {} bytes, found the end of the file after {}", text_of(place),
                     length + kFrameBytes, size);
  return {bytes.subspan(4, static_cast<size_t>(length)), length + kFrameBytes};
}

void NormRecord::check_sum(std::span<const std::byte> bytes, const Payload& p,
                           const RecordPlace& place) {
  const std::byte found = bytes[static_cast<size_t>(p.framed_bytes - 1)];
  if (const std::byte expected = byte_sum(p.bytes); expected != found)
    raise<DataError>("{}: expected the checksum {} (the sum of its bytes), found {}",
                     text_of(place), static_cast<int>(expected), static_cast<int>(found));
}

int64_t NormRecord::skip(std::span<const std::byte> bytes, const RecordPlace& place) const {
  const Payload p = payload(bytes, place);
  if (p.framed_bytes > 0) return p.framed_bytes;
  return read_slots(bytes, place, [](int64_t, int64_t, const std::byte*) {});
}

void NormRecord::fail_slot(const RecordPlace& place, int64_t s, int64_t n, int64_t left) const {
  const int64_t most = max_keys_[static_cast<size_t>(s)];
  const char* whole = shape_.sum ? "block" : "file";
  if (left < 0)
    raise<DataError>("{}, slot {}: expected its number of keys, found the end of the {}",
                     text_of(place), s, whole);
  if (n < 0 || n > most)
    raise<DataError>("{}, slot {}: expected 0 to {} keys{}, found {}", text_of(place), s, most,
                     most == shape_.hotness[static_cast<size_t>(s)]
                         ? " (max_nnz or nnz_per_slot of the config)"
                         : "",
                     n);
  if (shape_.fixed_length[static_cast<size_t>(s)] && n != most)
    raise<DataError>("{}, slot {}: expected {} keys (nnz_per_slot, is_fixed_length), found {}",
                     text_of(place), s, most, n);
  raise<DataError>("{}, slot {}: expected {} keys of {} bytes, found {} bytes to the end of the {}",
                   text_of(place), s, n, key_bytes_, left, whole);
}

void NormRecord::fail_size(const RecordPlace& place, int64_t expected, int64_t found) {
  raise<DataError>("{}: expected a block of {} bytes, as its numbers of keys say, found {}",
                   text_of(place), expected, found);
}

}  // namespace hlite::data
