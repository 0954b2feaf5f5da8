#include "hugectr_lite/core/in_quotes.h"

#include "tests/support/catch.h"

namespace hlite {
namespace {

TEST_CASE("text is shown as it is, bytes that are none are escaped") {
  CHECK(in_quotes("a, b") == "\"a, b\"");
  CHECK(in_quotes("\tx\x7f") == "\"\\x09x\\x7f\"");
  CHECK(in_quotes("Łódź") == "\"Łódź\"");
  CHECK(in_quotes("\xff\xc3(\xe2\x82") == "\"\\xff\\xc3(\\xe2\\x82\"");
  CHECK(in_quotes(std::string_view("\0\x01", 2)) == "\"\\x00\\x01\"");
}

TEST_CASE("long text is cut between characters") {
  CHECK(in_quotes(std::string(40, 'x')) == '"' + std::string(40, 'x') + '"');
  CHECK(in_quotes(std::string(41, 'x')) == '"' + std::string(40, 'x') + "...\"");
  CHECK(in_quotes(std::string(39, 'x') + "ź!") == '"' + std::string(39, 'x') + "ź...\"");
}

TEST_CASE("what a terminal would act on is escaped in messages, but not their lines") {
  CHECK(printable("a\x1b[31mb\r\x7f") == "a\\x1b[31mb\\x0d\\x7f");
  CHECK(printable("one\n\ttwo Łódź") == "one\n\ttwo Łódź");
  CHECK(printable("\xc2\x9b"
                  "1m") ==
        "\\xc2\\x9b"
        "1m");
  CHECK(printable("\x9b"
                  "1m") ==
        "\\x9b"
        "1m");
  CHECK(printable("\xc2\xa0") == "\xc2\xa0");  // a space
}

}  // namespace
}  // namespace hlite
