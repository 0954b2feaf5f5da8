// Criteo's rows in Parquet files: tokens as texts, or as the numbers that they are.
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/criteo/criteo_prep.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/parquet_writer.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::TemporaryDirectory;

// The lines of a TSV file as columns label, I1, ..., C26.
test::ParquetFileText parquet_of(const std::string& tsv, bool numbers) {
  std::vector<std::vector<std::string>> fields(criteo::kColumns);
  std::istringstream lines(tsv);
  int64_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    if (line.ends_with('\r')) line.pop_back();
    std::istringstream columns(line + "\t");
    std::string field;
    for (auto& column : fields) {
      std::getline(columns, field, '\t');
      column.push_back(field);
    }
  }
  test::ParquetFileText file{.columns = {}, .rows = rows, .rows_a_group = 100};
  for (size_t c = 0; c < fields.size(); ++c) {
    const bool token = c >= criteo::kFirstKey;
    const std::string name =
        c == 0 ? "label" : fmt::format("{}{}", token ? "C" : "I", token ? c - 13 : c);
    std::vector<bool> valid;
    std::vector<int32_t> integers;
    std::vector<int64_t> keys;
    std::vector<std::string> texts;
    for (const std::string& field : fields[c]) {
      valid.push_back(!field.empty());
      if (field.empty()) continue;
      if (token) {
        texts.push_back(field);
        keys.push_back(static_cast<int64_t>(std::stoul(field, nullptr, 16)));
      } else {
        integers.push_back(static_cast<int32_t>(std::stol(field)));
      }
    }
    if (!token)
      file.columns.push_back({.name = name, .values = integers, .valid = valid});
    else if (numbers)
      file.columns.push_back({.name = name, .values = keys, .valid = valid});
    else
      file.columns.push_back({.name = name, .values = texts, .valid = valid});
  }
  return file;
}

// The fields of lines as columns of texts, all of them there.
test::ParquetFileText texts_of(const std::string& tsv) {
  std::vector<std::vector<std::string>> fields(criteo::kColumns);
  std::istringstream lines(tsv);
  int64_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    std::istringstream columns(line + "\t");
    for (auto& column : fields) std::getline(columns, column.emplace_back(), '\t');
  }
  test::ParquetFileText file{.columns = {}, .rows = rows};
  for (size_t c = 0; c < fields.size(); ++c)
    file.columns.push_back({fmt::format("column {}", c), fields[c]});
  return file;
}

CriteoPrepOptions criteo_options(const TemporaryDirectory& folder, const std::string& name) {
  CriteoPrepOptions options;
  options.train = {folder / name};
  options.output.folder = folder / ("out_" + name);
  options.run.quiet = true;
  options.run.threads = 3;
  options.run.block_bytes = 9973;
  options.run.force = true;
  return options;
}

std::string prepared(const CriteoPrepOptions& options) {
  criteo_prep(options);
  return test::read_text(options.output.folder + "/train.bin") +
         test::read_text(options.output.folder + "/key_counts.bin");
}

std::string prepared_criteo(const TemporaryDirectory& folder, const std::string& name) {
  return prepared(criteo_options(folder, name));
}

// What the manifest says of the source and the columns.
std::string described(const CriteoPrepOptions& options) {
  const auto manifest =
      nlohmann::json::parse(test::read_text(options.output.folder + "/manifest.json"));
  nlohmann::json source = manifest.at("sources").at(0);
  source.erase("name");
  return source.dump() + manifest.at("columns").dump();
}

}  // namespace

TEST_CASE("criteo_prep gives the bytes of TSV from Parquet of any groups, encodings and types",
          "[threads]") {
  const TemporaryDirectory folder;
  const std::string tsv = awkward_rows(3, 211);
  test::write_text(folder / "a.tsv", tsv);
  const std::string want = prepared_criteo(folder, "a.tsv");
  for (const bool numbers : {false, true})
    for (const bool dictionary : {false, true})
      for (const int64_t group : {1, 13, 1000}) {
        test::ParquetFileText file = parquet_of(tsv, numbers);
        file.rows_a_group = group;
        file.rows_a_page = 7;
        file.dictionary = dictionary;
        file.compressed = group == 13;
        test::write_parquet(folder / "b.parquet", file);
        for (const int64_t block : {500, 100000}) {
          INFO(numbers << dictionary << ' ' << group << ' ' << block);
          CriteoPrepOptions options = criteo_options(folder, "b.parquet");
          options.run.block_bytes = block;
          options.run.threads = group == 13 ? 1 : 3;
          options.run.memory = int64_t{1} << 30;
          CHECK((prepared(options) == want));
        }
      }
  // Other types of the same numbers.
  for (const int type : {0, 1, 2}) {
    test::ParquetFileText file = parquet_of(tsv, true);
    for (test::ParquetColumn& column : file.columns) {
      std::vector<int64_t> keys;
      if (const auto* some = std::get_if<std::vector<int64_t>>(&column.values)) keys = *some;
      if (const auto* some = std::get_if<std::vector<int32_t>>(&column.values))
        keys.assign(some->begin(), some->end());
      if (type == 0) column.values = keys;
      if (type == 1 && column.name[0] == 'C')
        column.values = std::vector<uint32_t>(keys.begin(), keys.end());
      if (type == 2 && column.name[0] == 'C')
        column.values = std::vector<uint64_t>(keys.begin(), keys.end());
      if (type == 2 && column.name == "label")
        column.values = std::vector<bool>(keys.begin(), keys.end());
    }
    // Columns are found by their names.
    std::rotate(file.columns.begin(), file.columns.begin() + 5 * type, file.columns.end());
    test::write_parquet(folder / "b.parquet", file);
    CHECK((prepared_criteo(folder, "b.parquet") == want));
  }
}

