// Blocks of raw records.
#include "hugectr_lite/preparation/inspect/rows.h"
#include "tests/data_reader/raw_file.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
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

TEST_CASE("a key that a record lacks is a missing one, if the number of keys varies") {
  test::RawShape shape{.dense = 1, .slot_rows = {5, 9}, .hotness = {2, 1}};
  std::vector<uint32_t> words = test::raw_words(shape, 3);
  words[3] = kNoKey;  // the second key of the first sample
  const test::TemporaryDirectory folder;
  test::write_text(folder / "f.bin", test::raw_text(words));
  for (const bool varying : {false, true}) {
    shape.varying = varying;
    const auto rows = raw_rows(folder / "f.bin", data::RawFormat::from(shape.config()), 3, 1);
    CHECK(rows->schema().keys_may_miss == varying);
    RowChunk chunk;
    REQUIRE(rows->next(chunk));
    REQUIRE(chunk.keys.size() == 9);
    CHECK(chunk.keys[1] == (varying ? kMissingKey : kNoKey));
    for (const size_t at : {0, 2, 3, 8}) CHECK(chunk.keys[at] == words[2 + at + at / 3 * 2]);
  }
}

}  // namespace
}  // namespace hlite::prep
