// The command line options of how a preparation runs: the same for all tools.
#include <CLI/CLI.hpp>

#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "hugectr_lite/preparation/io/command_line.h"

namespace hlite::prep {

void add_run_options(CLI::App& app, PrepOptions& options) {
  app.add_option_function<std::string>(
         "--sample",
         [&options](const std::string& text) { options.sample = parse_share("--sample", text); },
         "Share of the rows to keep, as 0.01 or 1%")
      ->default_str("1");
  app.add_option_function<std::string>(
         "--negative-share",
         [&options](const std::string& text) {
           options.negative_share = parse_share("--negative-share", text);
         },
         "Share of the training rows with label 0 to keep, as 0.1 or 10%; the manifest has it, and "
         "training corrects scores by it")
      ->default_str("1");
  app.add_option("--max-bad-rows", options.max_bad_rows,
                 "Malformed rows to skip with a warning before giving up")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option_function<std::string>(
      "--max-unknown",
      [&options](const std::string& text) {
        options.max_unknown = parse_share("--max-unknown", text);
      },
      "Most of a column's values in --val and --test that the training rows lack, as 0.5 or 50% "
      "[any; a warning says where there are many]");
  app.add_option_function<std::string>(
      "--memory",
      [&options](const std::string& text) { options.memory = parse_bytes("--memory", text); },
      "Memory to stay below, as 4G or 500M [half of what is available]");
  app.add_option("--threads", options.threads, "CPU threads; 0: all")
      ->check(whole_number(0, kMaxThreads))
      ->capture_default_str();
  app.add_flag("--restart", options.restart,
               "Forget an unfinished run in <out>/.prep and start anew");
  app.add_flag("--force", options.force,
               "Replace another preparation in the output folder, finished or not, all of it");
  app.add_flag("--quiet", options.quiet, "No progress");
}

}  // namespace hlite::prep
