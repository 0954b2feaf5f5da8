// Many lines of Criteo's click logs at once, as fast as the processor compares bytes.
//
// One scan finds the separators. The characters of a field, 8 at most, are one word, and words of
// a column are converted next to each other: loops that the compiler turns into vectors.
#pragma once

#include <cstdint>
#include <string_view>

#include "tools/criteo/criteo_record.h"

namespace hlite::tools::criteo {

// LineParser::parse_front() for such lines, in columns of 32 bits. Stops before a line that has a
// field of more than 8 characters, too, although that can be a good one.
ParsedFront parse_front(int64_t number, std::string_view text, const KeyRange& range, bool labelled,
                        const ColumnArrays& out, int64_t row, const KeepLine& keeps);

}  // namespace hlite::tools::criteo
