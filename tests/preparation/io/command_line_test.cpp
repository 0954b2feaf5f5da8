#include "hugectr_lite/preparation/io/command_line.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using test::message_of;

TEST_CASE("sizes have binary units, or none") {
  CHECK(parse_bytes("--memory", "100000") == 100000);
  CHECK(parse_bytes("--memory", "1.5k") == 1536);
  CHECK(parse_bytes("--memory", "512M") == int64_t{512} << 20);
  CHECK(parse_bytes("--memory", "4GB") == int64_t{4} << 30);
  CHECK(parse_bytes("--memory", "2tb") == int64_t{2} << 40);
  for (const char* text : {"", "0", "G", "-1", "4X", "4GG", "4 G", "4GBB", "nan", "inf", "1e30"}) {
    INFO(text);
    CHECK(message_of<ConfigError>([&] { parse_bytes("--memory", text); }) ==
          "--memory: expected a size such as 4G, 512M or 100000, found \"" + std::string(text) +
              "\"");
  }
}

TEST_CASE("shares are numbers or percents") {
  CHECK(parse_share("--sample", "0.01") == 0.01);
  CHECK(parse_share("--sample", "1%") == 0.01);
  CHECK(parse_share("--sample", "100%") == 1);
  for (const char* text : {"", "%", "-1%", "1 %", "half", "1%%", "nan", "1.01", "50", "101%"}) {
    INFO(text);
    CHECK(message_of<ConfigError>([&] { parse_share("--sample", text); }) ==
          "--sample: expected a share such as 0.01 or 1%, found \"" + std::string(text) + "\"");
  }
}

}  // namespace
}  // namespace hlite::prep
