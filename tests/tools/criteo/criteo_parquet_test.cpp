// Criteo's rows in Parquet files: tokens as texts, or as the numbers that they are.
#include <filesystem>
#include <sstream>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/parquet_writer.h"
#include "tests/support/temporary_directory.h"
#include "tests/tools/criteo/criteo_oracle.h"
#include "tools/criteo/criteo_prep.h"

namespace hlite::tools {
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

std::string prepared_criteo(const TemporaryDirectory& folder, const std::string& name) {
  CriteoPrepOptions options;
  options.train = {folder / name};
  options.output.folder = folder / ("out_" + name);
  options.run.quiet = true;
  options.run.threads = 3;
  options.run.block_bytes = 9973;
  criteo_prep(options);
  return test::read_text(options.output.folder + "/train.bin") +
         test::read_text(options.output.folder + "/key_counts.bin");
}

}  // namespace

TEST_CASE("criteo_prep gives the same bytes from Parquet as from TSV") {
  const TemporaryDirectory folder;
  const std::string tsv = awkward_rows(1, 701);
  test::write_text(folder / "a.tsv", tsv);
  const std::string want = prepared_criteo(folder, "a.tsv");
  test::write_parquet(folder / "texts.parquet", parquet_of(tsv, false));
  CHECK((prepared_criteo(folder, "texts.parquet") == want));
  test::ParquetFileText numbers = parquet_of(tsv, true);
  numbers.compressed = true;
  test::write_parquet(folder / "numbers.parquet", numbers);
  CHECK((prepared_criteo(folder, "numbers.parquet") == want));
  // Columns are found by their names.
  std::rotate(numbers.columns.begin(), numbers.columns.begin() + 5, numbers.columns.end());
  test::write_parquet(folder / "rotated.parquet", numbers);
  CHECK((prepared_criteo(folder, "rotated.parquet") == want));
}

TEST_CASE("Parquet files that are not Criteo's are refused") {
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

}  // namespace hlite::tools
