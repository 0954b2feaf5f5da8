#include <cstdio>

#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/number_option.h"
#include "tools/csv/csv_prep.h"
#include "tools/io/command_line.h"

int main(int argc, char** argv) {
  using namespace hlite;
  tools::CsvPrepOptions options;
  const tools::ToolDescription description{
      "csv_prep",
      "Turns CSV files (plain, gzip or zstd) into files for training, as a schema says (a small "
      "JSON file: which column is the label, which are numbers, which are categories). Everything "
      "fitted comes from the training files; row 0 of every table stands for missing, never-seen "
      "and rare categories. Writes the splits, the text of every category in vocabulary/, and "
      "manifest.json. Works in stages in <out>/.prep with bounded memory; when it is killed or "
      "interrupted, the same command goes on.",
      "  csv_prep --schema configs/adult_schema.json --train tests/data/adult/adult.data.gz \\\n"
      "           --val tests/data/adult/adult.test.gz --out demo/adult\n"};
  return tools::run_tool(
      argc, argv, description,
      [&](CLI::App& app) {
        app.add_option("--schema", options.schema, "The schema, a JSON file")->required();
        app.add_option("--train", options.train, "Training files")->required();
        app.add_option("--val", options.val, "Validation files; - is standard input");
        app.add_option("--test", options.test, "Test files, for test_source");
        app.add_option("--min-count", options.min_count,
                       "Categories with fewer occurrences in the training files become row 0")
            ->check(whole_number(1))
            ->capture_default_str();
        app.add_option("--continue-from", options.continue_from,
                       "Folder of a preparation of the same schema: categories that it knows keep "
                       "their ids, new ones get the next, and numbers are transformed as there");
        tools::add_output_options(app, options.output);
        tools::add_run_options(app, options.run);
      },
      [&] {
        if (options.run.quiet) log::set_level(log::Level::kWarning);
        const InterruptGuard interrupts;
        tools::check_config_place(options.output);
        const data::Manifest manifest = tools::csv_prep(options);
        std::fputs(manifest.summary().c_str(), stdout);
        if (const auto config = tools::write_first_config(options.output, manifest);
            !config.empty())
          std::printf("%s: train --config %s\n", config.c_str(), config.c_str());
      });
}
