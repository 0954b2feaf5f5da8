#include "hugectr_lite/preparation/csv/time_key.h"

#include <chrono>
#include <cmath>

#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/preparation/csv/column_transform.h"
#include "hugectr_lite/preparation/csv/take_digits.h"

namespace hlite::prep {

namespace {

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// Seconds of the day.
std::optional<double> time_of_day(std::string_view text) {
  const auto hour = take_digits(text, 2, 2);
  if (!hour || *hour > 24 || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2, 2);
  if (!minute || *minute > 59) return std::nullopt;
  double second = 0;
  if (take(text, ':')) {
    const size_t end = text.find_first_not_of("0123456789.");
    const auto found = parse_number<double>(text.substr(0, end));
    if (!found || *found >= 61) return std::nullopt;
    second = *found;
    text = end == std::string_view::npos ? std::string_view() : text.substr(end);
  }
  take(text, 'Z');
  if (!text.empty()) return std::nullopt;
  return 3600.0 * *hour + 60.0 * *minute + second;
}

// Seconds since 1970.
std::optional<double> date_seconds(std::string_view text) {
  const auto year = take_digits(text, 4, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const double midnight =
      86400.0 * static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  if (text.empty()) return midnight;
  if (!take(text, 'T') && !take(text, ' ')) return std::nullopt;
  const auto seconds = time_of_day(text);
  if (!seconds) return std::nullopt;
  return midnight + *seconds;
}

}  // namespace

std::optional<TimeForm> time_form(std::string_view text) {
  for (const TimeForm form : {TimeForm::kNumber, TimeForm::kDate})
    if (time_key(text, form)) return form;
  return std::nullopt;
}

std::optional<uint64_t> time_key(std::string_view text, TimeForm form) {
  std::optional<double> value =
      form == TimeForm::kNumber ? parse_number<double>(text) : date_seconds(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return ordered_bits(*value);
}

}  // namespace hlite::prep
