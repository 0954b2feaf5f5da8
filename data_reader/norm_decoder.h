// Turns records of Norm files (norm_format.h) into rows of batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/key_check.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::data {

// For messages: "<path>: record 12 (byte 3456)".
struct NormPlace {
  const std::string& path;
  int64_t record = 0, byte = 0;
};

class NormDecoder {
 public:
  // `slot_rows`: rows of each slot's table. A key of slot s is local to the slot's table, or with
  // "keys": "global" counts on from the tables before it.
  NormDecoder(const config::DataConfig& config, std::span<const int64_t> slot_rows);

  // Of a record with as many keys as the config allows.
  [[nodiscard]] int64_t most_record_bytes() const { return most_bytes_; }

  // Decodes the record at the front of `bytes`, which are most_record_bytes() or all that the file
  // still has, into a row of the batch; slots' columns without a key get kNoKey. Adds the keys that
  // the policy replaced to batch.replaced_keys. Returns the record's size. Throws DataError for one
  // that is cut short, whose checksum is wrong, or with a value outside of its range:
  // "<path>: record 12 (byte 3456), key of slot 3: expected less than 50, the rows of its table,
  // found 99".
  int64_t decode(std::span<const std::byte> bytes, const NormPlace& place, HostBatch& batch,
                 int64_t row) const;
  // The record's size alone. Neither its checksum nor its values are looked at.
  [[nodiscard]] int64_t skip(std::span<const std::byte> bytes, const NormPlace& place) const;

 private:
  // The bytes of a record without its framing, and its size with it.
  struct Payload {
    std::span<const std::byte> bytes;  // unframed: to the end of what there is
    int64_t framed_bytes = 0;          // 0: unframed
  };
  [[nodiscard]] Payload payload(std::span<const std::byte> bytes, const NormPlace& place) const;
  template <typename Key>
  int64_t decode_keys(std::span<const std::byte> bytes, const NormPlace& place, HostBatch& batch,
                      int64_t row) const;
  // Number of keys of slot `s`, which is followed by that many keys. Moves `at` behind the number.
  int64_t read_nnz(std::span<const std::byte> bytes, int64_t s, int64_t& at,
                   const NormPlace& place) const;
  void check_values(const NormPlace& place, const HostBatch& batch, int64_t row) const;
  [[noreturn]] void fail_key(const NormPlace& place, int64_t column, int64_t found) const;

  int64_t label_dim_, dense_dim_;
  bool sum_, int64_keys_;
  std::vector<bool> fixed_length_;  // [slots] every sample has as many keys as the hotness
  KeyLayout layout_;
  KeyCheck key_check_;
  std::vector<uint64_t> key_offset_;  // [slots] what is subtracted from a key
  int64_t key_bytes_, least_bytes_ = 0, most_bytes_ = 0;
};

}  // namespace hlite::data
