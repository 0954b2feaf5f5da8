#include <chrono>
#include <cstdio>

#include "hugectr_lite/core/log.h"
#include "tools/command_line.h"
#include "tools/criteo_prep.h"

int main(int argc, char** argv) {
  using namespace hlite;
  tools::CriteoPrepOptions options;
  const tools::ToolDescription description{
      "criteo_prep",
      "Turns Criteo's click logs (label, 13 integers, 26 hexadecimal tokens, tab-separated) into "
      "raw "
      "files for training, after the MLPerf reference's recipe: missing integers and tokens become "
      "0, negative integers 0, tokens are taken modulo --max-ind-range and numbered per column in "
      "order of first appearance. Writes train.bin, val.bin and manifest.json.",
      "  criteo_prep --train day_0.gz day_1.gz --val day_2.gz --out data\n"
      "  criteo_prep --train day_*.gz --split-last-half --out data\n"
      "  zstd -dc train.tsv.zst | criteo_prep --train - --val val.tsv --out data\n"};
  return tools::run_tool(
      argc, argv, description,
      [&](CLI::App& app) {
        app.add_option("--train", options.train, "Training files in order; - is standard input")
            ->required();
        app.add_option("--val", options.val, "Validation files");
        app.add_flag("--split-last-half", options.split_last_half,
                     "Keep the last --train file out of training: its first half (rounded up) "
                     "becomes val.bin, the rest test.bin");
        app.add_option("--out", options.out, "Folder for the results (made if missing)")
            ->capture_default_str();
        app.add_option("--max-ind-range", options.max_ind_range,
                       "Tokens are taken modulo this; 0: not at all")
            ->capture_default_str();
        app.add_option("--max-bad-rows", options.max_bad_rows,
                       "Malformed rows to skip with a warning before giving up")
            ->check(CLI::NonNegativeNumber)
            ->capture_default_str();
        app.add_option("--threads", options.threads, "CPU threads; 0: all")
            ->check(CLI::NonNegativeNumber)
            ->capture_default_str();
      },
      [&] {
        const auto start = std::chrono::steady_clock::now();
        const tools::RawManifest manifest = tools::criteo_prep(options);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        int64_t rows = 0;
        for (const auto& file : manifest.files) rows += file.rows;
        std::fputs(manifest.summary().c_str(), stdout);
        log::info("{} rows in {:.2f} s, {:.0f} rows/s", rows, seconds,
                  static_cast<double>(rows) / seconds);
      });
}