TEST_CASE("Criteo's rows as texts are what their lines are, bad ones, samples and negatives too",
          "[threads]") {
  const TemporaryDirectory folder;
  std::string tsv = awkward_rows(4, 300);
  const auto field = [](const std::string& a, const std::string& b, int column) {
    std::string line = a;
    for (int c = 1; c < criteo::kColumns; ++c) line += "\t" + (c == column ? b : std::string("7"));
    return line + "\n";
  };
  std::istringstream lines(tsv);
  std::string all;
  int64_t bad = 0;
  for (std::string line; std::getline(lines, line);) {
    all += line + "\n";
    if (all.size() % 3 != 0) continue;
    const std::pair<std::string, int> odd[] = {
        {"x", 3},   {"2147483648", 13}, {"-2147483649", 1}, {"3.5", 2}, {"123456789", 14},
        {"gg", 39}, {"0x1", 20},        {" 1", 30},         {"-", 5},   {"1\r", 38}};
    const auto& [text, column] = odd[all.size() % 10];
    all += field(bad % 5 == 0 ? "2" : "1", text, column);
    ++bad;
  }
  all += field("", "1", 4);
  ++bad;
  REQUIRE(bad > 40);
  test::write_text(folder / "a.tsv", all);
  for (const bool dictionary : {false, true}) {
    test::ParquetFileText file = texts_of(all);
    file.dictionary = dictionary;
    file.rows_a_group = 97;
    test::write_parquet(folder / "b.parquet", file);
    for (const auto& [sample, negatives] :
         {std::pair{1.0, 1.0}, {0.4, 1.0}, {1.0, 0.3}, {0.4, 0.5}}) {
      INFO("samples " << sample << ", negatives " << negatives);
      std::string got[2], said[2], error[2];
      for (const int i : {0, 1}) {
        CriteoPrepOptions options = criteo_options(folder, i == 0 ? "a.tsv" : "b.parquet");
        options.run.max_bad_rows = bad;
        options.run.sample = sample;
        options.run.negative_share = negatives;
        got[i] = prepared(options);
        said[i] = described(options);
        options.run.max_bad_rows = 17;
        error[i] = test::message_of<DataError>([&] { criteo_prep(options); });
        error[i] = error[i].substr(error[i].find(':'));
      }
      CHECK((got[0] == got[1]));
      CHECK(said[0] == said[1]);  // also the bytes of the lines
      CHECK(error[0] == error[1]);
      test::check_contains(error[1], {"(more than 17 malformed rows)"});
    }
  }
}

TEST_CASE("a dictionary that a column's writer gave up is used as far as it goes", "[threads]") {
  const TemporaryDirectory folder;
  constexpr int64_t kRows = 100'000;
  test::ParquetFileText file{.columns = {}, .rows = kRows};
  std::string tsv;
  std::vector<std::string> texts;
  for (int64_t i = 0; i < kRows; ++i) {
    texts.push_back(fmt::format("{:08x}", static_cast<uint32_t>(i * 2654435761)));
    tsv += i % 3 == 0 ? "1" : "0";
    for (int c = 1; c < criteo::kColumns; ++c) tsv += c == 20 ? "\t" + texts.back() : "\t5";
    tsv += '\n';
  }
  for (int c = 0; c < criteo::kColumns; ++c) {
    std::vector<int32_t> numbers(kRows, 5);
    for (int64_t i = 0; c == 0 && i < kRows; ++i) numbers[static_cast<size_t>(i)] = i % 3 == 0;
    if (c == 20)
      file.columns.push_back({"x", texts});
    else
      file.columns.push_back({fmt::format("n{}", c), numbers});
  }
  test::write_text(folder / "a.tsv", tsv);
  test::write_parquet(folder / "b.parquet", file);
  CHECK((prepared_criteo(folder, "a.tsv") == prepared_criteo(folder, "b.parquet")));
}

