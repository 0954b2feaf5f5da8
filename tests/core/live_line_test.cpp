#include "hugectr_lite/core/live_line.h"

#include <limits>

#include "tests/support/catch.h"

namespace hlite {
namespace {

TEST_CASE("durations, rates and sizes have the unit that a person reads best") {
  CHECK(duration_text(0) == "0s");
  CHECK(duration_text(59.4) == "59s");
  CHECK(duration_text(59.5) == "1m00s");
  CHECK(duration_text(3599) == "59m59s");
  CHECK(duration_text(3600) == "1h00m");
  CHECK(duration_text(100 * 3600 + 119) == "100h01m");
  CHECK(duration_text(std::numeric_limits<double>::infinity()) == "?");
  CHECK(duration_text(std::numeric_limits<double>::quiet_NaN()) == "?");
  CHECK(rate_text(0) == "0 ");
  CHECK(rate_text(9999) == "9999 ");
  CHECK(rate_text(10000) == "10.0 k");
  CHECK(rate_text(1234567) == "1.23 M");
  CHECK(bytes_text(0) == "0.0 kB");
  CHECK(bytes_text(600) == "0.6 kB");
  CHECK(bytes_text(12'000'000) == "12.0 MB");
  CHECK(bytes_text(96'100'000'000) == "96.1 GB");
}

TEST_CASE("counts are written as people read them") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(6617) == "6,617");
  CHECK(count_text(1234567) == "1,234,567");
  CHECK(count_text(-123456) == "-123,456");
}

TEST_CASE("without a terminal, or unwanted, no line is drawn") {
  for (const bool wanted : {false, true}) {
    LiveLine line(wanted);
    if (line.live()) continue;  // the tests run on a terminal
    line.draw("nothing of this");
    line.erase();
    CHECK_FALSE(line.live());
  }
  CHECK_FALSE(LiveLine(false).live());
}

}  // namespace
}  // namespace hlite
