#include "hugectr_lite/preparation/csv/csv_sample.h"

#include <fmt/format.h>

#include "hugectr_lite/core/error.h"
#include "tests/preparation/io/gzip_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using Fields = std::vector<std::string>;
using LinesAndFields = std::vector<std::pair<int64_t, Fields>>;

// A file of this text and its sample.
struct SampledText {
  explicit SampledText(const std::string& text) { test::write_text(folder / "a.csv", text); }
  [[nodiscard]] CsvSample sample() const { return CsvSample(folder / "a.csv"); }
  [[nodiscard]] CsvSample sample(char separator) const { return {folder / "a.csv", separator}; }
  test::TemporaryDirectory folder;
};

LinesAndFields rows_of_sample(const CsvSample& sample) {
  LinesAndFields rows;
  sample.for_each_row([&](const CsvSample::Row& row) {
    rows.emplace_back(row.line, Fields(row.fields.begin(), row.fields.end()));
  });
  return rows;
}

int64_t row_count(const CsvSample& sample) {
  int64_t rows = 0;
  sample.for_each_row([&](const CsvSample::Row&) { ++rows; });
  return rows;
}

}  // namespace

TEST_CASE("the separator is the one by which most rows have the same columns, then more of them") {
  const std::vector<std::tuple<std::string, char, int64_t>> cases = {
      {"a,b\n", ',', 2},
      {"a;b;c", ';', 3},
      {"a\tb\r\nc\td\r\n", '\t', 2},
      {"a|b\nc|d\n", '|', 2},
      {"1,5;2,5;3\n1,5;2;3\n1;2;3\n", ';', 3},  // decimal commas
      {"a;b,c;d\na;b,c;d\n", ';', 3},           // as many rows by the comma, with fewer columns
      {"a;b,c\na;b,c\n", ',', 2},               // alike: the first of , ; tab |
      {"a;b|c\na;b|c\n", ';', 2},
      {"a,b\na,b\na,b\na;b;c;d\n", ',', 2},
      {"\"a,b\";c\n\"d,e\";f\n", ';', 2},  // not those in quotes
      {"\xEF\xBB\xBF"
       "a,b\n1,2\n",
       ',', 2}};
  for (const auto& [text, separator, columns] : cases) {
    INFO(text);
    const SampledText file(text);
    const CsvSample sample = file.sample();
    CHECK(sample.separator() == separator);
    CHECK(sample.columns() == columns);
    CHECK(sample.path() == file.folder / "a.csv");
    CHECK_FALSE(sample.is_parquet());
  }
}

TEST_CASE("rows come with their first lines; blank lines, comments and odd rows are none") {
  const SampledText file(
      "\xEF\xBB\xBF"
      "id, name ,\"no\"\"te\"\r\n"
      "\n"
      "# a comment\n"
      "1,\"two\nlines\", x\n"
      "2,short\n"
      " \t\n"
      "3,,\n"
      "4,too,long,row\n"
      "5,b,\"c\" d\n"
      "6,f,g");
  const CsvSample sample = file.sample();
  CHECK(sample.comments() == Fields{"#"});
  CHECK(rows_of_sample(sample) == LinesAndFields{{1, {"id", "name", "no\"te"}},
                                                 {4, {"1", "two\nlines", "x"}},
                                                 {8, {"3", "", ""}},
                                                 {11, {"6", "f", "g"}}});
}

TEST_CASE("the columns are those of most rows, the larger number among equals") {
  const SampledText file("1,2\n1,2,3\n1,2,3\n1,2\n1,2,3,4\n");
  CHECK(file.sample().columns() == 3);
  CHECK(row_count(file.sample()) == 2);
}

TEST_CASE("a table is text of which nine of ten rows have the same columns") {
  const auto is_table = [](int rows, int others) {
    std::string text = "# a comment\n\n";
    for (int i = 0; i < rows; ++i) text += "1,2\n";
    for (int i = 0; i < others; ++i) text += "some words\n";
    return SampledText(text).sample().is_table();
  };
  CHECK(is_table(1, 0));
  CHECK(is_table(9, 1));
  CHECK_FALSE(is_table(8, 1));
  CHECK_FALSE(is_table(5, 4));
}

TEST_CASE("a mark begins comments if each line that it begins has fewer columns than the rows") {
  const auto comments = [](const std::string& text) {
    return SampledText(text).sample().comments();
  };
  CHECK(comments("a,b,c\n").empty());
  CHECK(comments("#a,b,c\n1,2,3\n").empty());  // a row
  CHECK(comments("# a\n1,2,3\n#b,c\n4,5,6\n") == Fields{"#"});
  CHECK(comments("# a\n#1,2,3\n4,5,6\n").empty());
  CHECK(comments("| a\n1,2,3\n# b\n4,5,6\n") == Fields{"#", "|"});
  CHECK(comments("1,2,3\n #a\n4,5,6\n").empty());                 // not at the begin of the line
  CHECK(comments("1,2,3\n#a,\"b\" c,\n4,5,6\n") == Fields{"#"});  // no row, whatever its columns
}

