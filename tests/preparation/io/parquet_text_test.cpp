#include "hugectr_lite/preparation/io/parquet_text.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/parquet_writer.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::message_of;
using test::TemporaryDirectory;

std::string parquet_text(const std::string& path, const TextForm& form = {}, int threads = 2) {
  const auto stream = open_parquet_text(std::make_unique<StoredBytes>(path), form, threads);
  std::string all;
  char piece[1000];
  while (const size_t n = stream->read(piece, sizeof(piece))) all.append(piece, n);
  return all;
}

std::string text_of_columns(std::vector<test::ParquetColumn> columns, int64_t rows,
                            const TextForm& form = {}) {
  const TemporaryDirectory folder;
  test::write_parquet(folder / "x.parquet", {.columns = std::move(columns), .rows = rows});
  return parquet_text(folder / "x.parquet", form);
}

}  // namespace

TEST_CASE("values of every type as text", "[threads]") {
  CHECK(text_of_columns({{"a", std::vector<bool>{true, false}},
                         {"b", std::vector<int32_t>{-5, 2147483647}},
                         {"c", std::vector<uint32_t>{0, 4294967295}},
                         {"d", std::vector<int64_t>{INT64_MIN, 7}},
                         {"e", std::vector<uint64_t>{UINT64_MAX, 1}},
                         {"f", std::vector<float>{0.1f, 5}},
                         {"g", std::vector<double>{0.1, 1e300}},
                         {"h", std::vector<std::string>{"x y", ""}}},
                        2) ==
        "1,-5,0,-9223372036854775808,18446744073709551615,0.1,0.1,x y\n"
        "0,2147483647,4294967295,7,1,5,1e+300,\n");
}

TEST_CASE("decimals as the numbers that they are, however they are stored", "[threads]") {
  const auto bytes = [](std::initializer_list<int> list) {
    return std::string(list.begin(), list.end());
  };
  // The second one needs more digits than a double has: rounding it twice would give another one.
  CHECK(text_of_columns(
            {{.name = "a", .values = std::vector<int32_t>{150, -7}, .digits = 9, .scale = 2},
             {.name = "b",
              .values = std::vector<int64_t>{571467629886647948, -571467629886647948},
              .digits = 18,
              .scale = 3},
             {.name = "c",
              .values = std::vector<std::string>{bytes({0, 0, 150}), bytes({255, 255, 249})},
              .digits = 6,
              .scale = 2},
             {.name = "d",
              .values =
                  std::vector<std::string>{
                      bytes({0x00, 0x07, 0xee, 0x42, 0xc8, 0x18, 0x07, 0x2e, 0x8c}),
                      bytes({0xff, 0xf8, 0x11, 0xbd, 0x37, 0xe7, 0xf8, 0xd1, 0x74})},
              .digits = 20,
              .scale = 3},
             {.name = "e",
              .values = std::vector<std::string>{bytes({0x01, 0x43, 0x1e, 0x0f, 0xae, 0x6d, 0x72,
                                                        0x17, 0xca, 0xa0, 0, 0, 0}),
                                                 bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                                        0xff, 0xff, 0xff, 0xff, 0xff, 0xff})},
              .digits = 30,
              .scale = 4}},
            2) ==
        "1.5,571467629886648,1.5,571467629886648,10000000000000000905969664\n"
        "-0.07,-571467629886648,-0.07,-571467629886648,-1e-04\n");
  // Without digits after the point they are integers, which keep all of theirs.
  const auto whole = [&](const std::string& value) {
    return text_of_columns({{.name = "w", .values = std::vector<std::string>{value}, .digits = 19}},
                           1);
  };
  CHECK(text_of_columns(
            {{.name = "i", .values = std::vector<int32_t>{-31}, .digits = 5},
             {.name = "l", .values = std::vector<int64_t>{900719925474099301}, .digits = 18}},
            1) == "-31,900719925474099301\n");
  CHECK(whole(bytes({0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})) ==
        "9223372036854775807\n");
  CHECK(whole(bytes({0xff, 0x80, 0, 0, 0, 0, 0, 0, 0})) == "-9223372036854775808\n");
  CHECK(message_of<DataError>([&] {
          whole(bytes({0, 0x80, 0, 0, 0, 0, 0, 0, 0}));
        }).ends_with("column \"w\": expected whole numbers of 64 bits, found 9223372036854775808"));
}