TEST_CASE("a preparation of Parquet that was stopped anywhere goes on", "[threads]") {
  const TemporaryDirectory folder;
  test::ParquetFileText file = parquet_of(awkward_rows(5, 500), false);
  file.rows_a_group = 170;
  test::write_parquet(folder / "a.parquet", file);
  const CriteoPrepOptions options = criteo_options(folder, "a.parquet");
  const std::string want = prepared(options), said = described(options);
  int stops = 0;
  for (int after = 1; after < 100; after += 3) {
    CriteoPrepOptions stopped = options;
    stopped.run.checkpoint_seconds = 0;
    stopped.run.block_bytes = 5000;
    std::atomic<int> left{after};
    stopped.run.at_point = [&](std::string_view) {
      if (--left == 0) throw Interrupted();
    };
    try {
      criteo_prep(stopped);
    } catch (const Interrupted&) {
      ++stops;
    }
    CHECK((prepared(options) == want));
    CHECK(described(options) == said);
  }
  CHECK(stops > 3);
}

TEST_CASE("what no row of Parquet can be is an error with its place", "[threads]") {
  const TemporaryDirectory folder;
  const auto message = [&](size_t column, const test::ParquetColumn& values) {
    test::ParquetFileText file = parquet_of(awkward_rows(6, 20), true);
    file.columns[column] = values;
    file.rows_a_group = 15;
    test::write_parquet(folder / "a.parquet", file);
    return test::message_of<DataError>([&] { prepared_criteo(folder, "a.parquet"); });
  };
  std::vector<int64_t> numbers(20, 4294967295);
  numbers[17] = 4294967296;
  CHECK(message(16, {"C3", numbers}) ==
        (folder / "a.parquet") +
            ": row group 1, column \"C3\", row 17: expected a number of 32 bits, found 4294967296");
  std::vector<std::string> texts(20, "7");
  texts[3] = "1\t2";
  CHECK(message(16, {"C3", texts}) ==
        (folder / "a.parquet") +
            ": row group 0, column \"C3\", row 3: expected a text without line feed and "
            "\"\\x09\", found \"1\\x092\"");
  texts[3] = std::string(10000, '7');
  CHECK(message(16, {"C3", texts}) ==
        (folder / "a.parquet") +
            ": row group 0, column \"C3\", row 3: expected a row of at most 9973 bytes, found a "
            "longer one");
  std::vector<bool> valid(20, true);
  valid[19] = false;
  std::vector<int32_t> labels(19, 1);
  CHECK(message(0, {.name = "label", .values = labels, .valid = valid}) ==
        (folder / "a.parquet") + ":20: column 1 (label): expected 0 or 1, found \"\"");
  test::write_parquet(folder / "a.parquet", {.columns = parquet_of("", false).columns, .rows = 0});
  CHECK(test::message_of<DataError>([&] { prepared_criteo(folder, "a.parquet"); }) ==
        (folder / "a.parquet") + ": expected at least one row, found none");
}

TEST_CASE("columns that only lines can have are read as lines", "[threads]") {
  const TemporaryDirectory folder;
  const std::string tsv = awkward_rows(7, 50);
  test::write_text(folder / "a.tsv", tsv);
  test::ParquetFileText file = parquet_of(tsv, false);
  std::vector<double> doubles;
  for (const int32_t x : std::get<std::vector<int32_t>>(file.columns[5].values))
    doubles.push_back(x);
  file.columns[5].values = doubles;
  test::write_parquet(folder / "b.parquet", file);
  CHECK((prepared_criteo(folder, "a.tsv") == prepared_criteo(folder, "b.parquet")));
}

TEST_CASE("Parquet files that are not Criteo's are refused", "[threads]") {
  const TemporaryDirectory folder;
  test::ParquetFileText file = parquet_of(awkward_rows(2, 20), true);
  file.columns.pop_back();
  test::write_parquet(folder / "a.parquet", file);
  CHECK(test::message_of<DataError>([&] {
          prepared_criteo(folder, "a.parquet");
        }).starts_with((folder / "a.parquet") + ":1: expected 40 tab-separated columns, found 39"));
  file = parquet_of(awkward_rows(2, 20), true);
  file.columns[20] = {"C7", std::vector<double>(20)};
  test::write_parquet(folder / "b.parquet", file);
  CHECK(test::message_of<DataError>([&] { prepared_criteo(folder, "b.parquet"); }) ==
        (folder / "b.parquet") +
            ": column \"C7\": expected integers or hexadecimal digits, found DOUBLE");
}

}  // namespace hlite::prep
