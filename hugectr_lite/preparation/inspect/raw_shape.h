// Guesses the record size of raw data from its words. Records have no header, but their first word,
// the label, is 0 or 1 at every multiple of the record size.
#pragma once

#include <cstdint>
#include <span>

namespace hlite::prep {

struct WordColumn {
  bool labels_integer = false;  // all 0 or 1, both occur
  bool labels_float = false;    // all 0.0f or 1.0f, both occur
  bool floats = false;          // nearly all words that are not 0 are floats of an everyday size
  bool zeros = false;           // nothing but 0
};
// Column `column` of records of `words` words, over all whole records of `data`.
WordColumn inspect_column(std::span<const uint32_t> data, int64_t words, int64_t column);

// The smallest record size, in words, that divides the file and has labels in front; 0 if none has.
// `data` is the start of the file.
int64_t find_record_words(std::span<const uint32_t> data, int64_t file_bytes);

}  // namespace hlite::prep
