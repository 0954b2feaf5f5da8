#include <cstdio>

#include "tools/command_line.h"
#include "tools/csv_prep.h"

int main(int argc, char** argv) {
  using namespace hlite;
  tools::CsvPrepOptions options;
  const tools::ToolDescription description{
      "csv_prep",
      "Turns CSV files into raw files with float labels and dense features, as a schema says (a "
      "small JSON file: which column is the label, which are numbers, which are categories). "
      "Everything fitted comes from the training files; row 0 of every table stands for missing "
      "and never-seen categories. Writes train.bin, val.bin and manifest.json.",
      "  csv_prep --schema configs/adult_schema.json --train tests/data/adult/adult.data.gz \\\n"
      "           --val tests/data/adult/adult.test.gz --out demo/adult\n"};
  return tools::run_tool(
      argc, argv, description,
      [&](CLI::App& app) {
        app.add_option("--schema", options.schema, "The schema, a JSON file")->required();
        app.add_option("--train", options.train, "Training files, plain or gzip")->required();
        app.add_option("--val", options.val, "Validation files");
        app.add_option("--out", options.out, "Folder for the results (made if missing)")
            ->capture_default_str();
      },
      [&] { std::fputs(tools::csv_prep(options).summary().c_str(), stdout); });
}
