#include "hugectr_lite/preparation/csv/csv_guess.h"

#include <algorithm>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "hugectr_lite/preparation/csv/csv_schema.h"
#include "hugectr_lite/preparation/csv/guess_file.h"
#include "tests/preparation/io/gzip_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::check_contains;
using test::message_of;
using test::TemporaryDirectory;
using test::write_text;

struct Guessed {
  CsvSchema schema;
  std::string text, summary;
  [[nodiscard]] std::vector<std::string> dense() const {
    std::vector<std::string> list;
    for (const auto& [number, transform] : schema.dense)
      list.push_back(number.column.name + " " + transform_name(transform));
    return list;
  }
  [[nodiscard]] std::vector<std::string> categorical() const {
    std::vector<std::string> list;
    for (const CategoryColumn& column : schema.categorical) list.push_back(column.name);
    return list;
  }
};

using Names = std::vector<std::string>;

Guessed guess(const std::string& csv, const CsvGuessOptions& options = {},
              const std::vector<std::string>& others = {}) {
  const TemporaryDirectory folder;
  write_text(folder / "a.csv", csv);
  std::vector<std::string> paths;
  for (const std::string& other : others) {
    paths.push_back(folder / ("other" + std::to_string(paths.size())));
    write_text(paths.back(), other);
  }
  const CsvGuess made = guess_schema(folder / "a.csv", paths, options);
  Guessed guessed{.schema = {}, .text = made.schema, .summary = {}};
  for (const std::string& line : made.summary) guessed.summary += line + "\n";
  guessed.schema = CsvSchema::parse(config::JsonNode::parse(made.schema, "guessed"));
  return guessed;
}

template <typename E>
std::string refusal(const std::string& csv, const CsvGuessOptions& options = {}) {
  return message_of<E>([&] { guess(csv, options); });
}

// Rows of an index, a number, a category, a date as text, a category of numbers and a label.
std::string shop(int rows, char separator, bool header) {
  std::string text;
  const auto add = [&](const std::vector<std::string>& fields) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) text += separator;
      text += fields[i];
    }
    text += '\n';
  };
  if (header) add({"", "price", "city", "name", "stars", "bought"});
  for (int i = 0; i < rows; ++i)
    add({std::to_string(i), fmt::format("{:.2f}", i * 1.37 - 5), i % 3 == 0 ? "Köln" : "Nîmes",
         "n" + std::to_string(i * i), std::to_string(1 + i % 5), i % 4 == 0 ? "yes" : "no"});
  return text;
}

}  // namespace

TEST_CASE("separator, header, kinds and label of a plain file are found") {
  for (const char separator : {',', ';', '\t', '|'})
    for (const bool header : {true, false}) {
      INFO(separator << header);
      const Guessed found = guess(shop(150, separator, header));
      CHECK(found.schema.separator == separator);
      CHECK(found.schema.header == header);
      const auto name = [&](const char* in_header, int number) {
        return header ? std::string(in_header) : fmt::format("column {}", number);
      };
      CHECK(found.dense() == Names{name("price", 1) + " standardize"});
      CHECK(found.categorical() == Names{name("city", 2), name("stars", 4)});
      CHECK(found.schema.label.name == name("bought", 5));
      CHECK(found.schema.texts[0].positive == Names{"yes"});
      CHECK(found.schema.texts[0].negative == Names{"no"});
      CHECK(found.schema.missing.empty());
      check_contains(found.summary,
                     {"6 columns", "1 is \"yes\" (25.3 % of these rows), 0 is \"no\"",
                      "(counts the rows)", "(another value in every row)"});
      CHECK(guess(shop(150, separator, header)).text == found.text);
    }
}

