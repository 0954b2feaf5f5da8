// The structure of a sample of a Norm file (norm_format.h): its frame, its floats, the keys of each
// slot. What the values should be is not looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data_reader/record_issue.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::data {

// The facts about samples that are known before any is read.
struct NormRecordShape {
  bool sum = false, int64_keys = false;
  int64_t label_width = 0, dense_dim = 0;
  std::vector<int64_t> hotness;    // [slots] most keys of a sample
  std::vector<bool> fixed_length;  // [slots] every sample has as many
  std::vector<bool> history = {};  // [slots] a sample may have more; empty: none may

  static NormRecordShape from(const config::DataConfig& config);
};

class NormRecord {
 public:
  explicit NormRecord(NormRecordShape shape);

  [[nodiscard]] const NormRecordShape& shape() const { return shape_; }
  // Bytes of a record with as many keys in each slot as its hotness. One of a history may have more.
  [[nodiscard]] int64_t max_bytes() const { return max_bytes_; }
  // Bytes of the record at the front of `bytes`, or as many as tell more of them.
  [[nodiscard]] int64_t bytes_needed(std::span<const std::byte> bytes) const;

  // Walks through the record at the front of `bytes`, which are bytes_needed() or all that the file
  // still has: floats(p) with labels and dense values at p, then for each slot keys(slot, n, p)
  // with n keys at p. Returns the record's size. Throws DataError for one that is cut short, whose
  // checksum is wrong, or whose numbers of keys are not what the shape says.
  template <typename Floats, typename Keys>
  int64_t read(std::span<const std::byte> bytes, const RecordPlace& place, Floats&& floats,
               Keys&& keys) const {
    const Payload p = payload(bytes, place);
    if (p.framed_bytes > 0) check_sum(bytes, p, place);
    floats(p.bytes.data());
    const int64_t size = read_slots(p.bytes, place, keys);
    if (p.framed_bytes == 0) return size;
    if (size != p.framed_bytes - kFrameBytes) fail_size(place, size, p.framed_bytes - kFrameBytes);
    return p.framed_bytes;
  }
  // The record's size alone. Its checksum is not looked at.
  [[nodiscard]] int64_t skip(std::span<const std::byte> bytes, const RecordPlace& place) const;

 private:
  static constexpr int64_t kFrameBytes = 5;
  // The bytes of a record without its framing, and its size with it.
  struct Payload {
    std::span<const std::byte> bytes;  // unframed: to the end of what there is
    int64_t framed_bytes = 0;          // 0: unframed
  };

  [[nodiscard]] Payload payload(std::span<const std::byte> bytes, const RecordPlace& place) const;
  static void check_sum(std::span<const std::byte> bytes, const Payload& p,
                        const RecordPlace& place);
  template <typename Keys>
  int64_t read_slots(std::span<const std::byte> bytes, const RecordPlace& place,
                     Keys&& keys) const {
    int64_t at = 4 * (shape_.label_width + shape_.dense_dim);
    const auto slots = static_cast<int64_t>(min_keys_.size());
    for (int64_t s = 0; s < slots; ++s) {
      const int64_t left = static_cast<int64_t>(bytes.size()) - at - 4;
      const int64_t n = left < 0 ? -1 : int64_t{load<int32_t>(bytes.data() + at)};
      if (n < min_keys_[static_cast<size_t>(s)] || n > max_keys_[static_cast<size_t>(s)] ||
          left < n * key_bytes_)
        fail_slot(place, s, n, left);
      at += 4;
      keys(s, n, bytes.data() + at);
      at += n * key_bytes_;
    }
    return at;
  }
  // `left`: bytes after the slot's number of keys, which is `n`; negative if that number is
  // missing.
  [[noreturn]] void fail_slot(const RecordPlace& place, int64_t s, int64_t n, int64_t left) const;
  [[noreturn]] static void fail_size(const RecordPlace& place, int64_t expected, int64_t found);

  NormRecordShape shape_;
  int64_t key_bytes_, min_bytes_ = 0, max_bytes_ = 0, longest_ = 0;
  std::vector<int64_t> min_keys_, max_keys_;  // [slots] of a sample
};

}  // namespace hlite::data
