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
  Evaluator(const config::TrainConfig& config, Model& model, const Exec& exec,
            const comm::RankContext& ranks);

  [[nodiscard]] int64_t samples() const { return source_->samples(); }
  // Collective: every rank evaluates its rows of each batch and gets the result of all. Gives up
  // early (with what it has, samples < samples()) once stop() says so, to all ranks alike.
  EvalResult run(const std::function<bool()>& stop = {});

 private:
  void collect();
  void share(EvalResult& result) const;
  Model& model_;
  Exec exec_;
  const comm::RankContext ranks_;
  std::unique_ptr<data::BatchSource> source_;  // repeats
  std::vector<float> scores_, labels_;
};

}  // namespace hlite::trainer