TEST_CASE("a guess is taken back by its text: the same file without one gives the same data",
          "[threads]") {
  const TemporaryDirectory folder;
  write_text(folder / "a.csv", shop(1500, ';', true));
  CsvPrepOptions options{.schema = {}, .train = {folder / "a.csv"}};
  options.output.folder = folder / "out";
  options.run.quiet = true;
  const CsvGuess made = guess_schema(folder / "a.csv", {}, {});
  options.schema = write_guess(made.schema, folder / "out", false);
  CHECK(options.schema == folder / "out/schema.json");
  const data::Manifest manifest = csv_prep(options);
  CHECK(manifest.dense_dim == 1);
  CHECK(manifest.slot_sizes == std::vector<int64_t>{3, 6});
  CHECK(manifest.files.at(0).positives == 375);
  // The schema stays, and the same guess may stand there; one that was edited may not.
  CHECK(write_guess(made.schema, folder / "out", false) == options.schema);
  write_text(options.schema, made.schema + " ");
  CHECK_THROWS_AS(write_guess(made.schema, folder / "out", false), ConfigError);
  CHECK(write_guess(made.schema, folder / "out", true) == options.schema);
  write_text(options.schema, "{\"mine\": 1}");
  for (const bool force : {false, true})
    check_contains(
        message_of<ConfigError>([&] { write_guess(made.schema, folder / "out", force); }),
        {"out/schema.json: expected no schema other than the one that is guessed",
         "pass it with --schema"});
  CHECK(test::read_text(options.schema) == "{\"mine\": 1}");
  // A folder of a preparation with a schema of its own gets none.
  std::filesystem::remove(options.schema);
  check_contains(message_of<ConfigError>([&] { write_guess(made.schema, folder / "out", false); }),
                 {"expected no files of an earlier run"});
  CHECK_FALSE(std::filesystem::exists(options.schema));
}

TEST_CASE("which label is 1") {
  const auto label = [](const std::string& a, const std::string& b, const Names& positive = {}) {
    std::string rows;
    for (const std::string& text : {a, b, a}) rows += "x," + text + "\n";
    return guess(rows, {.positive = positive}).schema;
  };
  CHECK(label("0", "1").texts[0].positive == Names{"1"});
  CHECK(label("1", "-1").texts[0].positive == Names{"1"});
  CHECK(label("2", "10").texts[0].positive == Names{"10"});
  CHECK(label("Yes", "No").texts[0].positive == Names{"Yes"});
  CHECK(label("TRUE", "FALSE").texts[0].positive == Names{"TRUE"});
  CHECK(label(">50K", "<=50K").texts[0].positive == Names{">50K"});
  CHECK(label("<=50K", ">50K").texts[0].positive == Names{">50K"});
  CHECK(label("ham", "spam").texts[0].positive == Names{"spam"});  // the rarer one
  CHECK(label(">50K", "<=50K", {"<=50K"}).texts[0].positive == Names{"<=50K"});
  CHECK(label(">50K", "<=50K", {"<=50K"}).texts[0].negative == Names{">50K"});
  // Three values need --positive; the others are 0.
  const std::string three = "a,low\nb,high\na,mid\nb,low\n";
  check_contains(refusal<ConfigError>(three, {.label = "1"}),
                 {"a.csv: column 1: expected two values for a label, found 3: \"high\", \"low\", "
                  "\"mid\" in the first 4 rows; --positive names those that mean 1"});
  const Guessed of_three = guess(three, {.label = "1", .positive = {"high", "mid"}});
  CHECK(of_three.schema.texts[0].positive == Names{"high", "mid"});
  CHECK(of_three.schema.texts[0].negative == Names{"low"});
  check_contains(refusal<ConfigError>(three, {.label = "1", .positive = {"hi"}}),
                 {"--positive: expected a value of column 1", "found \"hi\"", "\"high\""});
  check_contains(
      refusal<ConfigError>("1,2,3\n", {}),
      {"expected a column of two values for a label, found none in the first 1 rows", "--label"});
  check_contains(refusal<ConfigError>("x,1\ny,1\n", {.label = "1"}), {"found 1: \"1\""});
}

