// Dates in text by a format, independent of locale and time zone: a date is read as it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hlite::prep {

struct DateTime {
  int year = 1970, month = 1, day = 1;
  int hour = 0, minute = 0, second = 0;
  double fraction = 0;  // of a second, in [0, 1)
  // Since 1970-01-01 00:00:00 of the proleptic Gregorian calendar.
  [[nodiscard]] int64_t seconds() const;
  [[nodiscard]] int weekday() const;  // 1: Monday, ..., 7: Sunday
};

// A format is text with directives:
//
//   %Y        four digits                         %m %d %H %M %S   one or two digits
//   %y        two digits: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068
//   %b        Jan, ..., Dec, in any case          %f               1 to 9 digits of a second
//   %s        whole seconds since 1970            %%               a percent sign
//
// What the format lacks is that of 1970-01-01 00:00:00.
class DateFormat {
 public:
  DateFormat() = default;
  // Throws ConfigError "expected ..., found ...".
  explicit DateFormat(std::string format);
  [[nodiscard]] const std::string& text() const { return format_; }
  // The format says which year, month, day, hour or minute ('Y', 'm', 'd', 'H', 'M').
  [[nodiscard]] bool has(char part) const;
  // Nothing where `text` does not follow the format as a whole, or there is no such date.
  [[nodiscard]] std::optional<DateTime> parse(std::string_view text) const;

 private:
  std::string format_;
};

enum class DatePart { kYear, kQuarter, kMonth, kDay, kWeekday, kHour, kMinute };
const std::vector<std::pair<std::string, DatePart>>& date_parts();
const std::string& part_name(DatePart part);
int part_of(const DateTime& date, DatePart part);
// The directives that a format needs for the part.
std::string_view directives_of(DatePart part);

}  // namespace hlite::prep
