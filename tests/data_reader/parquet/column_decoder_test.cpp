#include "data_reader/parquet/column_decoder.h"

#include <bit>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/parquet_writer.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::data::parquet;

namespace {

// One label, one dense feature, two slots of tables of 10 and 300 rows with up to 1 and 3 keys.
config::DataConfig small_config() {
  config::DataConfig c;
  c.format = &config::data_format("Parquet");
  c.label_dim = c.dense_dim = 1;
  config::SparseInputConfig sparse;
  sparse.slot_num = 2;
  sparse.hotness = {1, 3};
  c.sparse.push_back(sparse);
  return c;
}
constexpr int64_t kLabel = 0, kDense = 1, kOneKey = 2, kKeys = 3;

class Decoded {
 public:
  Decoded(test::ParquetColumn column, int64_t count, int64_t role,
          const config::DataConfig& config = small_config(), int64_t rows_a_page = 1000) {
    test::write_parquet(
        folder_ / "x.parquet",
        {.columns = {std::move(column)}, .rows = count, .rows_a_page = rows_a_page});
    const ParquetFile file(folder_ / "x.parquet");
    const ColumnDecoder decoder(config, std::vector<int64_t>{10, 300});
    out = decoder.decode(file, 0, 0, role, count);
    width = decoder.width(role);
    rows = count;
  }
  [[nodiscard]] std::vector<float> floats() const {
    std::vector<float> all;
    for (int64_t i = 0; i < rows; ++i)
      all.push_back(std::bit_cast<float>(out.words[static_cast<size_t>(i)]));
    return all;
  }
  [[nodiscard]] std::vector<uint32_t> keys() const {
    return {out.words.get(), out.words.get() + rows * width};
  }
  // After "<file>: row group 0, column "x", ".
  [[nodiscard]] std::string problem() const {
    const std::string place = (folder_ / "x.parquet") + ": row group 0, column \"x\", ";
    REQUIRE(out.problem.starts_with(place));
    return out.problem.substr(place.size());
  }

  DecodedColumn out;
  int64_t width = 0, rows = 0;

 private:
  test::TemporaryDirectory folder_;
};

}  // namespace

