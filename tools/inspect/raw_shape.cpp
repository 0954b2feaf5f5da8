#include "tools/inspect/raw_shape.h"

#include <algorithm>

#include "hugectr_lite/core/file.h"
#include "tools/criteo/criteo_record.h"

namespace hlite::tools {
namespace {

constexpr int64_t kMostWords = 4096;   // of a record, when it must be found by trying
constexpr int64_t kFewestRecords = 8;  // that a record size is believed from
constexpr uint32_t kSwappedOne = 0x01000000;

// Floats between 2^-37 and 2^33 in magnitude. Integers below 2^26 look like floats below 1e-31,
// small negative ones like no number at all.
bool looks_float(uint32_t word) {
  const uint32_t exponent = word >> 23 & 255;
  return exponent >= 90 && exponent <= 160;
}

bool is_label(const WordColumn& c) {
  return c.labels_integer || c.labels_float || c.labels_swapped;
}

}  // namespace

WordColumn look_at_column(std::span<const uint32_t> data, int64_t words, int64_t column) {
  int64_t rows = 0, zeros = 0, ones = 0, float_ones = 0, swapped_ones = 0, floats = 0;
  for (size_t i = static_cast<size_t>(column); i < data.size(); i += static_cast<size_t>(words)) {
    const uint32_t w = data[i];
    ++rows;
    zeros += w == 0;
    ones += w == 1;
    float_ones += w == kFloatOne;
    swapped_ones += w == kSwappedOne;
    floats += looks_float(w);
  }
  WordColumn c;
  c.zeros = zeros == rows;
  const auto all = [&](int64_t n) { return n > 0 && zeros > 0 && zeros + n == rows; };
  c.labels_integer = all(ones);
  c.labels_float = all(float_ones);
  c.labels_swapped = all(swapped_ones);
  c.floats = floats > 0 && floats * 100 >= (rows - zeros) * 98;
  return c;
}

std::vector<uint32_t> read_words(const std::string& path, int64_t most) {
  const ReadFile file(path);
  std::vector<uint32_t> words(static_cast<size_t>(std::min(most, file.size()) / 4));
  file.read(0, std::as_writable_bytes(std::span(words)));
  return words;
}

RawGuess guess_raw_shape(std::span<const uint32_t> data, int64_t file_bytes,
                         std::span<const int64_t> hints) {
  RawGuess guess;
  const auto size = static_cast<int64_t>(data.size());
  // The smallest size with labels in front, one that divides the file before one that does not:
  // multiples of the true size have them too.
  const auto divides = [&](int64_t words) { return file_bytes % (4 * words) == 0; };
  int64_t odd = 0;
  for (int64_t words = 2; words <= std::min(kMostWords, size / kFewestRecords); ++words) {
    if (!is_label(look_at_column(data, words, 0))) continue;
    if (divides(words)) {
      guess.words = words;
      break;
    }
    if (odd == 0) odd = words;
  }
  // Of sizes that divide the file but are multiples of one that does not, the latter is meant.
  if (odd > 0 && (guess.words == 0 || guess.words % odd == 0)) guess.words = odd;
  if (guess.words == 0) {
    // A label elsewhere: only in sizes that somebody names.
    for (const int64_t words : hints) {
      if (words < 2 || size / words < kFewestRecords) continue;
      for (int64_t column = words - 1; column > 0; --column) {
        const WordColumn c = look_at_column(data, words, column);
        if (!is_label(c)) continue;
        guess.words = words;
        guess.label_column = column;
      }
      if (guess.words > 0) break;
    }
  }
  if (guess.words == 0) return guess;

  const WordColumn label = look_at_column(data, guess.words, guess.label_column);
  guess.float_label = label.labels_float;
  guess.swapped = label.labels_swapped;
  for (int64_t column = 1; column < guess.words; ++column) {
    const WordColumn c = look_at_column(data, guess.words, column);
    if (!c.floats && !c.zeros) break;
    if (c.floats) {
      guess.float_dense = true;
      guess.float_columns = column;
    }
  }
  if (guess.swapped) guess.float_dense = false;
  const int64_t records = size / guess.words;
  guess.sure = divides(guess.words) && records >= 64 ? Sureness::kLikely : Sureness::kGuess;
  guess.why = fmt::format("word {} of every {} bytes is {} in all {} records looked at{}",
                          guess.label_column, 4 * guess.words,
                          label.labels_float     ? "0.0 or 1.0"
                          : label.labels_swapped ? "0 or a 1 in the other byte order"
                                                 : "0 or 1",
                          records, divides(guess.words) ? "" : "; the file ends inside a record");
  return guess;
}

data::RawFormat layout_of(const RawGuess& guess, bool& boundary_known) {
  data::RawFormat format;
  format.float_label = guess.float_label;
  format.float_dense = guess.float_dense;
  const bool criteo = guess.words == criteo::kColumns;
  boundary_known = criteo || guess.float_dense;
  format.dense_dim = criteo ? criteo::kDense : guess.float_columns;
  format.keys = KeyLayout::one_hot(guess.words - 1 - format.dense_dim);
  return format;
}

}  // namespace hlite::tools
