#include "hugectr_lite/preparation/engine/output_options.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "hugectr_lite/preparation/engine/prep_options.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

struct Parsed {
  OutputOptions output;
  PrepOptions run;
};

Parsed parsed(const std::string& arguments) {
  Parsed result;
  CLI::App app;
  add_output_options(app, result.output);
  add_run_options(app, result.run);
  app.parse(arguments);
  return result;
}

TEST_CASE("options of the command line arrive") {
  const Parsed none = parsed("--out o");
  CHECK(none.output.format == OutputFormat::kRaw);
  CHECK(none.output.norm_sum);
  CHECK_FALSE(none.output.shuffle);
  CHECK(none.run.sample == 1);
  CHECK(none.run.memory == 0);
  const Parsed all = parsed(
      "--out o --format norm --multi-hot 1,2 --norm-check None --norm-rows-per-file 7 --shuffle "
      "--seed 3 --sample 1% --max-bad-rows 4 --memory 2M --threads 5 --restart --force "
      "--max-unknown 50% "
      "--quiet");
  CHECK(all.output.folder == "o");
  CHECK(all.output.format == OutputFormat::kNorm);
  CHECK(all.output.multi_hot == "1,2");
  CHECK_FALSE(all.output.norm_sum);
  CHECK(all.output.norm_rows_per_file == 7);
  CHECK(all.output.shuffle);
  CHECK(all.output.seed == 3);
  CHECK(all.run.sample == Approx(0.01));
  CHECK(all.run.max_bad_rows == 4);
  CHECK(all.run.memory == 2 << 20);
  CHECK(all.run.threads == 5);
  CHECK(all.run.restart);
  CHECK(all.run.force);
  CHECK(all.run.max_unknown == Approx(0.5));
  CHECK(all.run.quiet);
  CHECK(parsed("--out o --format norm").output.format == OutputFormat::kNorm);
  CHECK_THROWS_AS(parsed("--out o --format parquet"), CLI::ValidationError);
  CHECK_THROWS_AS(parsed("--out o --norm-check sum"), CLI::ValidationError);
  CHECK_THROWS_AS(parsed("--shuffle"), CLI::RequiredError);
  CHECK(output_json(all.output)["format"] == "norm");
  CHECK(output_json(all.output)["norm_rows_per_file"] == 7);
  CHECK_FALSE(output_json(none.output).contains("norm_sum"));
}

}  // namespace
}  // namespace hlite::prep