TEST_CASE("numbers of every type become floats") {
  const std::vector<float> want{0, 1, 7};
  const auto floats = [](auto values) { return Decoded({"x", values}, 3, kDense).floats(); };
  CHECK(floats(std::vector<int32_t>{0, 1, 7}) == want);
  CHECK(floats(std::vector<int64_t>{0, 1, 7}) == want);
  CHECK(floats(std::vector<uint32_t>{0, 1, 7}) == want);
  CHECK(floats(std::vector<uint64_t>{0, 1, 7}) == want);
  CHECK(floats(std::vector<int8_t>{0, 1, 7}) == want);
  CHECK(floats(std::vector<float>{0, 1, 7}) == want);
  CHECK(floats(std::vector<double>{0, 1, 7}) == want);
  CHECK(floats(std::vector<bool>{false, true, true}) == std::vector<float>{0, 1, 1});
  CHECK(floats(std::vector<uint32_t>{0, 1, 4'000'000'000}).back() == 4e9f);
  CHECK(floats(std::vector<int32_t>{0, 1, -5}).back() == -5.0f);
  CHECK(
      Decoded({.name = "x", .values = std::vector<int64_t>{0, 100, 750}, .digits = 10, .scale = 2},
              3, kDense)
          .floats() == std::vector<float>{0, 1, 7.5f});
  // A double is rounded to nearest.
  CHECK(floats(std::vector<double>{0, 1, 0.1}).back() == 0.1f);
}

TEST_CASE("labels and dense features outside of their ranges are named with their row") {
  CHECK(Decoded({"x", std::vector<float>{0, 0.5f, 1}}, 3, kLabel).out.bad_row == -1);
  const Decoded two({"x", std::vector<int32_t>{1, 0, 2, 3}}, 4, kLabel);
  CHECK(two.out.bad_row == 2);
  CHECK(two.problem() == "row 2: expected a label in [0, 1], found 2");
  CHECK(Decoded({"x", std::vector<float>{-1}}, 1, kLabel).problem() ==
        "row 0: expected a label in [0, 1], found -1");
  config::DataConfig tasks = small_config();
  tasks.label_dim = 2;
  CHECK(Decoded({"x", std::vector<float>{-1}}, 1, kLabel, tasks).out.bad_row == -1);
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(Decoded({"x", std::vector<double>{0, inf}}, 2, kDense).problem() ==
        "row 1: expected a finite number, found inf");
  CHECK(Decoded({"x", std::vector<double>{0, 1e300}}, 2, kDense).out.bad_row == 1);
  CHECK(Decoded({"x", std::vector<float>{1, 2, NAN}}, 3, kDense).problem() ==
        "row 2: expected a finite number, found nan");
}

TEST_CASE("a column of sample weights follows the labels, and real labels are any numbers") {
  config::DataConfig config = small_config();
  config.sample_weight = true;
  constexpr int64_t kWeight = 1;
  CHECK(Decoded({"x", std::vector<double>{0, 0.5, 7}}, 3, kWeight, config).floats() ==
        std::vector<float>{0, 0.5f, 7});
  CHECK(Decoded({"x", std::vector<float>{1, -1}}, 2, kWeight, config).problem() ==
        "row 1: expected a sample weight that is finite and >= 0, found -1");
  CHECK(Decoded({"x", std::vector<float>{NAN}}, 1, kWeight, config).problem() ==
        "row 0: expected a sample weight that is finite and >= 0, found nan");
  CHECK(Decoded({"x", std::vector<float>{-1}}, 1, kDense + 1, config).floats() ==
        std::vector<float>{-1});
  CHECK(Decoded({"x", std::vector<int64_t>{0, 9}}, 2, kOneKey + 1, config).keys() ==
        std::vector<uint32_t>{0, 9});
  config.real_label = true;
  CHECK(Decoded({"x", std::vector<float>{-7.5f}}, 1, kLabel, config).floats() ==
        std::vector<float>{-7.5f});
  CHECK(Decoded({"x", std::vector<float>{NAN}}, 1, kLabel, config).problem() ==
        "row 0: expected a label that is finite, found nan");
}

TEST_CASE("missing values are refused, and said so only where they are missing") {
  const test::ParquetColumn all{
      .name = "x", .values = std::vector<float>{1, 2}, .valid = {true, true}};
  CHECK(Decoded(all, 2, kDense).floats() == std::vector<float>{1, 2});
  const Decoded hole(
      {.name = "x", .values = std::vector<float>{1, 3}, .valid = {true, false, true}}, 3, kDense);
  CHECK(hole.out.bad_row == 1);
  CHECK(hole.problem() == "row 1: expected a value, found none (null)");
  // What is wrong before it comes first.
  const Decoded earlier(
      {.name = "x", .values = std::vector<float>{NAN, 3}, .valid = {true, false, true}}, 3, kDense);
  CHECK(earlier.problem() == "row 0: expected a finite number, found nan");
  CHECK(
      Decoded({.name = "x", .values = std::vector<int64_t>{3}, .valid = {true, false}}, 2, kOneKey)
          .out.bad_row == 1);
}

TEST_CASE("integers of every width become keys; those outside of the table are named") {
  const std::vector<uint32_t> want{0, 9, 3};
  const auto keys = [](auto values) { return Decoded({"x", values}, 3, kOneKey).keys(); };
  CHECK(keys(std::vector<int32_t>{0, 9, 3}) == want);
  CHECK(keys(std::vector<int64_t>{0, 9, 3}) == want);
  CHECK(keys(std::vector<uint32_t>{0, 9, 3}) == want);
  CHECK(keys(std::vector<uint64_t>{0, 9, 3}) == want);
  CHECK(keys(std::vector<int8_t>{0, 9, 3}) == want);
  const auto problem = [](auto values) { return Decoded({"x", values}, 3, kOneKey).problem(); };
  CHECK(problem(std::vector<int64_t>{0, 9, 10}) ==
        "row 2: expected a key in [0, 9], as the table of slot 0 has 10 rows, found 10");
  CHECK(problem(std::vector<int64_t>{0, -1, 1}).ends_with("found -1"));
  CHECK(problem(std::vector<int32_t>{0, -1, 1}).ends_with("found -1"));
  CHECK(problem(std::vector<int64_t>{0, int64_t{1} << 32, 1}).ends_with("found 4294967296"));
  CHECK(problem(std::vector<uint64_t>{~uint64_t{0}, 0, 1}).ends_with("found 18446744073709551615"));

  config::DataConfig config = small_config();
  config.global_keys = true;
  CHECK(Decoded({"x", std::vector<int64_t>{10, 309}}, 2, kKeys, config).keys() ==
        std::vector<uint32_t>{0, kNoKey, kNoKey, 299, kNoKey, kNoKey});
  CHECK(Decoded({"x", std::vector<int64_t>{310}}, 1, kKeys, config).problem() ==
        "row 0: expected a key in [10, 309], the rows of slot 1's table among all, found 310");
}

TEST_CASE("the key policy replaces keys outside of their table and says in which rows") {
  config::DataConfig config = small_config();
  config.key_policy = {config::KeyPolicy::kOov, 4};
  const Decoded one({"x", std::vector<int32_t>{10, 2, -7, 9}}, 4, kOneKey, config);
  CHECK(one.keys() == std::vector<uint32_t>{4, 2, 4, 9});
  CHECK(one.out.replaced == std::vector<int64_t>{0, 2});
  const Decoded list(
      {.name = "x", .values = std::vector<int64_t>{1, 400, 500, 2}, .lengths = {1, 2, 1}}, 3, kKeys,
      config);
  CHECK(list.keys() == std::vector<uint32_t>{1, kNoKey, kNoKey, 4, 4, kNoKey, 2, kNoKey, kNoKey});
  CHECK(list.out.replaced == std::vector<int64_t>{1, 1});
}

TEST_CASE("lists become the keys of a slot, whatever pages they are cut into") {
  const test::ParquetColumn column{.name = "x",
                                   .values = std::vector<int32_t>{1, 2, 3, 4, 5, 6},
                                   .valid = std::vector<bool>(6, true),
                                   .lengths = {3, 0, 1, 2, 0}};
  const std::vector<uint32_t> want{1,      2, 3, kNoKey, kNoKey, kNoKey, 4,     kNoKey,
                                   kNoKey, 5, 6, kNoKey, kNoKey, kNoKey, kNoKey};
  for (const int64_t page : {2, 3, 1000}) {
    const Decoded decoded(column, 5, kKeys, small_config(), page);
    CHECK(decoded.out.problem == "");
    CHECK(decoded.keys() == want);
  }
  // More than one piece.
  std::vector<int64_t> keys, lengths;
  std::vector<uint32_t> expected;
  for (int64_t i = 0; i < 20'000; ++i) {
    lengths.push_back(i % 4);
    for (int64_t k = 0; k < 3; ++k) {
      if (k < i % 4) keys.push_back((i + k) % 300);
      expected.push_back(k < i % 4 ? static_cast<uint32_t>((i + k) % 300) : kNoKey);
    }
  }
  CHECK(Decoded({.name = "x", .values = keys, .lengths = lengths}, 20'000, kKeys).keys() ==
        expected);
}

TEST_CASE("lists that a slot cannot take are named with their row") {
  using Column = test::ParquetColumn;
  const auto problem = [](const Column& column, int64_t rows, int64_t role = kKeys) {
    return Decoded(column, rows, role).problem();
  };
  const std::vector<int32_t> four{1, 2, 3, 4};
  CHECK(problem(Column{.name = "x", .values = four, .lengths = {0, 4}}, 2) ==
        "row 1: expected 0 to 3 keys (max_nnz or nnz_per_slot of the config), found more");
  CHECK(problem(Column{.name = "x", .values = four, .lengths = {2, -1, 2}}, 3) ==
        "row 1: expected a list, found none (null)");
  CHECK(problem(Column{.name = "x",
                       .values = four,
                       .valid = {true, true, false, true, true},
                       .lengths = {2, 3}},
                2) == "row 1: expected a key, found none (null) in the list");
  CHECK(
      problem(Column{.name = "x", .values = std::vector<int32_t>{1, 300}, .lengths = {1, 1}}, 2) ==
      "row 1: expected a key in [0, 299], as the table of slot 1 has 300 rows, found 300");
  config::DataConfig fixed = small_config();
  fixed.sparse[0].is_fixed_length = true;
  CHECK(
      Decoded(Column{.name = "x", .values = four, .lengths = {3, 1}}, 2, kKeys, fixed).problem() ==
      "row 1: expected 3 keys (nnz_per_slot, is_fixed_length), found 1");
}
