#include "hugectr_lite/trainer/evaluator.h"

#include <chrono>

#include "data_reader/cached_source.h"
#include "hugectr_lite/trainer/metrics.h"

namespace hlite::trainer {

Evaluator::Evaluator(const config::TrainConfig& config, Model& model, const Exec& exec)
    : model_(model),
      exec_(exec),
      source_(data::open_evaluation_source(
          config.data, config.resolve(config.data.eval_source), model.max_batch(),
          model.slot_rows(), config.solver.eval_batches * config.solver.batchsize_eval,
          config.solver.batchsize_eval)) {
  scores_.reserve(static_cast<size_t>(samples()));
  labels_.reserve(static_cast<size_t>(samples()));
}

EvalResult Evaluator::run(const std::function<bool()>& stop) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t batches = source_->batches_per_epoch();
  // The last run may have given up halfway.
  while (source_->position() % batches != 0) source_->next();
  scores_.clear();
  labels_.clear();
  for (int64_t b = 0; b < batches && !(stop && stop()); ++b) {
    const data::HostBatch& batch = source_->next();
    const int64_t n = batch.size;
    plan::run_in_order(model_.eval_plan(),
                       {.exec = exec_,
                        .batch = n,
                        .input = {batch.labels.data(), batch.dense.data(), batch.keys.data()}});
    scores_.insert(scores_.end(), model_.logits(), model_.logits() + n);
    labels_.insert(labels_.end(), model_.labels(), model_.labels() + n);
  }
  EvalResult result;
  result.samples = static_cast<int64_t>(scores_.size());
  result.auc = auc(scores_, labels_);
  result.loss = log_loss(exec_, scores_, labels_);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace hlite::trainer
