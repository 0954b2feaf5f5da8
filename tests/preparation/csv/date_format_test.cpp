#include "hugectr_lite/preparation/csv/date_format.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

std::optional<int64_t> seconds(const char* format, const char* text) {
  const auto date = DateFormat(format).parse(text);
  return date ? std::optional(date->seconds()) : std::nullopt;
}

TEST_CASE("dates are read by their format") {
  // Seconds as `date -u -d ... +%s` prints them.
  CHECK(seconds("%Y-%m-%d %H:%M:%S", "2024-02-29 12:34:56") == 1709210096);
  CHECK(seconds("%Y%m%d", "20240229") == 1709164800);
  CHECK(seconds("%d/%m/%Y", "1/3/1970") == 59 * 86400);
  CHECK(seconds("%d %b %y", "05 dec 69") == -27 * 86400);
  CHECK(seconds("%d.%m.%y", "01.01.68") == 3092601600);
  CHECK(seconds("%Y", "0001") == -62135596800);
  CHECK(seconds("%Y-%m-%dT%H:%M:%SZ", "1969-12-31T23:59:59Z") == -1);
  CHECK(seconds("%s", "1709210096") == 1709210096);
  CHECK(seconds("%s", "-1") == -1);
  CHECK(seconds("100%% %H", "100% 7") == 7 * 3600);
  CHECK(DateFormat("%S.%f").parse("5.25")->fraction == 0.25);
  CHECK(DateFormat("%s.%f").parse("1709210096.000000001")->fraction == 1e-9);
  CHECK(DateFormat("%s").parse("1709210096")->hour == 12);
}

TEST_CASE("what does not follow the format is no date") {
  for (const char* text :
       {"2023-02-29", "2024-13-01", "2024-00-01", "2024-1-32", "24-01-01", "2024-01-01 ",
        " 2024-01-01", "2024-01", "2024/01/01", "", "x", "2024-+1-01"})
    CHECK_FALSE(seconds("%Y-%m-%d", text));
  CHECK_FALSE(seconds("%H:%M:%S", "24:00:00"));
  CHECK_FALSE(seconds("%H:%M:%S", "23:60:00"));
  CHECK_FALSE(seconds("%H:%M:%S", "23:59:60"));
  CHECK_FALSE(seconds("%d %b", "1 Foo"));
  CHECK_FALSE(seconds("%d %b", "1 anf"));
  CHECK_FALSE(seconds("%s", "12345678901234567890"));
  CHECK_FALSE(seconds("%s", "-"));
  CHECK_FALSE(seconds("%y", "7"));
}

TEST_CASE("weekdays and quarters follow the calendar") {
  for (int day = 1; day <= 31; ++day) {  // 1 January 2024 was a Monday
    const auto date = DateFormat("%Y-%m-%d").parse("2024-01-" + std::to_string(day));
    REQUIRE(date);
    CHECK(part_of(*date, DatePart::kWeekday) == (day - 1) % 7 + 1);
  }
  for (int month = 1; month <= 12; ++month) {
    const auto date = DateFormat("%m").parse(std::to_string(month));
    REQUIRE(date);
    CHECK(part_of(*date, DatePart::kQuarter) == (month - 1) / 3 + 1);
    CHECK(part_of(*date, DatePart::kMonth) == month);
  }
}

TEST_CASE("formats that mean nothing are refused") {
  const auto refused = [](const char* format) {
    return test::message_of<ConfigError>([&] { DateFormat{format}; });
  };
  test::check_contains(refused("%Y-%q"), {"found \"%q\" in \"%Y-%q\""});
  test::check_contains(refused("%Y-%"), {"found \"%\" in"});
  test::check_contains(refused("today"), {"directives", "\"today\""});
  test::check_contains(refused("%y %Y"), {"each part of a date once", "\"%Y\""});
  test::check_contains(refused("%s %H"), {"%s without the parts"});
  CHECK(DateFormat("%b %%Y").has('m'));
  CHECK_FALSE(DateFormat("%b %%Y").has('Y'));
}

}  // namespace
}  // namespace hlite::prep