TEST_CASE("the label is a column of two values by its name or place, else it is asked for") {
  const auto rows_of = [](const std::string& header) {
    std::string rows = header + "\n";
    for (int i = 0; i < 120; ++i)
      rows += fmt::format("{},{},u{},{},{}\n", i % 2, i % 3 == 0 ? "yes" : "no", i % 50, i % 4,
                          i % 5 == 0 ? "M" : "F");
    return rows;
  };
  const auto of = [&](const std::string& header, const CsvGuessOptions& options = {}) {
    return guess(rows_of(header), options);
  };
  const auto label = [&](const std::string& header, const CsvGuessOptions& options = {}) {
    return of(header, options).schema.label.name;
  };
  CHECK(label("click,member,user,slot,gender") == "click");
  CHECK(label("gender,Purchased,user,slot,member") == "Purchased");
  CHECK(label("y,member,user,slot,gender") == "y");
  CHECK(label("converted,click,user,slot,gender") == "click");  // the first of the names
  CHECK(label("click,member,user,slot,gender", {.label = "gender"}) == "gender");

  const std::string note = "other columns of two values: ";
  CHECK(of("click,member,user,slot,gender").summary.find(note) == std::string::npos);
  CHECK(of("a,b,user,slot,c", {.label = "c"}).summary.find(note) == std::string::npos);
  check_contains(of("y,click,user,slot,c").summary, {note + "y; --label NAME chooses one"});

  // F and M in the last place are less of a label than 0 and 1, or yes and no, elsewhere.
  const CsvGuessOptions asked{.left_out = {"slot"}, .command = "csv_prep 'my file' --out x"};
  check_contains(refusal<ConfigError>(rows_of("a,b c,user,slot,c"), asked),
                 {"a.csv: expected columns that say by name or values what they are, found:",
                  "the label, one of 3 columns of two values: --label a (of \"0\" \"1\"), --label "
                  "'b c' (of \"no\" \"yes\"), --label c (of \"F\" \"M\")",
                  "\nfor instance: csv_prep 'my file' --out x --label c"});
  check_contains(
      refusal<ConfigError>(rows_of("gender,member,user,click,click_kind")),  // four clicks
      {"one of 3 columns of two values"});
  check_contains(
      refusal<ConfigError>(rows_of("click,member,user,slot,gender"), {.left_out = {"click"}}),
      {"one of 2 columns of two values"});

  // Places: the columns "x" of 0 and 1, "f" of F and M, and "t" of three texts.
  const auto place = [](const std::string& order) {
    std::string rows;
    for (size_t c = 0; c < order.size(); ++c) rows += fmt::format("{}n{}", c > 0 ? "," : "", c);
    for (int i = 0; i < 60; ++i) {
      std::string row;
      for (const char c : order)
        row += (row.empty() ? "" : ",") + (c == 'x'   ? std::to_string(i * i % 3 % 2)
                                           : c == 'f' ? std::string(i % 3 == 0 ? "F" : "M")
                                                      : "v" + std::to_string(i % 3));
      rows += "\n" + row;
    }
    return guess(rows + "\n").schema.label.name;
  };
  CHECK(place("tfx") == "n2");
  CHECK(place("txtx") == "n3");  // with a note
  CHECK(place("ttf") == "n2");
  CHECK(place("xft") == "n0");
  CHECK(place("xtt") == "n0");
  CHECK(place("txt") == "n1");
  for (const char* unclear : {"txf", "xtxt", "ftt", "tft", "fxt"})
    CHECK_THROWS_AS(place(unclear), ConfigError);
  // A label of three values, as a question can be answered.
  check_contains(
      refusal<ConfigError>("u,stars\na,1\nb,2\nc,3\na,3\n", {.command = "csv_prep x.csv"}),
      {"expected a column of two values for a label, found none",
       "for instance: csv_prep x.csv --label stars --positive 3"});
}

TEST_CASE("labels of other files may have a full stop, and comments are found there") {
  const std::string train = "39, State-gov, <=50K\n50, Private, >50K\n38, ?, <=50K\n";
  const std::string test = "|1x3 Cross validator\n25, Private, <=50K.\n28, Local-gov, >50K.\n\n";
  const Guessed found = guess(train, {}, {test});
  CHECK(found.schema.texts[0].positive == Names{">50K", ">50K."});
  CHECK(found.schema.texts[0].negative == Names{"<=50K", "<=50K."});
  CHECK(found.schema.comment == Names{"|"});
  CHECK(found.schema.missing == Names{"?"});
  // What no stop explains is left for the preparation to refuse.
  CHECK(guess(train, {}, {"25, Private, 50K.\n"}).schema.texts[0].positive == Names{">50K"});
  // A row that begins with a mark is no comment.
  CHECK(guess("#a,1,x\n#b,0,y\n# two,columns\n#c,1,x\n").schema.comment.empty());
  CHECK(guess("a,1,x\n# columns\nb,0,y\n# ,two\nc,1,x\n").schema.comment == Names{"#"});
}

