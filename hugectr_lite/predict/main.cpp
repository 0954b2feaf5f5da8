// predict: the command line.
#include <cmath>

#include "data_reader/key_check.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/predict/prediction.h"
#include "hugectr_lite/predict/score_report.h"
#include "hugectr_lite/preparation/io/command_line.h"

namespace {

void define(CLI::App& app, hlite::predict::PredictionOptions& o, std::string& report, bool& quiet) {
  app.add_option("--model", o.model, "A checkpoint, or exported weights (needs --config)")
      ->required()
      ->type_name("DIR|FILE.safetensors");
  app.add_option("--delta", o.delta,
                 "The chain of deltas (train --save-delta) that follows --model: scores with the "
                 "weights that it leads to")
      ->type_name("DIR");
  app.add_option("--config", o.run.config, "The model's config [the checkpoint's]")
      ->type_name("FILE");
  app.add_option("--set", o.run.overrides, "Override a value of the config, as in train")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--input", o.input,
                 "Samples: a file of the config's format or, with --prepared, lines of text "
                 "(plain, gzip, zstd; - is standard input)")
      ->required()
      ->type_name("FILE");
  app.add_option("--prepared", o.prepared,
                 "The folder that csv_prep, or criteo_prep --save-vocabulary (or --hash), wrote "
                 "the training data to: does the same to lines of text [the checkpoint's own, of "
                 "train --with-preparation]")
      ->type_name("DIR");
  app.add_flag_callback(
      "--no-label", [&o] { o.labels = hlite::prep::Labels::kAbsent; },
      "The lines lack the label's column");
  app.add_option(
         "--carry", o.carry,
         "Columns of the text that are written next to the scores, in this order, with commas between "
         "them: names of the header or of the schema's columns or, without a header, numbers of "
         "columns [\"carry\" of the schema]")
      ->delimiter(',')
      ->type_name("COLUMN,...");
  app.add_option_function<std::string>(
         "--max-unknown",
         [&o](const std::string& text) {
           o.max_unknown = hlite::prep::parse_share("--max-unknown", text);
         },
         "Refuse an input with a column of which a larger share has no id, as 0.5 or 50% [1: none]")
      ->type_name("SHARE");
  app.add_flag_callback(
      "--allow-other-data", [&o] { o.other_data = hlite::data::OtherData::kWarn; },
      "Warn where the input is prepared otherwise than the model's training data; without it that "
      "is an error");
  app.add_option("--out", o.out, "Probabilities in the order of the input; - is standard output")
      ->required()
      ->type_name("FILE.csv|FILE.npy");
  app.add_option(
         "--report", report,
         "Also write one HTML page of what the scores are worth: ROC, calibration, lift, AUC "
         "by slices, permutation importance (of text with labels; needs python3 and the "
         "Python package)")
      ->type_name("FILE.html");
  app.add_option("--batch", o.batch, "Samples scored at once")
      ->check(hlite::whole_number(1, 1 << 20))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--device",
         [&o](const std::string& name) { o.run.device = hlite::config::device_choice(name); },
         "auto, cpu or cuda [solver.device, else auto]")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--threads", o.run.threads,
                 "CPU threads at most; a small input takes fewer [solver.threads, else all]")
      ->check(hlite::whole_number(1, hlite::kMaxThreads));
  app.add_flag("--quiet", quiet, "Print nothing but warnings and errors");
}

void report(const hlite::predict::PredictionResult& result) {
  using hlite::log::info;
  info("{} samples in {:.2f} s, {:.0f} samples/s", result.samples, result.seconds,
       static_cast<double>(result.samples) / result.seconds);
  if (result.replaced_keys > 0) {
    const std::string text =
        fmt::format("{} keys ({:.1f} %) outside of their tables were replaced (key_policy)",
                    result.replaced_keys, 100 * result.replaced_share());
    result.replaced_share() > hlite::data::kManyReplaced ? hlite::log::warning("{}", text)
                                                         : info("{}", text);
  }
  if (!result.metrics) return;
  const auto& [auc, loss, more] =
      std::tie(result.metrics->auc, result.metrics->loss, result.metrics->more);
  const auto text = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.6f}", *value) : "none";
  };
  std::string line =
      result.values ? fmt::format("RMSE {:.6f}, mean squared error {:.6f}", std::sqrt(loss), loss)
                    : fmt::format("AUC {}, log loss {:.6f}", text(auc), loss);
  for (const auto& [name, value] : more)
    if (name != hlite::trainer::kRmse) line += fmt::format(", {} {}", name, text(value));
  info("{}", line);
}

}  // namespace

int main(int argc, char** argv) {
  hlite::predict::PredictionOptions options;
  std::string page;
  bool quiet = false;
  const hlite::prep::ToolDescription description{
      "predict",
      "Scores samples with a trained model: the probability of label 1, or of a model with MSELoss "
      "the value, in the order of the input. With labels also AUC and log loss, or RMSE, "
      "and further metrics of eval_metrics.",
      "  predict --model checkpoint --input val.bin --out scores.npy\n"
      "  predict --model checkpoint --prepared data --input new.csv.gz --out scores.csv\n"
      "  cat new.tsv | predict --config c.json --model w.safetensors --prepared data --no-label "
      "--input - --out -\n"};
  return hlite::prep::run_tool(
      argc, argv, description, [&](CLI::App& app) { define(app, options, page, quiet); },
      [&] {
        if (quiet) hlite::log::set_level(hlite::log::Level::kWarning);
        const hlite::InterruptGuard interrupts;
        if (!page.empty()) hlite::predict::check_report(options, page);
        const hlite::predict::PredictionResult result = hlite::predict::predict(options);
        if (result.samples == 0) hlite::log::warning("--input: expected rows to score, found none");
        report(result);
        if (!page.empty()) hlite::predict::write_report(options, result, page);
      });
}
