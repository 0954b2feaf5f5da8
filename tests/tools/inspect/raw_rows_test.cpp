// Blocks of raw records.
#include "tests/support/catch.h"
#include "tools/inspect/rows.h"

namespace hlite::tools {
namespace {

using Block = std::pair<int64_t, int64_t>;

TEST_CASE("blocks are all rows, or lie at even distances with the first and the last among them") {
  CHECK(sample_blocks(10, 10, 1) == std::vector<Block>{{0, 10}});
  CHECK(sample_blocks(0, 10, 1).empty());
  CHECK(sample_blocks(10, 0, 1).empty());
  CHECK(sample_blocks(100, 7, 7) == std::vector<Block>{{0, 7}});
  CHECK(sample_blocks(100, 9, 3) == std::vector<Block>{{0, 3}, {48, 3}, {97, 3}});
  for (const int64_t wanted : {65, 640, 997}) {
    const auto blocks = sample_blocks(100003, wanted, 5);
    int64_t rows = 0, end = 0;
    for (const auto& [first, count] : blocks) {
      CHECK(first >= end);
      CHECK(count >= 5);
      end = first + count;
      rows += count;
    }
    CHECK(blocks.front().first == 0);
    CHECK(end == 100003);
    CHECK(rows <= wanted);
    CHECK(rows > wanted / 2);
  }
}

}  // namespace
}  // namespace hlite::tools
