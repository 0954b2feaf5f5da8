#include "hugectr_lite/trainer/run/evaluator.h"

#include <chrono>
#include <span>
#include <utility>

#include "data_reader/cached_source.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/ops/metrics.h"

namespace hlite::trainer {
Evaluator::Evaluator(const config::TrainConfig& config, Model& model, const Exec& exec,
                     const comm::RankContext& ranks)
    : model_(model),
      exec_(exec),
      ranks_(ranks),
      source_(data::open_evaluation_source(
          config.data, config.resolve(config.data.eval_source), model.max_batch() * ranks.ranks(),
          model.layers().slot_rows, config.solver.eval_batches * config.solver.batchsize_eval,
          config.solver.batchsize_eval, {ranks.rank, ranks.ranks()})) {}

void Evaluator::allocate() {
  pinned_ = PinnedBlocks(model_.gpu(), source_->memory());
  const int64_t tasks = model_.layers().network->tasks();
  if (model_.gpu() && tasks == 1) gpu_ = GpuEvaluation::make(*model_.gpu(), samples());
  if (gpu_) return;
  scores_.reserve(static_cast<size_t>(samples() * tasks));
  labels_.reserve(static_cast<size_t>(samples() * tasks));
}

bool Evaluator::start(const std::function<bool()>& stop) {
  const auto begin = Clock::now();
  const int64_t batches = source_->batches_per_epoch();
  // A batch's memory may be used again once the next one is asked for.
  const auto next = [this]() -> const data::HostBatch& {
    model_.executor().wait_for_input();
    return source_->next();
  };
  // The last run may have given up halfway.
  while (source_->position() % batches != 0) next();
  scores_.clear();
  labels_.clear();
  if (gpu_) gpu_->begin();
  int64_t done = 0;
  for (; done < batches && !(stop && stop()); ++done) {
    const data::HostBatch& batch = next();
    const int64_t n = batch.size;
    model_.evaluate({.batch = n, .input = input_of(batch)});
    if (gpu_)
      copy_outputs(model_, n, gpu_->next(n));
    else
      append_outputs(model_, n, scores_, labels_);
  }
  if (done < batches) return false;
  if (gpu_) gpu_->start(model_.executor().exec().stream);
  seconds_ = seconds_since(begin);
  return true;
}

EvalResult Evaluator::finish() {
  const auto begin = Clock::now();
  EvalResult result;
  if (gpu_) {
    gpu_->wait();
    result.samples = gpu_->samples();
    result.auc = gpu_->metrics().auc();
    result.loss = gpu_->metrics().log_loss();
  } else {
    compute(result);
  }
  result.seconds = seconds_ + seconds_since(begin);
  return result;
}

void Evaluator::compute(EvalResult& result) {
  scores_ = comm::gather_lists(ranks_, std::move(scores_), 0);
  labels_ = comm::gather_lists(ranks_, std::move(labels_), 0);
  if (model_.layers().network->tasks() > 1) return compute_tasks(result);
  if (ranks_.rank == 0) {
    result.samples = static_cast<int64_t>(scores_.size());
    result.auc = ops::auc(scores_, labels_);
    result.loss = ops::log_loss(exec_, scores_, labels_);
  }
  share(result);
}

void Evaluator::compute_tasks(EvalResult& result) {
  const network::Network& network = *model_.layers().network;
  result.tasks.resize(static_cast<size_t>(network.tasks()));
  if (ranks_.rank == 0) {
    result.samples = std::ssize(labels_) / network.tasks();
    result.tasks = task_metrics(exec_, scores_, labels_, network.tasks());
    result.auc = mean_auc(result.tasks);
    result.loss = weighted_loss(result.tasks, network.task_weights(), result.samples);
  }
  if (ranks_.ranks() > 1)
    ranks_.world->broadcast(exec_, std::as_writable_bytes(std::span(result.tasks)), 0);
  share(result);
}

// What rank 0 found out becomes known to all.
void Evaluator::share(EvalResult& result) {
  if (ranks_.ranks() == 1) return;
  struct {
    double auc, loss;
    int64_t samples, has_auc;
  } plain{result.auc.value_or(0), result.loss, result.samples, result.auc ? 1 : 0};
  ranks_.world->broadcast(exec_, std::as_writable_bytes(std::span(&plain, 1)), 0);
  result.auc = plain.has_auc ? std::optional(plain.auc) : std::nullopt;
  result.loss = plain.loss;
  result.samples = plain.samples;
}

}  // namespace hlite::trainer
