// libFuzzer target: arbitrary bytes as records of raw data. They are decoded to values in their
// ranges, or refused by a DataError; the file's size is refused when it holds no whole number of
// records.
//
// Input: 4 bytes that choose the format (kinds of numbers, dimensions, hotness, key policy), then
// the file.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "data_reader/async_reader.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/core/error.h"

namespace {
using namespace hlite;
using namespace hlite::data;

void require(bool condition) {
  if (!condition) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  config::DataConfig config;
  config.format = &config::data_format("RawAsync");
  config.label_dim = 1;
  config.float_label = data[0] & 1;
  config.float_dense = data[0] & 2;
  config.dense_aligned = data[0] & 4;
  config.key_policy.kind = static_cast<config::KeyPolicy>((data[0] >> 3) % 3);
  config.dense_dim = data[1] % 15;
  config::SparseInputConfig sparse;
  sparse.is_fixed_length = !(data[2] & 128);
  sparse.slot_num = data[2] % 5;
  std::vector<int64_t> rows;
  for (int64_t s = 0; s < sparse.slot_num; ++s) {
    sparse.hotness.push_back(1 + (data[3] >> (2 * (s % 4))) % 4);
    rows.push_back(int64_t{1} << (8 * s));
  }
  config.sparse.push_back(sparse);

  const RawFormat format = RawFormat::from(config);
  const auto bytes = std::as_bytes(std::span(data + 4, size - 4));
  int64_t count = 0;
  try {
    count = raw_sample_count(config, Split::kTrain, "fuzz.bin", std::ssize(bytes));
    require(count * format.record_bytes() == std::ssize(bytes));
  } catch (const DataError&) {
    count = std::ssize(bytes) / format.record_bytes();
  }
  BatchBuffer buffer(count, 1, config.dense_width(), format.keys.columns);
  const HostBatch& b = buffer.batch();
  try {
    RawDecoder decoder("fuzz.bin", format, rows, config.key_policy);
    const int64_t replaced =
        decoder.decode(bytes.first(static_cast<size_t>(count * format.record_bytes())), 0, count,
                       buffer.batch(), 0);
    require(replaced >= 0 && replaced <= count * format.keys.columns);
  } catch (const DataError&) {
    return 0;
  }
  for (int64_t i = 0; i < count; ++i) {
    require(b.labels(i, 0) >= 0 && b.labels(i, 0) <= 1);
    for (int64_t d = 0; d < config.dense_width(); ++d) require(std::isfinite(b.dense(i, d)));
    for (int64_t c = 0; c < format.keys.columns; ++c)
      require(b.keys(i, c) < rows[static_cast<size_t>(format.keys.slot_of(c))] ||
              (b.keys(i, c) == kNoKey && !sparse.is_fixed_length));
  }
  return 0;
}
