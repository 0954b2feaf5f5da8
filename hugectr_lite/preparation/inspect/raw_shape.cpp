#include "hugectr_lite/preparation/inspect/raw_shape.h"

#include <algorithm>

namespace hlite::prep {
namespace {

constexpr int64_t kMaxWords = 4096;  // longest record that is tried
constexpr uint32_t kFloatOne = 0x3f800000;
constexpr int64_t kFewestRecords = 8;  // that a record size is believed from

// Floats between 2^-37 and 2^33 in magnitude. Integers below 2^26 look like floats below 1e-31,
// small negative ones like NaN.
bool looks_float(uint32_t word) {
  const uint32_t exponent = word >> 23 & 255;
  return exponent >= 90 && exponent <= 160;
}

}  // namespace

WordColumn inspect_column(std::span<const uint32_t> data, int64_t words, int64_t column) {
  int64_t rows = 0, zeros = 0, ones = 0, float_ones = 0, floats = 0;
  for (size_t i = static_cast<size_t>(column); i < data.size(); i += static_cast<size_t>(words)) {
    const uint32_t w = data[i];
    ++rows;
    zeros += w == 0;
    ones += w == 1;
    float_ones += w == kFloatOne;
    floats += looks_float(w);
  }
  WordColumn c;
  c.zeros = zeros == rows;
  const auto all = [&](int64_t n) { return n > 0 && zeros > 0 && zeros + n == rows; };
  c.labels_integer = all(ones);
  c.labels_float = all(float_ones);
  c.floats = floats > 0 && floats * 100 >= (rows - zeros) * 98;
  return c;
}

int64_t find_record_words(std::span<const uint32_t> data, int64_t file_bytes) {
  const int64_t most = std::min(kMaxWords, std::ssize(data) / kFewestRecords);
  for (int64_t words = 2; words <= most; ++words) {
    if (file_bytes % (4 * words) != 0) continue;
    const WordColumn label = inspect_column(data, words, 0);
    if (label.labels_integer || label.labels_float) return words;
  }
  return 0;
}

}  // namespace hlite::prep
