// Points in time as numbers that are in the same order, to split rows by time.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hlite::prep {

enum class TimeForm { kNumber, kDate };
// kNumber: a finite number. kDate: ISO 8601's 2024-05-31, alone or with a "T" or blank and the time
// of day, 23:59, 23:59:59 or 23:59:59.999, after which a Z may stand. Other orders of day, month
// and year are refused, since their texts do not say which is which.
std::optional<TimeForm> time_form(std::string_view text);

// Greater for later times of the same form; nothing for a text of another form.
std::optional<uint64_t> time_key(std::string_view text, TimeForm form);

}  // namespace hlite::prep
