#include "hugectr_lite/predict/prediction.h"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data_reader/manifest_fit.h"
#include "data_reader/open_source.h"
#include "data_reader/unknown_values.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/predict/predictor.h"
#include "hugectr_lite/predict/score_file.h"
#include "hugectr_lite/predict/useful_threads.h"
#include "hugectr_lite/preparation/apply/text_batches.h"
#include "hugectr_lite/preparation/inspect/file_kind.h"
#include "hugectr_lite/preparation/io/input_stream.h"
#include "hugectr_lite/trainer/model/resources.h"

namespace hlite::predict {

namespace {

// The preparation to apply to the input; empty: it consists of records.
std::string preparation_for(const PredictionOptions& options, const config::DataConfig& data) {
  if (!options.prepared.empty() || !checkpoint::is_checkpoint(options.model))
    return options.prepared;
  const std::string own = checkpoint::preparation_in(options.model);
  if (own.empty() || prep::is_read_once(options.input)) return own;
  switch (prep::detect_file(options.input).kind) {
    case prep::FileKind::kBinary:
    case prep::FileKind::kNorm:
    case prep::FileKind::kNormList:
      return {};
    case prep::FileKind::kParquet:
      return data.format->named_columns ? "" : own;
    default:
      return own;
  }
}

// Batches of the input, in order; one of size 0 at the end. Owns what they come from.
class Samples {
 public:
  Samples(const PredictionOptions& options, config::DataConfig data, Predictor& predictor)
      : options_(options) {
    const std::string prepared = preparation_for(options, data);
    if (prepared.empty()) {
      if (!options.carry.empty())
        raise<ConfigError>(
            "--carry: expected lines of text (with --prepared), whose columns have names, found "
            "records");
      if (options.labels == prep::Labels::kAbsent)
        raise<ConfigError>(
            "--no-label: expected lines of text (with --prepared), as the binary formats have a "
            "place for the label");
      if (const auto entry =
              data::find_manifest_of(options.input, data::DamagedManifest::kPassOver)) {
        compare(entry->manifest.identity(), entry->path);
        if (const auto stale = data::find_stale(*entry, options.input))
          raise<DataError>("{}; {}", stale->message, stale->advice);
      } else {
        compare({}, options.input);
      }
      data.eval_num_samples.reset();
      source_ = data::open_source(data, options.input, data::Split::kEval, predictor.batch_size(),
                                  predictor.slot_rows(), {.repeat = false});
    } else {
      std::optional<std::vector<std::string>> carry;
      if (takes_columns(options.out)) carry = options.carry;
      preparation_ = std::make_unique<prep::Preparation>(prepared, options.labels, carry);
      compare(preparation_->manifest().identity(), preparation_->path());
      lines_ = std::make_unique<prep::TextBatches>(*preparation_, options.input, data,
                                                   predictor.slot_rows(), predictor.batch_size(),
                                                   predictor.pool());
    }
  }
  // Names of the columns that are written next to the scores, and those of the last batch, as CSV
  // text.
  [[nodiscard]] std::string carried_columns() const {
    return preparation_ ? preparation_->parser().carried_columns() : "";
  }
  [[nodiscard]] std::span<const std::string> carried() const {
    return lines_ ? lines_->carried() : std::span<const std::string>();
  }
  const data::HostBatch& next() { return source_ ? source_->next() : lines_->next(); }
  // After the last batch: which values had no id.
  void report() const {
    if (!lines_) return;
    const data::Manifest& training = preparation_->manifest();
    data::report_unknown(lines_->unknown(), options_.input, training.columns,
                         training.rows_of("train"), options_.max_unknown);
  }

 private:
  // True if the input is prepared as the model's training data was.
  void compare(const data::DataIdentity& found, const std::string& place) const {
    const auto model =
        data::TrainedOn::parse(checkpoint::trained_on(options_.model), options_.model);
    if (model.identity.known() && !found.known())
      log::info(
          "{}: no manifest says how it was prepared, so it is not compared with the data that "
          "{} was trained on",
          place, options_.model);
    data::check_same_data(model.identity, options_.model, found, place, options_.other_data);
  }

  const PredictionOptions& options_;
  std::unique_ptr<data::BatchSource> source_;
  std::unique_ptr<prep::Preparation> preparation_;
  std::unique_ptr<prep::TextBatches> lines_;
};

}  // namespace

PredictionResult predict(const PredictionOptions& options) {
  const NamedPath inputs[] = {
      {"--input", options.input}, {"--model", options.model}, {"--config", options.run.config}};
  if (options.out != "-") expect_no_input({"--out", options.out}, inputs);
  const auto config =
      prediction_config({options.run.config}, options.model, options.run.overrides, options.batch);
  const std::unique_ptr<ScoreFile> out = open_score_file(options.out);
  if (!options.carry.empty() && !takes_columns(options.out))
    raise<ConfigError>("--carry: expected --out FILE.csv or -, which have columns, found {}",
                       options.out);
  ScoringOptions run = options.run;
  run.threads = trainer::resolve_threads(*config, run.threads);
  if (preparation_for(options, config->data).empty())
    run.threads = useful_threads(run.threads, config->data, options.input, options.model);
  Predictor predictor(*config, {.model = options.model, .delta = options.delta}, run);
  const bool labelled = options.labels == prep::Labels::kThere;
  const auto start = Clock::now();
  Samples samples(options, config->data, predictor);
  if (const std::string columns = samples.carried_columns(); !columns.empty())
    out->set_extra_columns(columns);
  PredictionResult result;
  trainer::SampleOutputs outputs;
  std::vector<float> scores;
  for (;;) {
    const data::HostBatch& batch = samples.next();
    if (batch.size == 0) break;
    if (InterruptGuard::requested()) raise<InterruptedError>("interrupted; no scores were written");
    const size_t before = outputs.logits.size();
    predictor.run(batch, outputs);
    trainer::append_groups(*config, batch, outputs);
    scores.resize(outputs.logits.size() - before);
    std::transform(outputs.logits.begin() + static_cast<std::ptrdiff_t>(before),
                   outputs.logits.end(), scores.begin(),
                   [&](float logit) { return predictor.score_of(logit); });
    out->add(scores, samples.carried());
    result.samples += batch.size;
    result.replaced_keys += batch.replaced_keys;
    if (!labelled) outputs.clear();
  }
  // The disk works while the metrics are computed.
  auto written = std::async(std::launch::async, [&] { out->finish(); });
  if (labelled && result.samples > 0) {
    const Exec exec{.device = Device::kCpu, .pool = &predictor.pool()};
    result.values = predictor.predicts_values();
    result.metrics = trainer::metrics_of(exec, predictor.model(), outputs);
  }
  samples.report();
  result.keys = result.samples * config->data.key_layout().columns;
  if (result.replaced_share() > options.max_unknown)
    raise<DataError>(
        "{}: expected at most {:.1f} % of keys outside of their tables (--max-unknown), found "
        "{:.1f} %",
        options.input, 100 * options.max_unknown, 100 * result.replaced_share());
  written.get();
  out->close();
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace hlite::predict
