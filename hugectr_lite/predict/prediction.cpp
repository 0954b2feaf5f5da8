#include "hugectr_lite/predict/prediction.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "data_reader/open_source.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/ops/metrics.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/predict/predictor.h"
#include "hugectr_lite/predict/score_file.h"
#include "tools/apply/text_batches.h"

namespace hlite::predict {

namespace {

class PredictionInterrupted final : public Error {
 public:
  PredictionInterrupted() : Error("interrupted; no scores were written") {}
  [[nodiscard]] int exit_code() const override { return kExitInterrupted; }
};

// Batches of the input, in order; one of size 0 at the end. Owns what they come from.
class Samples {
 public:
  Samples(const PredictionOptions& options, config::DataConfig data, Predictor& predictor) {
    if (options.prepared.empty()) {
      if (options.labels == tools::Labels::kAbsent)
        raise<ConfigError>(
            "--no-label: expected lines of text (with --prepared), as the binary formats have a "
            "place for the label");
      data.eval_num_samples.reset();
      source_ = data::open_source(data, options.input, data::Split::kEval, predictor.batch_size(),
                                  predictor.slot_rows(), {.repeat = false});
    } else {
      preparation_ = std::make_unique<tools::Preparation>(options.prepared, options.labels);
      lines_ = std::make_unique<tools::TextBatches>(*preparation_, options.input, data,
                                                    predictor.slot_rows(), predictor.batch_size(),
                                                    predictor.pool());
    }
  }
  const data::HostBatch& next() { return source_ ? source_->next() : lines_->next(); }

 private:
  std::unique_ptr<data::BatchSource> source_;
  std::unique_ptr<tools::Preparation> preparation_;
  std::unique_ptr<tools::TextBatches> lines_;
};

}  // namespace

PredictionResult predict(const PredictionOptions& options) {
  const auto config =
      prediction_config({options.run.config}, options.model, options.run.overrides, options.batch);
  const std::unique_ptr<ScoreFile> out = open_score_file(options.out);
  Predictor predictor(*config, options.model, options.run);
  const bool labelled = options.labels == tools::Labels::kThere;
  const auto start = Clock::now();
  Samples samples(options, config->data, predictor);
  PredictionResult result;
  std::vector<float> logits, labels, scores;
  for (;;) {
    const data::HostBatch& batch = samples.next();
    if (batch.size == 0) break;
    if (InterruptGuard::requested()) throw PredictionInterrupted();
    const size_t before = logits.size();
    predictor.run(batch, logits, labels);
    scores.resize(logits.size() - before);
    std::transform(logits.begin() + static_cast<std::ptrdiff_t>(before), logits.end(),
                   scores.begin(), probability);
    out->add(scores);
    result.samples += batch.size;
    result.replaced_keys += batch.replaced_keys;
    if (!labelled) {
      logits.clear();
      labels.clear();
    }
  }
  if (labelled && result.samples > 0) {
    result.auc = ops::auc(logits, labels);
    result.loss =
        ops::log_loss({.device = Device::kCpu, .pool = &predictor.pool()}, logits, labels);
  }
  out->close();
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace hlite::predict
