// libFuzzer target: arbitrary bytes as a Norm file, and as a file list. They are read to values in
// their ranges, or refused by a DataError; records passed over have the size of those decoded.
//
// Input: 3 bytes that choose the config, then the file after its header. Every other input gets
// its checksums put right, else nothing but the first one would ever be seen.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "data_reader/norm_decoder.h"
#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "tests/support/memory_bytes.h"

namespace {
using namespace hlite;
using hlite::test::MemoryBytes;
using namespace hlite::data;

void require(bool condition) {
  if (!condition) std::abort();
}

void read_header(std::span<const std::byte> bytes) {
  try {
    const NormHeader h = read_norm_header(MemoryBytes("fuzz.norm", bytes));
    require(h.records >= 0 && h.label_dim >= 0 && h.dense_dim >= 0 && h.slots >= 0);
    require(h.records * h.min_sample_bytes() <= std::ssize(bytes));
    std::vector<std::byte> again;
    append_norm_header(h, again);
    require(std::ssize(again) == h.framed_bytes());
  } catch (const DataError&) {
  }
}

void check_row(const HostBatch& b, int64_t row, const KeyLayout& layout,
               std::span<const int64_t> rows) {
  require(b.labels(row, 0) >= 0 && b.labels(row, 0) <= 1);
  for (int64_t d = 0; d < b.dense.dim(1); ++d) require(std::isfinite(b.dense(row, d)));
  for (int64_t c = 0; c < layout.columns; ++c)
    require(b.keys(row, c) == kNoKey ||
            b.keys(row, c) < rows[static_cast<size_t>(layout.slot_of(c))]);
}

void read_records(const config::DataConfig& config, std::span<const int64_t> rows,
                  std::span<const std::byte> bytes) {
  const NormDecoder decoder(config, rows);
  const KeyLayout layout = config.key_layout();
  BatchBuffer buffer(1, 1, config.dense_width(), layout.columns);
  const std::string path = "fuzz.norm";
  int64_t at = 0;
  for (int64_t record = 0; at < std::ssize(bytes); ++record) {
    const auto rest = bytes.subspan(static_cast<size_t>(at));
    const RecordPlace place{path, record, at};
    int64_t skipped = 0, decoded = 0;
    try {
      skipped = decoder.skip(rest, place);
      require(skipped > 0 && skipped <= std::ssize(rest));
      require(skipped <= decoder.max_record_bytes());
      decoded = decoder.decode(rest, place, buffer.batch(), 0);
      check_row(buffer.batch(), 0, layout, rows);
    } catch (const DataError&) {
      return;
    }
    require(decoded == skipped);
    at += decoded;
  }
}

// Makes the sum of every block right, as far as the lengths lead.
void correct_sums(std::vector<std::byte>& bytes) {
  for (size_t at = 0; at + 5 <= bytes.size();) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at, 4);
    if (length > bytes.size() - at - 5) return;
    bytes[at + 4 + length] = byte_sum({bytes.data() + at + 4, length});
    at += length + size_t{5};
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_header(std::as_bytes(std::span(data, size)));
  if (size < 3) return 0;
  config::DataConfig config;
  config.format = &config::data_format("Norm");
  config.label_dim = 1;
  config.checksums = (data[0] & 1) != 0;
  config.int64_keys = data[0] & 2;
  config.global_keys = data[0] & 4;
  config.key_policy.kind = static_cast<config::KeyPolicy>((data[0] >> 3) % 3);
  config.dense_dim = data[1] % 15;
  config::SparseInputConfig sparse;
  sparse.slot_num = 1 + (data[1] >> 4) % 4;
  sparse.is_fixed_length = data[0] & 32;
  std::vector<int64_t> rows;
  for (int64_t s = 0; s < sparse.slot_num; ++s) {
    sparse.hotness.push_back(1 + (data[2] >> (2 * s)) % 4);
    rows.push_back(int64_t{1} << (8 * s));
  }
  config.sparse.push_back(sparse);
  const auto file = std::as_bytes(std::span(data, size)).subspan(3);
  std::vector<std::byte> bytes(file.begin(), file.end());
  if (data[0] & 64) correct_sums(bytes);
  read_header(bytes);
  read_records(config, rows, bytes);
  return 0;
}
