#include "hugectr_lite/preparation/inspect/picture.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

Skew some_skew() {
  Skew skew;
  skew.lookups = 1000;
  skew.rows = 1000;
  skew.curve = {{1, 0.25}, {10, 0.5}, {100, 0.75}, {1000, 1.0}};
  return skew;
}

TEST_CASE("the terminal's picture rises to the full height at its right end") {
  const std::string text = skew_picture(some_skew(), 31, 4);
  CHECK(std::count(text.begin(), text.end(), '\n') == 6);
  test::check_contains(text, {"100 % |", "  0 % |", "1k", "█"});
  // The first line is reached by the last column only, the lowest one is full from the first on.
  const std::string top = text.substr(0, text.find('\n'));
  CHECK(top.ends_with("█"));
  CHECK(top.find("█") == top.size() - 3);
  CHECK(text.find("  0 % |█") != std::string::npos);
  CHECK(skew_picture(Skew()).empty());
}

TEST_CASE("a single row is a picture too") {
  Skew skew;
  skew.lookups = 5;
  skew.rows = 1;
  skew.curve = {{1, 1.0}};
  CHECK_FALSE(skew_picture(skew).empty());
  test::check_contains(skew_svg(skew, "one"), {"<polyline", "</svg>"});
}

TEST_CASE("the SVG holds the curve's points and an escaped title") {
  const std::string svg = skew_svg(some_skew(), "a<b & c");
  test::check_contains(svg, {"<svg xmlns", "a&lt;b &amp; c", "100 %", ">1k<", "</svg>\n"});
  const size_t points = svg.find("points=\"") + 8;
  const std::string list = svg.substr(points, svg.find('"', points) - points);
  CHECK(std::count(list.begin(), list.end(), ',') == 4);
  CHECK(list.starts_with("56.0,213.0"));  // the left edge, a quarter up
}

}  // namespace
}  // namespace hlite::prep
