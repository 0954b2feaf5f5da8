// The Norm format: a list of files, each with a header and framed samples, little-endian.
//
//   list   := text: the number of files, then one path a line (relative to the list's folder, then
//             to the working directory)
//   file   := block(header) block(sample)*
//   header := int64 error_check (0 none, 1 sum), number_of_records, label_dim, dense_dim, slot_num,
//             reserved[3]                                                       (64 bytes)
//   sample := float32 label[label_dim], float32 dense[dense_dim],
//             (int32 nnz, key[nnz]) x slot_num;    key := uint32 or int64 (input_key_type)
//   block(x) := x                                       with error_check 0
//               int32 bytes of x, x, 1 byte: the sum of x's bytes modulo 256     with 1
//
// Dense values are taken as they are. Facts: HugeCTR 3.1's data_reader and criteo2hugectr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/core/file.h"

namespace hlite::data {

struct NormHeader {
  bool sum = false;
  int64_t records = 0, label_dim = 0, dense_dim = 0, slots = 0;
  bool operator==(const NormHeader&) const = default;
  static constexpr int64_t kBytes = 64;
  // Bytes before the first sample: 64, or 69 when framed.
  [[nodiscard]] int64_t framed_bytes() const { return sum ? kBytes + 5 : kBytes; }
  // Bytes of a sample without keys, framing included.
  [[nodiscard]] int64_t min_sample_bytes() const {
    return 4 * (label_dim + dense_dim + slots) + (sum ? 5 : 0);
  }
};

// The check byte of a block.
std::byte byte_sum(std::span<const std::byte> bytes);

// For writers: these append a header or a sample to `out`.
void append_norm_header(const NormHeader& header, std::vector<std::byte>& out);
// `keys` holds the slots' keys one slot after the other, nnz[s] of slot s. `framed`: NormHeader::sum.
void append_norm_sample(bool framed, std::span<const float> label, std::span<const float> dense,
                        std::span<const int32_t> nnz, std::span<const uint32_t> keys,
                        std::vector<std::byte>& out);

// Reads the header of a file. Throws DataError "<path>: ..." for one that is cut short, whose
// checksum is wrong, or whose numbers make no sense (more records than the file can hold).
NormHeader read_norm_header(const ByteSource& file);

// The paths in a file list, resolved. Throws DataError "<list>:<line>: ...".
std::vector<std::string> read_file_list(const std::string& path);

}  // namespace hlite::data
