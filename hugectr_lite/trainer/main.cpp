// train: the command line.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/run_program.h"
#include "hugectr_lite/preparation/models/first_config.h"
#include "hugectr_lite/trainer/estimate/estimate_report.h"
#include "hugectr_lite/trainer/keys/json_schema.h"
#include "hugectr_lite/trainer/keys/key_reference.h"
#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/run/check.h"
#include "hugectr_lite/trainer/run/links_report.h"
#include "hugectr_lite/trainer/run/options.h"
#include "hugectr_lite/trainer/run/session.h"
#include "hugectr_lite/trainer/tune/tuning.h"

namespace {

// Not fmt::print, which throws where run_program() has an error of its own.
void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string version_text() {
  return fmt::format("train (hugectr_lite) {}, {}, {}, CUDA plug-in {}", hlite::kVersion,
                     hlite::kBuildType, hlite::kCompiler, hlite::kWithCuda ? "built" : "not built");
}

void define(CLI::App& app, hlite::trainer::Options& o) {
  app.add_option("--config", o.config, "Training config (JSON)")->required()->type_name("FILE");
  app.add_option("--solver", o.solver,
                 "Second part of the config: a file with solver and optimizer, for a graph file "
                 "that HugeCTR wrote (graph_to_json)")
      ->type_name("FILE");
  app.add_option(
         "--set", o.overrides,
         "Override a value of the config: dotted path, list elements by name or index; VALUE is "
         "JSON, else a string; PATH= removes a key. Repeatable. Example: --set "
         "solver.batchsize=4096 --set layers.data.source=my.bin")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option_function<std::string>(
         "--device",
         [&o](const std::string& name) { o.device = hlite::config::device_choice(name); },
         "auto, cpu or cuda (default: solver.device, else auto)")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--threads", o.threads, "CPU threads (default: solver.threads, else all)")
      ->type_name("N")
      ->check(hlite::whole_number(1, hlite::kMaxThreads));
  auto* init = app.add_option("--init", o.init,
                              "Start from the weights of a checkpoint, or from exported ones")
                   ->type_name("DIR|FILE.safetensors");
  app.add_option("--export", o.export_path, "Write all weights at the end")
      ->type_name("FILE.safetensors");
  app.add_option("--save", o.save, "Write a checkpoint at the end, or when interrupted")
      ->type_name("DIR");
  app.add_flag("--with-preparation", o.with_preparation,
               "Checkpoints also hold what predict needs to score text: vocabularies, transforms");
  app.add_flag("--allow-other-data", o.allow_other_data,
               "Warn where data were prepared otherwise than those of the model (--init, --resume) "
               "or of the training set; without it that is an error");
  auto* resume = app.add_option("--resume", o.resume, "Go on from a checkpoint")
                     ->type_name("DIR")
                     ->excludes(init);
  app.add_option(
         "--save-delta", o.save_delta,
         "Also write what the weights differ by from those of --resume, as the next link of "
         "the chain in DIR")
      ->type_name("DIR")
      ->needs(resume);
  app.add_flag(
         "--grow", o.grow,
         "Go on from it with data that continue those it was trained on (--continue-from), from "
         "their start: rows that its tables do not have get initial values")
      ->needs(resume);
  app.add_option("--metrics", o.metrics, "Write metrics, one JSON object a line")
      ->type_name("FILE.jsonl");
  app.add_option("--tensorboard", o.tensorboard, "Write an event file of TensorBoard")
      ->type_name("DIR");
  app.add_option("--report", o.report, "Write the run as one HTML page")->type_name("FILE.html");
  auto* mllog = app.add_option("--mllog", o.mllog,
                               "Write an MLPerf log of the config's solver.benchmark, for its "
                               "compliance checker")
                    ->type_name("FILE")
                    ->excludes(resume);
  app.add_option("--submission", o.submission,
                 "Of the MLPerf log: division (open or closed), org, platform, status (onprem, "
                 "cloud, preview, research), cache_clear (true where it was). Repeatable")
      ->type_name("KEY=VALUE")
      ->needs(mllog)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--tune", o.tune,
         "Find better learning rates, penalties, dropout and widths in N trials, of about six "
         "times the config's own time in all, and write the config NAME.tuned.json; with "
         "--save, --export or --report train it, too")
      ->type_name("N=16")
      ->expected(0, 1)
      ->default_str("16")
      ->check(hlite::whole_number(2, 1000))
      ->excludes(resume)
      ->excludes(mllog);
  app.add_flag("--check", o.check,
               "Check config, files and memory, print the model, train nothing");
  app.add_flag("--plan", o.plan,
               "Print the steps of an iteration and their dependencies, train nothing");
  app.add_option("--estimate", o.estimate,
                 "Print how long an iteration would take on a system, such as \"2x8 dgx_a100\" or "
                 "\"1x4 machine.json\", train nothing")
      ->type_name("SYSTEM");
  app.add_flag("--links", o.links,
               "Print how the GPUs of the config reach each other, and how fast, train nothing");
  app.add_flag("--traffic", o.traffic,
               "Print at the end what the ranks sent to each other in an iteration");
  app.add_flag("--quiet", o.quiet, "Print nothing but warnings and errors");
  // These need no config, like --version.
  auto* prepared =
      app.add_option("--prepared", "With --new: the folder of prepared data, or histories.json");
  prepared->type_name("DIR");
  app.add_option_function<std::string>(
         "--new",
         [prepared](const std::string& model) {
           if (prepared->count() == 0) throw CLI::RequiresError("--new", "--prepared");
           print(hlite::prep::first_config(
               model, hlite::prep::PreparedData::read(prepared->as<std::string>())));
           throw CLI::Success();
         },
         "Print a first config of this model for prepared data, to be saved and changed")
      ->type_name("MODEL")
      ->check(CLI::IsMember(hlite::prep::first_config_models()));
  auto* keys = app.add_flag_callback(
      "--keys",
      [&app] {
        const bool schema = app.count("--json-schema") > 0;
        print(schema ? hlite::trainer::config_json_schema() : hlite::trainer::key_reference());
        throw CLI::Success();
      },
      "Print every key that a config may have (docs/configs.md)");
  app.add_flag_callback(
         "--json-schema", [] {}, "With --keys: as a JSON Schema, for editors")
      ->needs(keys);
  app.set_version_flag("--version", version_text);
  app.footer(
      "Exit codes: 0 done, 1 internal error, 2 usage or config, 3 data, files or memory, 4 device "
      "or communication, 5 interrupted after saving.");
}

int run(const hlite::trainer::Options& options) {
  using namespace hlite;  // NOLINT: the whole program is about it
  if (options.quiet) log::set_level(log::Level::kWarning);
  const bool more = options.check || options.plan || options.links;
  if (!options.estimate.empty()) {
    print(trainer::estimate_report(options));
    if (!more) return kExitDone;
  }
  const auto config = config::read_train_config(options.config, options.overrides, options.solver);
  trainer::require_valid(*config);  // all faults at once
  if (options.check) print(trainer::check_report(*config, options));
  if (options.plan) print(trainer::plan_report(*config, options));
  if (options.links) print(trainer::links_report(*config, options));
  if (more) return kExitDone;
  return options.tune > 0 ? trainer::run_tuning(*config, options)
                          : trainer::run_training(*config, options);
}

}  // namespace

int main(int argc, char** argv) {
  hlite::trainer::Options options;
  CLI::App app("Trains a recommender model from a JSON config.", "train");
  define(app, options);
  return hlite::run_program(app, argc, argv, [&] { return run(options); });
}
