#include "hugectr_lite/core/parse_number.h"

#include <cstdint>
#include <limits>

#include "tests/support/catch.h"

namespace hlite::test {

TEST_CASE("parse_number takes a whole text or nothing of it") {
  CHECK(parse_number<int64_t>("0") == 0);
  CHECK(parse_number<int64_t>("-17") == -17);
  CHECK(parse_number<int64_t>("9223372036854775807") == std::numeric_limits<int64_t>::max());
  CHECK(parse_number<uint32_t>("FFffFFff", 16) == 0xffffffffu);
  CHECK(parse_number<double>("-2.5e3") == -2500.0);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "-", "0x1", "9223372036854775808"}) {
    INFO("\"" << text << "\"");
    CHECK_FALSE(parse_number<int64_t>(text));
  }
  CHECK_FALSE(parse_number<uint32_t>("-1"));
  CHECK_FALSE(parse_number<uint32_t>("4294967296"));
  CHECK_FALSE(parse_number<double>("1,5"));
  CHECK_FALSE(parse_number<double>("1e999"));
}

}  // namespace hlite::test
