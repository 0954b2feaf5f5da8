// The shape of raw data, guessed from its words: records have no header, but their first word is 0
// or 1 at every multiple of the record size, floats look like floats, and integers stay small.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/raw_format.h"
#include "tools/inspect/file_kind.h"

namespace hlite::tools {

constexpr int64_t kHeadBytes = 4 << 20;     // bytes of a file that a guess looks at
constexpr uint32_t kFloatOne = 0x3f800000;  // 1.0f as a word

// What the words of one column look like.
struct WordColumn {
  bool labels_integer = false;  // all 0 or 1, both occur
  bool labels_float = false;    // all 0.0f or 1.0f, both occur
  bool labels_swapped = false;  // the same as labels_integer with the bytes in reverse order
  bool floats = false;          // nearly all words that are not 0 are floats of an everyday size
  bool zeros = false;           // nothing but 0
};
// Column `column` of records of `words` words, over all whole records of `data`.
WordColumn look_at_column(std::span<const uint32_t> data, int64_t words, int64_t column);

struct RawGuess {
  int64_t words = 0;         // of a record; 0: nothing found
  int64_t label_column = 0;  // the column that looks like a label
  bool float_label = false, float_dense = false, swapped = false;
  // Of the columns behind the label: how many hold floats (float_dense).
  int64_t float_columns = 0;
  Sureness sure = Sureness::kGuess;
  std::string why;
};

// `data`: the first words of the file; `file_bytes`: of all of it. `hints`: record sizes in words
// worth trying where several fit or the label is not in front (a config's, Criteo's).
RawGuess guess_raw_shape(std::span<const uint32_t> data, int64_t file_bytes,
                         std::span<const int64_t> hints);

// The most likely layout of a record of that shape: Criteo's 13 dense values and 26 keys for 160
// bytes; else floats are dense values and the rest keys. `boundary_known` tells whether that is
// more than an assumption.
data::RawFormat layout_of(const RawGuess& guess, bool& boundary_known);

// The first `most` bytes of a file, as whole words.
std::vector<uint32_t> read_words(const std::string& path, int64_t most);

}  // namespace hlite::tools
