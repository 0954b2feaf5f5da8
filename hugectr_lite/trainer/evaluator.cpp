#include "hugectr_lite/trainer/evaluator.h"

#include <algorithm>
#include <chrono>

#include "data_reader/raw_reader.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/metrics.h"

namespace hlite::trainer {

Evaluator::Evaluator(const config::TrainConfig& config, Model& model, const Exec& exec)
    : config_(config), model_(model), exec_(exec), path_(config.resolve(config.data.eval_source)) {
  const ReadFile file(path_);
  const int64_t available =
      data::raw_sample_count(config.data, data::Split::kEval, path_, file.size());
  samples_ = std::min(available, config.solver.eval_batches * config.solver.batchsize_eval);
  scores_.reserve(static_cast<size_t>(samples_));
  labels_.reserve(static_cast<size_t>(samples_));
}

EvalResult Evaluator::run(const std::function<bool()>& stop) {
  const auto start = std::chrono::steady_clock::now();
  data::RawReader reader(config_.data, path_, data::Split::kEval, model_.max_batch(),
                         model_.slot_rows(), {.repeat = false});
  scores_.clear();
  labels_.clear();
  for (int64_t left = samples_; left > 0 && !(stop && stop());) {
    const data::HostBatch& batch = reader.next();
    if (batch.size == 0)
      raise<DataError>("{}: expected {} samples, found {}: the file has shrunk", path_, samples_,
                       samples_ - left);
    const int64_t n = std::min(batch.size, left);
    plan::run_in_order(model_.eval_plan(),
                       {.exec = exec_,
                        .batch = n,
                        .input = {batch.labels.data(), batch.dense.data(), batch.keys.data()}});
    scores_.insert(scores_.end(), model_.logits(), model_.logits() + n);
    labels_.insert(labels_.end(), model_.labels(), model_.labels() + n);
    left -= n;
  }
  EvalResult result;
  result.samples = static_cast<int64_t>(scores_.size());
  result.auc = auc(scores_, labels_);
  result.loss = log_loss(exec_, scores_, labels_);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace hlite::trainer
