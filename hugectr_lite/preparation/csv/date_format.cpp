#include "hugectr_lite/preparation/csv/date_format.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/preparation/csv/take_digits.h"

namespace hlite::prep {

namespace {

constexpr std::string_view kDirectives = "YymbdHMSfs%";
constexpr std::string_view kMonths = "janfebmaraprmayjunjulaugsepoctnovdec";
constexpr int64_t kMaxSeconds = int64_t{1} << 40;  // of %s: some 35,000 years

std::chrono::sys_days day_of(const DateTime& date) {
  using namespace std::chrono;
  return sys_days(year(date.year) / month(static_cast<unsigned>(date.month)) /
                  day(static_cast<unsigned>(date.day)));
}

std::optional<int> take_month(std::string_view& text) {
  if (text.size() < 3) return std::nullopt;
  std::string name(text.substr(0, 3));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t at = kMonths.find(name);
  if (at == std::string_view::npos || at % 3 != 0) return std::nullopt;
  text.remove_prefix(3);
  return static_cast<int>(at / 3) + 1;
}

bool take(std::string_view& text, int& field, int low, int high, size_t least = 1,
          size_t most = 2) {
  const auto value = take_digits(text, least, most);
  if (!value || *value < low || *value > high) return false;
  field = *value;
  return true;
}

bool take_fraction(std::string_view& text, double& fraction) {
  const size_t before = text.size();
  const auto digits = take_digits(text, 1, 9);
  if (!digits) return false;
  int64_t scale = 1;
  for (size_t i = text.size(); i < before; ++i) scale *= 10;
  fraction = static_cast<double>(*digits) / static_cast<double>(scale);
  return true;
}

bool take_seconds(std::string_view& text, DateTime& date) {
  using namespace std::chrono;
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  int64_t value = 0;
  size_t size = 0;
  for (; size < text.size() && is_digit(text[size]) && value < kMaxSeconds; ++size)
    value = 10 * value + (text[size] - '0');
  if (size == 0 || value >= kMaxSeconds) return false;
  text.remove_prefix(size);
  const sys_seconds time{seconds(negative ? -value : value)};
  const sys_days days = floor<std::chrono::days>(time);
  const year_month_day civil(days);
  const hh_mm_ss clock(time - days);
  date.year = static_cast<int>(civil.year());
  date.month = static_cast<int>(static_cast<unsigned>(civil.month()));
  date.day = static_cast<int>(static_cast<unsigned>(civil.day()));
  date.hour = static_cast<int>(clock.hours().count());
  date.minute = static_cast<int>(clock.minutes().count());
  date.second = static_cast<int>(clock.seconds().count());
  return true;
}

// Takes what a directive stands for from the front of `text`.
bool take_directive(char directive, std::string_view& text, DateTime& date) {
  switch (directive) {
    case 'Y':
      return take(text, date.year, 0, 9999, 4, 4);
    case 'y':
      if (!take(text, date.year, 0, 99, 2, 2)) return false;
      date.year += date.year < 69 ? 2000 : 1900;
      return true;
    case 'm':
      return take(text, date.month, 1, 12);
    case 'b': {
      const auto month = take_month(text);
      date.month = month.value_or(date.month);
      return month.has_value();
    }
    case 'd':
      return take(text, date.day, 1, 31);
    case 'H':
      return take(text, date.hour, 0, 23);
    case 'M':
      return take(text, date.minute, 0, 59);
    case 'S':
      return take(text, date.second, 0, 59);
    case 'f':
      return take_fraction(text, date.fraction);
    case 's':
      return take_seconds(text, date);
    default:  // a percent sign
      if (!text.starts_with('%')) return false;
      text.remove_prefix(1);
      return true;
  }
}

}  // namespace

int64_t DateTime::seconds() const {
  const int64_t days = day_of(*this).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

int DateTime::weekday() const {
  return static_cast<int>(std::chrono::weekday(day_of(*this)).iso_encoding());
}

DateFormat::DateFormat(std::string format) : format_(std::move(format)) {
  std::string found;
  for (size_t at = 0; at < format_.size(); ++at) {
    if (format_[at] != '%') continue;
    const char directive = ++at < format_.size() ? format_[at] : '\0';
    if (directive == '\0' || kDirectives.find(directive) == std::string_view::npos)
      raise<ConfigError>(
          "expected a format of %Y, %y, %m, %b, %d, %H, %M, %S, %f, %s and %%, found {} in {}",
          in_quotes(std::string("%") + (directive == '\0' ? "" : std::string(1, directive))),
          in_quotes(format_));
    if (directive == '%') continue;
    const char part = directive == 'y' ? 'Y' : directive == 'b' ? 'm' : directive;
    if (found.find(part) != std::string::npos)
      raise<ConfigError>("expected each part of a date once, found {} in {}",
                         in_quotes(std::string("%") + directive), in_quotes(format_));
    found += part;
  }
  if (found.empty())
    raise<ConfigError>("expected a format with directives like %Y-%m-%d, found {}",
                       in_quotes(format_));
  if (has('s') && found.find_first_not_of("sf") != std::string::npos)
    raise<ConfigError>("expected %s without the parts of a date, found {}", in_quotes(format_));
}

bool DateFormat::has(char part) const {
  for (size_t at = 0; at + 1 < format_.size(); ++at) {
    if (format_[at] != '%') continue;
    const char directive = format_[++at];
    if (directive == part || directive == 's' || (part == 'Y' && directive == 'y') ||
        (part == 'm' && directive == 'b'))
      return true;
  }
  return false;
}

std::optional<DateTime> DateFormat::parse(std::string_view text) const {
  DateTime date;
  for (size_t at = 0; at < format_.size(); ++at) {
    if (format_[at] == '%') {
      if (!take_directive(format_[++at], text, date)) return std::nullopt;
    } else {
      if (!text.starts_with(format_[at])) return std::nullopt;
      text.remove_prefix(1);
    }
  }
  using namespace std::chrono;
  const year_month_day civil = year(date.year) / month(static_cast<unsigned>(date.month)) /
                               day(static_cast<unsigned>(date.day));
  if (!text.empty() || !civil.ok()) return std::nullopt;
  return date;
}

const std::vector<std::pair<std::string, DatePart>>& date_parts() {
  static const std::vector<std::pair<std::string, DatePart>> parts{
      {"year", DatePart::kYear},    {"quarter", DatePart::kQuarter}, {"month", DatePart::kMonth},
      {"day", DatePart::kDay},      {"weekday", DatePart::kWeekday}, {"hour", DatePart::kHour},
      {"minute", DatePart::kMinute}};
  return parts;
}

const std::string& part_name(DatePart part) {
  return std::find_if(date_parts().begin(), date_parts().end(),
                      [&](const auto& named) { return named.second == part; })
      ->first;
}

int part_of(const DateTime& date, DatePart part) {
  switch (part) {
    case DatePart::kYear:
      return date.year;
    case DatePart::kQuarter:
      return (date.month + 2) / 3;
    case DatePart::kMonth:
      return date.month;
    case DatePart::kDay:
      return date.day;
    case DatePart::kWeekday:
      return date.weekday();
    case DatePart::kHour:
      return date.hour;
    case DatePart::kMinute:
      return date.minute;
  }
  return 0;
}

std::string_view directives_of(DatePart part) {
  switch (part) {
    case DatePart::kYear:
      return "Y";
    case DatePart::kQuarter:
    case DatePart::kMonth:
      return "m";
    case DatePart::kDay:
      return "d";
    case DatePart::kWeekday:
      return "Ymd";
    case DatePart::kHour:
      return "H";
    case DatePart::kMinute:
      return "M";
  }
  return "";
}

}  // namespace hlite::prep
