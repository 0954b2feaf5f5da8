#include "data_reader/parquet/parquet_file.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/parquet_writer.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::data::parquet;
using test::message_of;

TEST_CASE("a Parquet file's columns and row groups") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "x.parquet";
  test::ParquetFileText text{
      .columns = {{"a", std::vector<int32_t>{1, 2, 3}},
                  {"b", std::vector<uint64_t>{1, 2, 3}},
                  {.name = "c",
                   .values = std::vector<std::string>{"x"},
                   .valid = {true, false, false}},
                  {.name = "d", .values = std::vector<int64_t>{7}, .lengths = {0, 1, 0}},
                  {.name = "e", .values = std::vector<int32_t>{1, 2, 3}, .date = true},
                  {.name = "f", .values = std::vector<int64_t>{1, 2, 3}, .timestamp = true},
                  {.name = "g",
                   .values = std::vector<int32_t>{},
                   .valid = {false, false, false},
                   .null_type = true},
                  {.name = "h", .values = std::vector<int64_t>{1, 2, 3}, .digits = 10, .scale = 2},
                  {.name = "i", .values = std::vector<int64_t>{1, 2, 3}, .digits = 10}},
      .rows = 3,
      .rows_a_group = 2};
  test::write_parquet(path, text);
  const ParquetFile file(path);
  CHECK(file.rows() == 3);
  REQUIRE(file.groups().size() == 2);
  CHECK(file.groups()[1].first_row == 2);
  CHECK(file.groups()[1].rows == 1);
  CHECK(file.groups()[0].stored_bytes > file.stored_bytes(0, 0));
  REQUIRE(file.columns().size() == 9);
  const auto& c = file.columns();
  CHECK((c[0].values == ValueType::kInt32 && c[0].readable && !c[0].is_list() &&
         c[0].max_defined == 0));
  CHECK((c[1].values == ValueType::kUint64 && c[1].is_integer()));
  CHECK((c[2].values == ValueType::kText && !c[2].is_number() && c[2].max_defined == 1));
  CHECK((c[3].is_list() && c[3].empty_list == 1 && c[3].max_defined == 2 && c[3].name == "d"));
  CHECK((c[3].type == "list of INT64"));
  CHECK((c[4].values == ValueType::kOther && !c[4].readable && c[4].type == "INT32 (Date)"));
  CHECK((c[5].values == ValueType::kOther && !c[5].readable && c[5].type == "timestamp[ns]"));
  CHECK((c[6].all_null && c[6].readable && !c[0].all_null));
  CHECK((c[7].values == ValueType::kDouble && c[7].readable));
  CHECK((c[8].values == ValueType::kInt64 && c[8].is_integer()));
  CHECK(file.find("d") == 3);
  CHECK(!file.find("j"));
  CHECK(file.column_names() == R"("a", "b", "c", "d", "e", "f", "g", "h", "i")");
  CHECK(file.created_by().find("parquet-cpp") != std::string::npos);
}

TEST_CASE("texts come as they are, by their dictionary where the file has one") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "x.parquet";
  for (const bool dictionary : {false, true}) {
    std::vector<std::string> texts;
    for (int i = 0; i < 5000; ++i) texts.push_back("text " + std::to_string(i % 7));
    test::write_parquet(path, {.columns = {{"t", texts}}, .rows = 5000, .dictionary = dictionary});
    const ParquetFile file(path);
    ColumnCursor cursor = file.open_column(0, 0);
    std::vector<std::string> found;
    for (;;) {
      const Piece piece = cursor.next(1000);
      if (piece.levels == 0) break;
      CHECK(piece.levels <= 1000);
      CHECK((piece.indices != nullptr) == dictionary);
      for (int64_t i = 0; i < piece.values; ++i) {
        const Text& t = dictionary ? piece.dictionary[piece.indices[i]]
                                   : static_cast<const Text*>(piece.data)[i];
        found.emplace_back(t.data, t.size);
      }
    }
    CHECK(found == texts);
  }
}

TEST_CASE("what is no Parquet file is refused") {
  const test::TemporaryDirectory folder;
  CHECK(message_of<FileError>([&] { ParquetFile(folder / "none"); }) ==
        (folder / "none") + ": cannot open: No such file or directory");
  CHECK(message_of<FileError>([&] { ParquetFile(folder.path()); }) ==
        folder.path() + ": cannot open: expected a Parquet file, found a folder");
  test::write_text(folder / "x", "label,a,b\n1,2,3\n");
  CHECK(
      message_of<DataError>([&] { ParquetFile(folder / "x"); }).starts_with((folder / "x") + ": "));
}

TEST_CASE("a file that changes after its footer was read is refused") {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "x.parquet";
  test::write_parquet(path, {.columns = {{"a", std::vector<int32_t>{1, 2, 3}}}, .rows = 3});
  const ParquetFile file(path);
  test::write_text(path, test::read_text(path) + "x");
  CHECK(message_of<DataError>([&] {
          (void)file.open_column(0, 0);
        }).starts_with(path + ": row group 0, column \"a\": the file has changed"));
}