TEST_CASE("odd columns are categories that take any text, and are named") {
  std::string rows = "id,empty,constant,zip,size,shop_id,mixed,y\n";
  for (int i = 0; i < 200; ++i)
    rows += fmt::format("{},{},same,{:05},{},{},{},{}\n", 1000 + i, i % 2 == 0 ? "" : "NA",
                        100 + 37 * i, i % 4, 7 * (i % 60), i == 90 ? "tiny" : std::to_string(i * i),
                        i % 2);
  const Guessed found = guess(rows);
  CHECK(found.dense().empty());
  CHECK(found.categorical() == Names{"empty", "constant", "size", "shop_id", "mixed"});
  CHECK(found.schema.missing == Names{"NA"});
  CHECK(found.schema.label.name == "y");
  check_contains(found.summary,
                 {"left out     id (counts the rows), zip (another value in every row)",
                  "empty: no value in these rows", "constant: the same value in all",
                  "mixed: numbers but for 1 of 200 values, as \"tiny\" in line 92"});
  // Zip codes that come again are categories, whatever their number.
  std::string zips;
  for (int i = 0; i < 200; ++i) zips += fmt::format("{:05},{},{}\n", 7 * (i % 90), i * i, i % 2);
  const CsvGuessOptions squares{.dense = {"1"}};
  CHECK(guess(zips, squares).categorical() == Names{"column 0"});
  CHECK(guess(zips, squares).dense() == Names{"column 1 standardize"});
}

