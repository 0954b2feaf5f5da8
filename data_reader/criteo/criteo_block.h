// Many lines of Criteo's click logs at once, as fast as the processor compares bytes.
//
// One scan finds the separators. The characters of a field, 8 at most, are one word, and words of
// a column are converted next to each other: loops that the compiler turns into vectors.
#pragma once

#include <cstdint>
#include <string_view>

#include "data_reader/criteo/criteo_record.h"

namespace hlite::criteo {

// LineParser::parse_front() for such lines, in columns of 32 bits. Stops before a line that has a
// field of more than 8 characters, too, although that can be a good one.
data::ParsedFront parse_front(int64_t number, std::string_view text, const KeyRange& range,
                              bool labelled, const data::ColumnArrays& out, int64_t row,
                              const data::KeepLine& keeps);

}  // namespace hlite::criteo
