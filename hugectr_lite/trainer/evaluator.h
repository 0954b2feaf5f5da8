// Runs the evaluation plan over the evaluation set and computes its metrics.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data_reader/batch_source.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/model.h"

namespace hlite::trainer {

struct EvalResult {
  std::optional<double> auc;  // nothing when the set holds one class only
  double loss = 0;            // mean over all samples
  int64_t samples = 0;
  double seconds = 0;
};

class Evaluator {
 public:
  // Evaluates the first eval_batches * batchsize_eval samples of the file, or all if it has fewer.
  // Opens the file, so that a missing or unfit one is found before training, and keeps it open, or
  // its samples in memory (cache_eval_data). Throws DataError.
  Evaluator(const config::TrainConfig& config, Model& model, const Exec& exec);

  [[nodiscard]] int64_t samples() const { return source_->samples(); }
  // Gives up early (with what it has, samples < samples()) once stop() says so.
  EvalResult run(const std::function<bool()>& stop = {});

 private:
  Model& model_;
  Exec exec_;
  std::unique_ptr<data::BatchSource> source_;  // repeats
  std::vector<float> scores_, labels_;
};

}  // namespace hlite::trainer