TEST_CASE("whole numbers that may be ids are asked for, all in one error, and options decide") {
  std::string csv = "user,price,zip,label\n";
  for (int i = 0; i < 300; ++i)
    csv += fmt::format("{},{}.5,{},{}\n", (i * 37) % 151, i % 120, 10'000 + i % 7, i % 2);
  check_contains(
      refusal<ConfigError>(csv, {.command = "csv_prep a.csv --out x"}),
      {"a.csv: expected columns that say by name or values what they are, found:\n  user: "
       "151 distinct whole numbers from 0 to 150: --categorical user if they are ids, "
       "--dense user if they are quantities\nfor instance: csv_prep a.csv --out x "
       "--categorical user"});
  CsvGuessOptions options;
  options.dense = {"user"};
  CHECK(guess(csv, options).dense() == Names{"user standardize", "price standardize"});
  options.categorical = {"user"};
  options.dense = {"2"};
  const Guessed asked = guess(csv, options);
  CHECK(asked.dense() == Names{"price standardize", "zip standardize"});
  CHECK(asked.categorical() == Names{"user"});
  CHECK(asked.summary.find("whole numbers") == std::string::npos);
  options.dense = {"user"};
  check_contains(refusal<ConfigError>(csv, options),
                 {"--dense: expected a column that no other option names, found \"user\""});
  CsvGuessOptions texts;
  texts.dense = {"a"};
  check_contains(refusal<ConfigError>("a,label\nx,1\ny,0\n", texts),
                 {"--dense: expected a column of numbers, found \"a\", which has \"x\""});
  CsvGuessOptions label;
  label.label = "label";
  label.categorical = {"label"};
  check_contains(refusal<ConfigError>(csv, label), {"--categorical: expected a column that no"});
}

TEST_CASE("numbers as people write them, and dates, are not taken for texts in silence") {
  std::string csv = "price,when,label\n";
  for (int i = 0; i < 300; ++i)
    csv += fmt::format("\"{},{:03}.50\",2024-05-{:02},{}\n", i % 40, i, i % 31 + 1, i % 2);
  check_contains(
      refusal<ConfigError>(csv),
      {"price: 300 of 300 values are numbers as \"0,000.50\" in line 2, which is read as "
       "a text: write such numbers as 1234.5 in the file, or --categorical price"});
  const Guessed asked = guess(csv, {.categorical = {"price"}});
  CHECK(asked.categorical() == Names{"price", "when"});
  check_contains(asked.summary,
                 {"when: \"2024-05-01\" in line 2 is a date",
                  "put {\"column\": \"when\", \"date\": "
                  "{\"format\": \"%Y-%m-%d\", \"parts\": [\"month\", \"weekday\"]}} under"});
}

TEST_CASE("numbers of a long tail are taken by their logarithm") {
  std::string rows = "clicks,change,y\n";
  for (int i = 0; i < 300; ++i)
    rows += fmt::format("{},{},{}\n", i % 50 == 0 ? 100000 + i : i % 40,
                        i % 50 == 0 ? 100000 + i : i % 40 - 1, i % 2);
  const Guessed found = guess(rows);
  CHECK(found.dense() == Names{"clicks log1p_standardize", "change standardize"});
  // Models have a category at least.
  CHECK(found.categorical() == Names{"clicks"});
  check_contains(found.summary, {"clicks: a category as well"});
}

TEST_CASE("quotes, line feeds, byte-order mark, unicode and repeated names") {
  const Guessed found = guess(
      "\xEF\xBB\xBF\"größe\",\"note\nof two lines\",twice,twice,y\r\n"
      "1.5,\"a,\n\"\"b\"\"\",u,v,1\r\n2.5,c,u,w,0\r\n3.5,\"a,\n\"\"b\"\"\",u,v,0\r\n");
  CHECK(found.schema.header);
  CHECK(found.schema.separator == ',');
  CHECK(found.categorical() == Names{"größe", "note\nof two lines", "column 2", "column 3"});
}

TEST_CASE("the first line is a header only where it must be") {
  CHECK_FALSE(guess("a,1\nb,0\n").schema.header);            // a number in it
  CHECK(guess("x,y\na,1\nb,0\n").schema.header);             // numbers below
  CHECK_FALSE(guess("a,p\nb,q\na,q\nb,p\n").schema.header);  // texts that come again
  CHECK(guess("x,y\nb,q\nb,p\nb,q\nb,p\n").schema.header);
  CHECK(guess("x,y\nb,q\nc,p\n", {.label = "y"}).schema.header);
  CHECK_FALSE(guess("x,?\nb,1\nc,0\nd,1\n").schema.header);
  check_contains(refusal<DataError>("# made by hand\nx,y\na,1\nb,0\n"),
                 {"expected the names of the columns in the first line, found them in line 2"});
}

TEST_CASE("names that are numbers are found or asked for, and what cannot be told is said") {
  const std::string note =
      "note         the first line is taken for a row; if it has the names of the columns, pass "
      "--header yes";
  const auto rows = [](const std::string& first, int last_column) {
    std::string text = first + "\n";
    for (int i = 0; i < 50; ++i)
      text += fmt::format("u{},{},{},{}\n", i * i % 37, 20 + i * 7 % 40, 30 + i * 11 % 50,
                          last_column + i * i % 3 % 2);
    return text;
  };
  // pandas' 0, 1, 2, ...: a number above texts, and one that is not 0 or 1.
  const Guessed found = guess(rows("0,1,2,3", 0));
  CHECK(found.schema.header);
  CHECK(found.schema.label.name == "3");
  CHECK(found.schema.label.header_name == "3");
  CHECK(found.dense() == Names{"1 standardize", "2 standardize"});
  CHECK(found.summary.find(note) == std::string::npos);
  // Numbers that the columns might have.
  std::string numbers = "2,3,1\n";
  for (int i = 0; i < 50; ++i)
    numbers += fmt::format("{},{},{}\n", 20 + i * 7 % 50, i * i % 43, i % 2);
  const Guessed unclear = guess(numbers);
  CHECK_FALSE(unclear.schema.header);
  check_contains(unclear.summary, {note});
  for (const bool header : {true, false}) {
    const Guessed told = guess(numbers, {.header = header});
    CHECK(told.schema.header == header);
    CHECK(told.summary.find(note) == std::string::npos);
  }
  CHECK(guess(numbers, {.header = true}).schema.label.header_name == "1");
  // A text above numbers, whatever else the line has.
  CHECK(guess(rows("user,2021,2022,clicked", 0)).schema.header);
  CHECK(guess(numbers, {.label = "2"}).schema.label.index == 2);  // a column's number
  // The label's name says so, where it is no column's number.
  std::string years = "30,40,2021\n";
  for (int i = 0; i < 50; ++i)
    years += fmt::format("{},{},{}\n", 20 + i * 7 % 50, i * i % 43, i % 2);
  CHECK(guess(years, {.label = "2021"}).schema.header);
  // A label that has three values with the name.
  std::string three = "5,6,7\n";
  for (int i = 0; i < 50; ++i)
    three += fmt::format("{},{},{}\n", 20 + i * 7 % 50, i * i % 43, i % 2);
  check_contains(refusal<ConfigError>(three),
                 {"none in the first 51 rows", "--header yes that the first line has the names"});
  CHECK(guess(three, {.header = true}).schema.label.header_name == "7");
}

TEST_CASE("files that no schema fits are refused with what was found") {
  check_contains(refusal<DataError>("one\ntwo\n"),
                 {"a.csv: expected rows of two or more columns", "found \"one\"", "--schema"});
  check_contains(refusal<DataError>("\n\n"), {"expected rows of two or more columns"});
  check_contains(refusal<ConfigError>("a,1\nb,0\n", {.label = "income"}),
                 {"--label: expected the number of a column, 0 to 1, as ", "has no header",
                  "found \"income\""});
  check_contains(refusal<ConfigError>("x,y\na,1\nb,0\n", {.label = "income"}),
                 {"--label: expected a column of ", "(\"x\", \"y\"), found \"income\""});
  check_contains(refusal<ConfigError>("a,1\nb,0\n", {.label = "2"}), {"0 to 1", "found \"2\""});
  std::string rows;
  for (int i = 0; i < 200; ++i) rows += fmt::format("{},{}\n", i, i % 2);
  check_contains(refusal<DataError>(rows),
                 {"expected a column other than the label", "left out: 0 (counts the rows)"});
  check_contains(guess(shop(150, ',', true), {.left_out = {"city"}}).summary,
                 {"city (splits the rows)"});
}

TEST_CASE("rows that contradict a guess are errors that say which file to edit", "[threads]") {
  const TemporaryDirectory folder;
  const auto error = [&](const std::string& last) {
    std::string rows;
    for (int i = 0; i < 10'000; ++i)
      rows += fmt::format("{},{},{}\n", i * i % 9973, i % 7, i % 2 == 0 ? "a" : "b");
    write_text(folder / "a.csv", rows + last);
    const std::string schema = folder / "schema.json";
    write_text(schema, guess_schema(folder / "a.csv", {}, {.dense = {"0"}}).schema);
    CsvPrepOptions options{.schema = schema, .guessed = true, .train = {folder / "a.csv"}};
    options.output.folder = folder / "out";
    options.run.quiet = options.run.restart = true;
    return message_of<DataError>([&] { csv_prep(options); });
  };
  check_contains(error("many,1,a\n"),
                 {"a.csv:10001: column 0 (column 0): expected a finite number, found \"many\"",
                  "the schema was guessed from the first rows", "\"missing\"",
                  folder / "schema.json, and pass that with --schema"});
  check_contains(error("1,1,c\n"),
                 {"a.csv:10001: column 2 (label)", "found \"c\"", "\"positive\"", "--schema"});
  check_contains(error("1,1\n"), {"a.csv:10001: expected 3 columns as in the first line, found 2"});
}

TEST_CASE("UCI Adult needs no schema") {
  const std::string root = HLITE_SOURCE_DIR;
  const CsvGuess made = guess_schema(root + "/tests/data/adult/adult.data.gz",
                                     {root + "/tests/data/adult/adult.test.gz"}, {});
  const CsvSchema schema = CsvSchema::parse(config::JsonNode::parse(made.schema, "guessed"));
  CHECK(schema.label.index == 14);
  CHECK(schema.texts[0].positive == Names{">50K", ">50K."});
  CHECK(schema.texts[0].negative == Names{"<=50K", "<=50K."});
  CHECK(schema.missing == Names{"?"});
  std::vector<int64_t> dense, categorical;
  for (const auto& d : schema.dense) dense.push_back(d.number.column.index);
  for (const CategoryColumn& c : schema.categorical) categorical.push_back(c.column.index);
  CHECK(dense == std::vector<int64_t>{0, 2, 10, 11, 12});
  CHECK(categorical == std::vector<int64_t>{1, 3, 4, 5, 6, 7, 8, 9, 13});
}

}  // namespace hlite::prep