TEST_CASE("missing values are empty fields, and awkward texts stand in quotes", "[threads]") {
  CHECK(text_of_columns(
            {{.name = "n",
              .values = std::vector<int32_t>{1, 3},
              .valid = {true, false, true, false, false}},
             {.name = "t",
              .values = std::vector<std::string>{"a,b", "say \"x\"", "end\r", "two\nlines"},
              .valid = {true, true, true, true, false}}},
            5, {.header = true, .quotes = true}) ==
        "n,t\n"
        "1,\"a,b\"\n"
        ",\"say \"\"x\"\"\"\n"
        "3,\"end\r\"\n"
        ",\"two\nlines\"\n"
        ",\n");
  const TemporaryDirectory folder;
  const std::string path = folder / "x.parquet";
  for (const bool dictionary : {false, true}) {
    test::write_parquet(path, {.columns = {{"t", std::vector<std::string>{"a", "b", "c\nd"}}},
                               .rows = 3,
                               .rows_a_group = 2,
                               .dictionary = dictionary});
    CHECK(message_of<DataError>([&] { parquet_text(path); }) ==
          path +
              ": row group 1, column \"t\", row 2: expected a text without line feed and \",\", "
              "found \"c\\x0ad\"");
  }
  test::write_parquet(path, {.columns = {{"t", std::vector<std::string>{"a\tb"}}}, .rows = 1});
  CHECK(message_of<DataError>([&] {
          parquet_text(path, {.separator = '\t'});
        }).find("row 0: expected a text without line feed and \"\\x09\", found \"a\\x09b\"") !=
        std::string::npos);
}

TEST_CASE("which columns a text has, and in which order", "[threads]") {
  const std::vector<test::ParquetColumn> columns = {
      {"b", std::vector<int32_t>{1}},
      {.name = "day", .values = std::vector<int32_t>{2}, .date = true},
      {"a", std::vector<int32_t>{31}}};
  CHECK(text_of_columns(columns, 1, {.header = true, .names = {"a", "b"}}) == "a,b\n31,1\n");
  CHECK(text_of_columns(columns, 1, {.names = {"a", "b"}, .first_hexadecimal = 0}) == "1f,1\n");
  const auto no_day = [](int64_t index, const std::string& name) {
    return index != 1 && name != "day";
  };
  CHECK(text_of_columns(columns, 1, {.header = true, .wanted = no_day}) == "b,day,a\n1,,31\n");
  // Names that the file has not all: its own columns.
  CHECK(text_of_columns(columns, 1, {.names = {"a", "b", "c"}, .wanted = no_day}) == "1,,31\n");
  CHECK(message_of<DataError>([&] {
          text_of_columns(columns, 1);
        }).ends_with("column \"day\": expected numbers or texts, found INT32 (Date)"));
  CHECK(message_of<DataError>([&] {
          text_of_columns({{.name = "t", .values = std::vector<int64_t>{1}, .timestamp = true}}, 1);
        }).ends_with("column \"t\": expected numbers or texts, found timestamp[ns]"));
  // A column of nulls is one that misses all of its values.
  CHECK(text_of_columns({{"a", std::vector<int32_t>{7, 8}},
                         {.name = "n",
                          .values = std::vector<int32_t>{},
                          .valid = {false, false},
                          .null_type = true}},
                        2) == "7,\n8,\n");
  CHECK(message_of<DataError>([&] {
          text_of_columns({{.name = "l", .values = std::vector<int32_t>{2}, .lengths = {1}}}, 1);
        }).ends_with("column \"l\": expected numbers or texts, found list of INT32"));
}

TEST_CASE("numbers in hexadecimal digits", "[threads]") {
  const auto digits = [](auto values) {
    return text_of_columns({{"x", values}}, 2, {.first_hexadecimal = 0});
  };
  CHECK(digits(std::vector<int32_t>{-1, 10}) == "ffffffff\na\n");
  CHECK(digits(std::vector<int64_t>{4294967295, 0}) == "ffffffff\n0\n");
  CHECK(digits(std::vector<std::string>{"00ff", "x"}) == "00ff\nx\n");
  CHECK(message_of<DataError>([&] {
          digits(std::vector<int64_t>{1, 4294967296});
        }).ends_with("row 1: expected a number of 32 bits, found 4294967296"));
  CHECK(message_of<DataError>([&] {
          digits(std::vector<float>{1, 2});
        }).ends_with("expected integers or hexadecimal digits, found FLOAT"));
}

TEST_CASE("the lines of many row groups come in their order, for any threads", "[threads]") {
  const TemporaryDirectory folder;
  const std::string path = folder / "x.parquet";
  std::vector<int64_t> numbers;
  std::vector<std::string> texts;
  std::string want;
  for (int64_t i = 0; i < 20'000; ++i) {
    numbers.push_back(i);
    texts.push_back(std::string(30, static_cast<char>('a' + i % 26)));
    want += std::to_string(i) + "," + texts.back() + "\n";
  }
  test::write_parquet(
      path, {.columns = {{"n", numbers}, {"t", texts}}, .rows = 20'000, .rows_a_group = 1111});
  for (const int threads : {1, 2, 7}) CHECK(parquet_text(path, {}, threads) == want);
  test::write_parquet(path, {.columns = {{"n", numbers}, {"t", texts}}, .rows = 20'000});
  CHECK(parquet_text(path) == want);
  // One that is not read to the end.
  const auto stream = open_input_stream(path);
  char piece[10];
  CHECK(stream->read(piece, sizeof(piece)) == sizeof(piece));
  CHECK(stream->stored_bytes() > 0);
}

}  // namespace hlite::prep