TEST_CASE("a sample ends with its ten thousandth row, or its last whole row of four megabytes") {
  std::string text;
  for (int64_t i = 0; i < kGuessRows + 7; ++i) text += i % 2 == 0 ? "1,2\n" : "\n1,2\n";
  const SampledText many(text);
  CHECK(row_count(many.sample()) == kGuessRows);
  const std::string row = "1," + std::string(1019, 'x') + "\n";  // 1022 bytes
  text.clear();
  for (int i = 0; i < 5003; ++i) text += row;
  const SampledText large(text);
  const auto whole = static_cast<int64_t>(kGuessBytes / row.size());
  CHECK(whole < 5003);
  CHECK(row_count(large.sample()) == whole);
}

TEST_CASE("compressed files are sampled as the text in them") {
  const test::TemporaryDirectory folder;
  test::write_gzip(folder / "a.csv.gz", "a;b\n1;2\n");
  const CsvSample sample(folder / "a.csv.gz");
  CHECK(sample.separator() == ';');
  CHECK(rows_of_sample(sample) == LinesAndFields{{1, {"a", "b"}}, {2, {"1", "2"}}});
}

TEST_CASE("a file is sampled with the separator of another one, and may have no row of it") {
  const SampledText file("a,b;c\n# d\ne,f;g\n");
  CHECK(file.sample(',').columns() == 2);
  CHECK(file.sample(';').columns() == 2);
  CHECK(file.sample('|').columns() == 1);
  CHECK(rows_of_sample(file.sample(',')) == LinesAndFields{{1, {"a", "b;c"}}, {3, {"e", "f;g"}}});
  CHECK(file.sample(',').comments() == Fields{"#"});
  for (const char* text : {"", "\n\n", "\"never closed,1\n2,3\n"}) {
    const CsvSample none = SampledText(text).sample(',');
    CHECK(none.columns() == 0);
    CHECK(none.comments().empty());
    CHECK(row_count(none) == 0);
  }
}

TEST_CASE("a file without rows of columns is refused with its first line") {
  const auto refused = [](const std::string& text) {
    const SampledText file(text);
    const std::string message = test::message_of<DataError>([&] { (void)file.sample(); });
    const std::string place = file.folder / "a.csv: ";
    REQUIRE(message.starts_with(place));
    return message.substr(place.size());
  };
  const std::string expected =
      "expected rows of two or more columns with one of the separators , ; tab | between them, "
      "found ";
  const std::string hint =
      "; another separator needs a schema (--schema FILE, with \"separator\": \" \" in it)";
  CHECK(refused("") == expected + "no row");
  CHECK(refused("one\ntwo\n") == expected + "\"one\"" + hint);
  CHECK(refused("\n \none\n") == expected + "\"one\"" + hint);  // the first that is not blank
  CHECK(refused("\n\n") == expected + "no row");
  CHECK(refused("a:b\nc:d\n") == expected + "\"a:b\"" + hint);
  const test::TemporaryDirectory folder;
  // A file that no separator makes rows of is refused as the preparation would refuse it.
  const auto refused_by_reader = [&](const std::string& text, std::string_view message) {
    test::write_text(folder / "b.csv", text);
    test::check_contains(test::message_of<DataError>([&] { CsvSample(folder / "b.csv"); }),
                         {folder / "b.csv:", message});
  };
  refused_by_reader("\"never closed,1\n2,3\n",
                    "b.csv:1: expected a closing quote before the end of the file, found none");
  refused_by_reader(std::string("PK\3\4\0", 5), "expected lines of text, found binary data");
  refused_by_reader(std::string(kGuessBytes + 1, 'x'),
                    "b.csv:1: expected a row of at most 4194304");
  test::check_contains(test::message_of<FileError>([&] { CsvSample(folder / "none.csv"); }),
                       {folder / "none.csv", "No such file or directory"});
}

TEST_CASE("quotes in comments take no rows away") {
  std::string rows;
  for (int i = 0; i < 200; ++i) rows += fmt::format("{},b{}\n", i, i);
  const auto with_comments_at = [&](const std::vector<size_t>& lines, const std::string& comment) {
    std::string text = rows;
    for (const size_t line : lines) {
      size_t at = 0;
      for (size_t i = 0; i < line; ++i) at = text.find('\n', at) + 1;
      text.insert(at, comment);
    }
    return text;
  };
  for (const char* comment : {"# by a tool, \"v2\n", "|, \"x\n"})
    for (const std::vector<size_t>& lines :
         std::vector<std::vector<size_t>>{{0}, {7}, {200}, {7, 100}, {0, 1, 2}}) {
      INFO(comment << lines.front());
      const SampledText file(with_comments_at(lines, comment));
      CHECK(row_count(file.sample()) == 200);
      CHECK(file.sample().separator() == ',');
      CHECK(file.sample().comments() == Fields{std::string(1, comment[0])});
      CHECK(row_count(file.sample(',')) == 200);
    }
  // Rows may begin so, and then quotes are theirs.
  const SampledText ids("#1,\"a\nb\"\n#2,\"c\n#,\"\n#3,d\n");
  CHECK(row_count(ids.sample()) == 3);
  CHECK(ids.sample().comments().empty());
}

}  // namespace hlite::prep
