#include <cstdio>

#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/shell_word.h"
#include "hugectr_lite/preparation/csv/csv_guess.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "hugectr_lite/preparation/csv/guess_file.h"
#include "hugectr_lite/preparation/io/command_line.h"
#include "hugectr_lite/preparation/io/input_stream.h"

namespace {

using namespace hlite;

void add_split_options(CLI::App& app, prep::SplitOptions& split) {
  app.add_option_function<std::string>(
         "--val-share",
         [&split](const std::string& text) {
           split.val_share = prep::parse_share("--val-share", text);
         },
         "Share of the training files' rows that become the validation split, drawn by --seed, as "
         "0.1 or 10% [10% with --split-time or --split-group; without --schema and --val also "
         "10%, of 1,000 rows or more]")
      ->type_name("SHARE");
  app.add_option_function<std::string>(
         "--test-share",
         [&split](const std::string& text) {
           split.test_share = prep::parse_share("--test-share", text);
         },
         "The same for the test split [0]")
      ->type_name("SHARE");
  app.add_option("--split-time", split.time_column,
                 "The shares are the last rows in the order of this column (numbers, or dates "
                 "such as 2024-05-31 23:59:59): val comes after train, and test after val. Rows "
                 "of one time stay together")
      ->type_name("COLUMN");
  app.add_option("--split-group", split.group_column,
                 "All rows with the same value of this column go to the same split or fold")
      ->type_name("COLUMN");
  app.add_option("--folds", split.folds,
                 "Make that many preparations, <out>/fold_0 and so on: the rows of each fold are "
                 "validation rows once")
      ->check(whole_number(1));
}

void add_options(CLI::App& app, prep::CsvPrepOptions& options, prep::CsvGuessOptions& guess) {
  app.add_option("--train,file", options.train, "Training files")->required();
  app.add_option("--val", options.val, "Validation files; - is standard input");
  app.add_option("--test", options.test, "Test files, for test_source");
  app.add_option("--schema", options.schema,
                 "The schema, a JSON file [guessed from the first 10,000 rows, and written to "
                 "<out>/schema.json]");
  app.add_option("--label", guess.label,
                 "Without --schema: the label's column, by name or number from 0 [a column of two "
                 "values, by its name (click, label, y, ...) or its place, else csv_prep asks]")
      ->type_name("COLUMN");
  app.add_option_function<std::string>(
         "--header", [&guess](const std::string& text) { guess.header = text == "yes"; },
         "Without --schema: whether the first line has the names of the columns [yes, if it must "
         "be so]")
      ->check(CLI::IsMember({"yes", "no"}));
  app.add_option("--positive", guess.positive,
                 "Without --schema: values of the label that mean 1 [the larger number, \"yes\" "
                 "and the like, \">...\", else the rarer one]")
      ->type_name("TEXT");
  app.add_option("--categorical", guess.categorical,
                 "Without --schema: columns of categories, by name or number, such as ids that are "
                 "whole numbers; csv_prep asks where names and values do not tell these")
      ->type_name("COLUMN");
  app.add_option("--dense", guess.dense, "Without --schema: columns of numbers")
      ->type_name("COLUMN");
  app.add_option("--min-count", options.min_count,
                 "Categories with fewer occurrences in the training files become row 0")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--continue-from", options.continue_from,
                 "Folder of a preparation of the same schema: categories that it knows keep "
                 "their ids, new ones get the next, and numbers are transformed as there");
  add_split_options(app, options.split);
  prep::add_output_options(app, options.output);
  prep::add_run_options(app, options.run);
}

// Writes a guessed schema next to the results, and a split of its own where none is asked for.
void guess_what_is_missing(prep::CsvPrepOptions& options, prep::CsvGuessOptions guess) {
  if (!options.schema.empty() || !options.continue_from.empty()) {
    if (!guess.label.empty() || !guess.positive.empty() || guess.header ||
        !guess.categorical.empty() || !guess.dense.empty())
      raise<ConfigError>(
          "--label, --positive, --header, --categorical, --dense: expected no schema, which says "
          "the same, found --schema or --continue-from");
    return;
  }
  if (prep::is_read_once(options.train.at(0))) return;  // which csv_prep() refuses
  prep::SplitOptions& split = options.split;
  for (const std::string& column : {split.time_column, split.group_column})
    if (!column.empty()) guess.left_out.push_back(column);
  if (options.val.empty() && !split.val_share && !split.splits()) split.default_share = true;
  std::vector<std::string> others = options.val;
  others.insert(others.end(), options.test.begin(), options.test.end());
  const prep::CsvGuess guessed = prep::guess_schema(options.train.at(0), others, guess);
  options.schema = prep::write_guess(guessed.schema, options.output.folder, options.run.force);
  options.guessed = true;
  if (options.run.quiet) return;
  for (const std::string& line : guessed.summary) std::printf("%s\n", line.c_str());
  std::printf("  %-12s %s; edit it and pass it with --schema to change this\n", "schema",
              options.schema.c_str());
}

void write_config(const prep::OutputOptions& output, const data::Manifest& manifest) {
  if (const auto config = prep::write_first_config(output, manifest); !config.empty())
    std::printf("%s: train --config %s\n", config.c_str(), config.c_str());
}

void prepare_folds(const prep::CsvPrepOptions& options) {
  const std::vector<data::Manifest> folds = prep::csv_prep_folds(options);
  for (size_t fold = 0; fold < folds.size(); ++fold) {
    prep::OutputOptions output = options.output;
    output.folder += fmt::format("/fold_{}", fold);
    std::printf("%s: %lld training rows, %lld validation rows\n", output.folder.c_str(),
                static_cast<long long>(folds[fold].rows_of("train")),
                static_cast<long long>(folds[fold].rows_of("val")));
    write_config(output, folds[fold]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  prep::CsvPrepOptions options;
  prep::CsvGuessOptions guess;
  for (int i = 0; i < argc; ++i) {
    if (i > 0) guess.command += ' ';
    guess.command += shell_word(argv[i]);
  }
  const prep::ToolDescription description{
      "csv_prep",
      "Turns CSV files (plain, gzip or zstd) into files for training, as a schema says (a small "
      "JSON file: which column is the label, which are numbers, which are categories). Without one "
      "it guesses. Everything fitted comes from the training rows; row 0 of every table stands for "
      "missing, never-seen and rare categories. Writes the splits, the text of every category in "
      "vocabulary/, and manifest.json. Works in stages in <out>/.prep with bounded memory; when it "
      "is killed or interrupted, the same command goes on.",
      "  csv_prep adult.data --test adult.test --out adult --write-config dcnv2\n"
      "  csv_prep --schema configs/adult_schema.json --train tests/data/adult/adult.data.gz \\\n"
      "           --val tests/data/adult/adult.test.gz --out demo/adult\n"
      "  csv_prep clicks.csv --label clicked --split-time day --val-share 10% --out clicks\n"};
  return prep::run_tool(
      argc, argv, description, [&](CLI::App& app) { add_options(app, options, guess); },
      [&] {
        if (options.run.quiet) log::set_level(log::Level::kWarning);
        const InterruptGuard interrupts;
        prep::check_config_place(options.output);
        guess_what_is_missing(options, guess);
        if (options.split.folds > 0) return prepare_folds(options);
        const data::Manifest manifest = prep::csv_prep(options);
        std::fputs(manifest.summary().c_str(), stdout);
        write_config(options.output, manifest);
      });
}
