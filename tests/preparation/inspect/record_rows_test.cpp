// Rows of records, as the trainer's readers give them.
#include "hugectr_lite/preparation/inspect/rows.h"

#include <set>

#include "tests/data_reader/raw_file.h"
#include "tests/preparation/inspect/small_data.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

TEST_CASE("a key that a record lacks is a missing one, if the number of keys varies") {
  test::RawShape shape{.dense = 1, .slot_rows = {5, 9}, .hotness = {2, 1}};
  std::vector<uint32_t> words = test::raw_words(shape, 3);
  words[1] = static_cast<uint32_t>(-7);
  words[3] = kNoKey;  // the second key of the first sample
  const test::TemporaryDirectory folder;
  test::write_text(folder / "f.bin", test::raw_text(words));
  for (const bool varying : {false, true}) {
    shape.varying = varying;
    const auto rows = raw_rows(folder / "f.bin", data::RawFormat::from(shape.config()), 3, 1);
    CHECK(rows->schema().keys_may_miss == varying);
    RowChunk chunk;
    REQUIRE(rows->next(chunk));
    CHECK(chunk.numbers[0] == -7);
    for (size_t r = 1; r < 3; ++r)
      CHECK(chunk.numbers[r] == test::dense_of(static_cast<int64_t>(r), 0));
    REQUIRE(chunk.keys.size() == 9);
    CHECK(chunk.keys[1] == (varying ? kMissingKey : kNoKey));
    for (const size_t at : {0, 2, 3, 8}) CHECK(chunk.keys[at] == words[2 + at + at / 3 * 2]);
    CHECK(!rows->next(chunk));
    CHECK(rows->part() == "all");
  }
}

TEST_CASE("of many raw records, blocks that lie in all parts of the file are looked at") {
  const test::RawShape shape{.dense = 1, .slot_rows = {5}};
  const test::TemporaryDirectory folder;
  test::write_text(folder / "f.bin", test::raw_text(test::raw_words(shape, 10000)));
  const auto rows = raw_rows(folder / "f.bin", data::RawFormat::from(shape.config()), 1000, 50);
  CHECK(rows->rows_in_file() == 10000);
  std::set<int64_t> firsts;
  RowChunk chunk;
  while (rows->next(chunk)) {
    CHECK(chunk.rows == 50);
    CHECK(!chunk.follows);
    CHECK(firsts.insert(chunk.first).second);
    CHECK(chunk.numbers[49] == test::dense_of(chunk.first + 49, 0));
  }
  CHECK(firsts.size() == 20);
  CHECK(*firsts.begin() < 2500);
  CHECK(*firsts.rbegin() > 7500);
  CHECK(rows->part() == "blocks spread over the file");
}

TEST_CASE("Norm slots have as many columns as the samples that are looked at need") {
  std::vector<std::byte> bytes;
  data::append_norm_header({true, 3, 1, 1, 2}, bytes);
  const std::vector<std::vector<int32_t>> counts = {{1, 1}, {2, 0}, {1, 3}};
  for (const auto& nnz : counts) {
    std::vector<uint32_t> keys(static_cast<size_t>(nnz[0] + nnz[1]), 4000000000u);
    const float y = 2, x = 0.5;
    data::append_norm_sample(true, {&y, 1}, {&x, 1}, nnz, keys, bytes);
  }
  const test::TemporaryDirectory folder;
  const std::string path = folder / "a.norm";
  test::write_text(path, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const auto open = [&](int64_t wanted) {
    return norm_rows(path, {path}, {true, 3, 1, 1, 2}, false, wanted);
  };
  CHECK(open(2)->schema().slot_of == std::vector<int>{0, 0, 1});
  const auto rows = open(10);
  CHECK(rows->schema().slot_of == std::vector<int>{0, 0, 1, 1, 1});
  RowChunk chunk;
  REQUIRE(rows->next(chunk));
  CHECK(chunk.rows == 3);
  CHECK(chunk.labels == std::vector<double>{2, 2, 2});  // odd ones too
  CHECK(chunk.keys[0] == 4000000000u);
  CHECK(chunk.keys[1] == kMissingKey);
  CHECK(chunk.keys[7] == kMissingKey);
  CHECK(rows->part() == "all");
}

}  // namespace
}  // namespace hlite::prep
