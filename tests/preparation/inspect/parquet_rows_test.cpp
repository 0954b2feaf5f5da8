// What data_inspect says of Parquet files.
#include "tests/preparation/inspect/small_data.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/parquet_writer.h"
#include "tests/support/program.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::TemporaryDirectory;

test::ProgramResult inspect_parquet(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HLITE_DATA_INSPECT);
  return test::run_program(arguments);
}

// The small data set's samples, dense features as they are.
void write_small_parquet(const std::string& path, const test::SmallData& data) {
  test::ParquetFileText file{.columns = {}, .rows = data.samples, .rows_a_group = 250};
  const auto column = [&](const std::string& name, auto value) {
    std::vector<int32_t> values;
    for (int64_t r = 0; r < data.samples; ++r) values.push_back(static_cast<int32_t>(value(r)));
    file.columns.push_back({name, values});
  };
  column("label", [&](int64_t r) { return data.label(r); });
  for (int d = 0; d < data.dense; ++d)
    column("I" + std::to_string(d), [&](int64_t r) { return data.integer(r, d); });
  for (size_t s = 0; s < data.sizes.size(); ++s)
    column("C" + std::to_string(s), [&](int64_t r) { return data.key(r, s); });
  test::write_parquet(path, file);
}

TEST_CASE("a Parquet set: schema, row groups, statistics, and whether it fits") {
  const TemporaryDirectory folder;
  test::write_text(folder / "config.json", test::small_data_config());
  std::filesystem::create_directory(folder / "train");
  write_small_parquet(folder / "train/a.parquet", {});
  write_small_parquet(folder / "train/b.parquet", {.samples = 100, .seed = 3});
  write_small_parquet(folder / "eval.parquet", {.samples = 200, .seed = 2});
  // clang-format off
  const std::vector<std::string> changes = {
      "--config", folder / "config.json", "--set", "layers.data.format=Parquet",
      "--set", "layers.data.source=train", "--set", "layers.data.eval_source=eval.parquet", "--set",
      R"(layers.data.columns={"labels": ["label"], "conts": ["I0", "I1", "I2"], "cats": ["C0", "C1", "C2", "C3"]})"};
  // clang-format on
  const auto fits = inspect_parquet(changes);
  CHECK(fits.code == 0);
  test::check_contains(
      fits.out, {"2 Parquet file(s), 4 row groups of 100 to 250 rows, 700 rows",
                 "the statistics are of", "columns: \"label\" to \"C3\" INT32", "label: 0.",
                 "1 Parquet file(s), 1 row groups of 200 to 200 rows, 200 rows",
                 "fit as source: file and config fit", "fit as eval_source: file and config fit"});

  write_small_parquet(folder / "eval.parquet", {.sizes = {50, 8, 300, 1000}, .seed = 2});
  const auto misfit = inspect_parquet(changes);
  CHECK(misfit.code == 3);
  test::check_contains(misfit.out,
                       {"do NOT fit", "eval.parquet: row group 0, column \"C1\", row ",
                        "expected a key in [0, 6], as the table of slot 1 has 7 rows, found 7"});

  test::ParquetFileText odd{.columns = {}, .rows = 4};
  odd.columns = {{"click", std::vector<int32_t>{0, 1, 1, 0}},
                 {"city", std::vector<std::string>{"Rome", "Oslo", "Rome", "Rome"}},
                 {.name = "t", .values = std::vector<int64_t>(4), .timestamp = true},
                 {.name = "n",
                  .values = std::vector<int32_t>{},
                  .valid = std::vector<bool>(4),
                  .null_type = true}};
  test::write_parquet(folder / "odd.parquet", odd);
  const auto left_out = inspect_parquet({folder / "odd.parquet"});
  CHECK(left_out.code == 0);
  test::check_contains(left_out.out,
                       {"label: 0.50000 are 1", "city ",
                        "t (timestamp[ns]: no number or text), n (no value in any row)"});
  odd.columns = {{"click", std::vector<int32_t>{}}};
  odd.rows = 0;
  test::write_parquet(folder / "odd.parquet", odd);
  const auto empty = inspect_parquet({folder / "odd.parquet"});
  CHECK(empty.code == 0);
  test::check_contains(empty.out, {"1 Parquet file(s)", "0 rows", "expected at least one row"});

  test::write_text(folder / "eval.parquet", "PAR1 and nothing of the kind");
  const auto damaged = inspect_parquet({folder / "eval.parquet"});
  CHECK(damaged.code == 0);
  test::check_contains(damaged.out, {"Parquet that cannot be read", "eval.parquet: "});
}

}  // namespace
}  // namespace hlite::prep
