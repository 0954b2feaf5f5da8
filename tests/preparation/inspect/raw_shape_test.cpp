#include "hugectr_lite/preparation/inspect/raw_shape.h"

#include "tests/preparation/inspect/small_data.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

using test::SmallData;

int64_t found(const std::vector<uint32_t>& words) {
  return find_record_words(words, static_cast<int64_t>(words.size()) * 4);
}

TEST_CASE("the record size is found for any numbers of columns") {
  for (const int dense : {1, 3, 13}) {
    for (const size_t slots : {1u, 2u, 5u, 26u, 97u}) {
      for (const bool floats : {false, true}) {
        SmallData data{.dense = dense, .float_label = floats, .float_dense = floats};
        data.sizes.assign(slots, 700);
        INFO(dense << " dense, " << slots << " slots, floats " << floats);
        const std::vector<uint32_t> words = data.words();
        const int64_t record = 1 + dense + static_cast<int64_t>(slots);
        CHECK(found(words) == record);
        CHECK(inspect_column(words, record, 0).labels_float == floats);
        CHECK(inspect_column(words, record, 0).labels_integer == !floats);
        CHECK(inspect_column(words, record, 1).floats == floats);
        CHECK_FALSE(inspect_column(words, record, 1 + dense).floats);
      }
    }
  }
}

TEST_CASE("a file that ends inside a record, and random words, have no record size") {
  std::vector<uint32_t> words = SmallData().words();
  words.resize(words.size() - 3);
  CHECK(found(words) == 0);
  words.clear();
  for (uint64_t i = 0; i < 5000; ++i) words.push_back(random::word(8, 8, i));
  CHECK(found(words) == 0);
  CHECK(found({}) == 0);
  CHECK(found({1, 0, 1}) == 0);
}

}  // namespace
}  // namespace hlite::prep
