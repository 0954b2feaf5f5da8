#include "tools/inspect/raw_shape.h"

#include "tests/support/catch.h"
#include "tests/tools/inspect/small_data.h"

namespace hlite::tools {
namespace {

using test::SmallData;

RawGuess guess(const std::vector<uint32_t>& words, std::vector<int64_t> hints = {}) {
  return guess_raw_shape(words, static_cast<int64_t>(words.size()) * 4, hints);
}

TEST_CASE("the record size is found for any numbers of columns") {
  for (const int dense : {1, 3, 13}) {
    for (const size_t slots : {1u, 2u, 5u, 26u, 97u}) {
      for (const bool floats : {false, true}) {
        SmallData data{.dense = dense, .float_dense = floats};
        data.sizes.assign(slots, 700);
        INFO(dense << " dense, " << slots << " slots, floats " << floats);
        const RawGuess g = guess(data.words());
        CHECK(g.words == 1 + dense + static_cast<int64_t>(slots));
        CHECK(g.label_column == 0);
        CHECK(g.float_dense == floats);
        CHECK(g.float_columns == (floats ? dense : 0));
        CHECK(g.sure == Sureness::kLikely);
      }
    }
  }
}

TEST_CASE("a record size is found where the file ends inside a record, with less certainty") {
  std::vector<uint32_t> words = SmallData().words();
  words.resize(words.size() - 3);
  const RawGuess g = guess(words);
  CHECK(g.words == 8);
  CHECK(g.sure == Sureness::kGuess);
}

TEST_CASE("float labels and the other byte order are seen") {
  const RawGuess floats = guess(SmallData{.float_label = true, .float_dense = true}.words());
  CHECK(floats.float_label);
  CHECK_FALSE(floats.swapped);
  std::vector<uint32_t> words = SmallData().words();
  for (uint32_t& w : words) w = __builtin_bswap32(w);
  const RawGuess swapped = guess(words);
  CHECK(swapped.words == 8);
  CHECK(swapped.swapped);
}

TEST_CASE("random words have no shape") {
  std::vector<uint32_t> words;
  for (uint64_t i = 0; i < 5000; ++i) words.push_back(random::word(8, 8, i));
  CHECK(guess(words, {8, 40}).words == 0);
  CHECK(guess({}).words == 0);
  CHECK(guess({1, 0, 1}).words == 0);
}

TEST_CASE("records of Criteo's size have 13 dense values and 26 keys") {
  SmallData data{.dense = 13};
  data.sizes.assign(26, 90);
  bool known = false;
  const data::RawFormat format = layout_of(guess(data.words()), known);
  CHECK(known);
  CHECK(format.dense_dim == 13);
  CHECK(format.keys.slots() == 26);
  layout_of(guess(SmallData().words()), known);
  CHECK_FALSE(known);
}

}  // namespace
}  // namespace hlite::tools
