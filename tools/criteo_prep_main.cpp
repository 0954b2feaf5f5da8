#include <cstdio>

#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/preparation/criteo/criteo_prep.h"
#include "hugectr_lite/preparation/io/command_line.h"

int main(int argc, char** argv) {
  using namespace hlite;
  prep::CriteoPrepOptions options;
  std::string order = "first";
  const prep::ToolDescription description{
      "criteo_prep",
      "Turns Criteo's click logs (label, 13 integers, 26 hexadecimal tokens, tab-separated; plain, "
      "gzip or zstd) into files for training, after the MLPerf reference's recipe: missing "
      "integers and tokens become 0, negative integers 0, tokens are taken modulo --max-ind-range "
      "and numbered per column in order of first appearance. Works in stages in <out>/.prep with "
      "bounded memory; when it is killed or interrupted, the same command goes on.",
      "  criteo_prep --train day_0.gz day_1.gz --val day_2.gz --out data\n"
      "  criteo_prep --train day_*.gz --split-last-half --shuffle --memory 16G --out data\n"
      "  criteo_prep --train a.tsv --val b.tsv --min-count 6 --order frequency --out data\n"
      "  criteo_prep --train day_*.gz --sample 1% --hash 1000000 --out small\n"
      "  criteo_prep --train day_3.gz --continue-from day_2 --out day_3\n"
      "  zstd -dc train.tsv.zst | criteo_prep --train - --val val.tsv --out data\n"};
  return prep::run_tool(
      argc, argv, description,
      [&](CLI::App& app) {
        app.add_option("--train", options.train, "Training files in order; - is standard input")
            ->required();
        app.add_option("--val", options.val, "Validation files");
        app.add_option("--test", options.test, "Test files, for test_source");
        app.add_flag("--split-last-half", options.split_last_half,
                     "Keep the last --train file out of training: its first half (rounded up) "
                     "becomes the split val, the rest test");
        app.add_option("--max-ind-range", options.max_ind_range,
                       "Tokens are taken modulo this; 0: not at all [40000000; with --hash 0]")
            ->check(whole_number(0, UINT32_MAX));
        app.add_option("--min-count", options.min_count,
                       "Id 0 stands for tokens with fewer occurrences in the training files; 0: "
                       "every token has its own id")
            ->check(whole_number(0));
        app.add_option("--order", order, "Ids by first appearance, or by frequency in training")
            ->check(CLI::IsMember({"first", "frequency"}))
            ->capture_default_str();
        app.add_option("--hash", options.hash,
                       "No dictionary: a token's id is its hash modulo this; 0: off")
            ->check(whole_number(0, int64_t{1} << 32))
            ->capture_default_str();
        app.add_option("--continue-from", options.continue_from,
                       "Folder of a preparation with --save-vocabulary: tokens that it knows keep "
                       "their ids, new ones get the next");
        app.add_flag("--save-vocabulary", options.save_vocabulary,
                     "Also write which token has which id, for predict (4 bytes a category)");
        prep::add_output_options(app, options.output);
        prep::add_run_options(app, options.run);
      },
      [&] {
        const auto start = Clock::now();
        options.by_frequency = order == "frequency";
        if (options.run.quiet) log::set_level(log::Level::kWarning);
        const InterruptGuard interrupts;
        prep::check_config_place(options.output);
        const data::Manifest manifest = prep::criteo_prep(options);
        const double seconds = seconds_since(start);
        int64_t rows = 0;
        for (const auto& file : manifest.files) rows += file.rows;
        std::fputs(manifest.summary().c_str(), stdout);
        if (const auto config = prep::write_first_config(options.output, manifest); !config.empty())
          std::printf("%s: train --config %s\n", config.c_str(), config.c_str());
        log::info("{} rows in {:.2f} s, {:.0f} rows/s", rows, seconds,
                  static_cast<double>(rows) / seconds);
      });
}
