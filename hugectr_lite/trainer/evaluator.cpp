#include "hugectr_lite/trainer/evaluator.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "data_reader/cached_source.h"
#include "hugectr_lite/trainer/metrics.h"
#include "hugectr_lite/trainer/stopwatch.h"

namespace hlite::trainer {
Evaluator::Evaluator(const config::TrainConfig& config, Model& model, const Exec& exec,
                     const comm::RankContext& ranks)
    : model_(model),
      exec_(exec),
      ranks_(ranks),
      source_(data::open_evaluation_source(
          config.data, config.resolve(config.data.eval_source), model.max_batch() * ranks.ranks(),
          model.slot_rows(), config.solver.eval_batches * config.solver.batchsize_eval,
          config.solver.batchsize_eval, {ranks.rank, ranks.ranks()})) {}

void Evaluator::allocate() {
  if (model_.on_gpu()) gpu_ = GpuEvaluation::make(*model_.gpu(), samples());
  if (gpu_) return;
  scores_.reserve(static_cast<size_t>(samples()));
  labels_.reserve(static_cast<size_t>(samples()));
}

bool Evaluator::start(const std::function<bool()>& stop) {
  const auto begin = Clock::now();
  const int64_t batches = source_->batches_per_epoch();
  // A batch's memory may be used again once the next one is asked for.
  const auto next = [this]() -> const data::HostBatch& {
    model_.wait_for_input();
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
    model_.evaluate(
        {.exec = exec_,
         .batch = n,
         .input = {batch.labels.data(), batch.dense.data(), batch.keys.data(), batch.memory}});
    if (gpu_)
      model_.copy_outputs(n, gpu_->next(n));
    else
      model_.append_outputs(n, scores_, labels_);
  }
  if (done < batches) return false;
  if (gpu_) gpu_->start(model_.stream());
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
  collect();
  if (ranks_.rank == 0) {
    result.samples = static_cast<int64_t>(scores_.size());
    result.auc = auc(scores_, labels_);
    result.loss = log_loss(exec_, scores_, labels_);
  }
  share(result);
}

// Rank 0 gets the scores and labels of all, in the order of ranks.
void Evaluator::collect() {
  if (ranks_.ranks() == 1) return;
  const size_t own = scores_.size();
  std::vector<size_t> sizes(static_cast<size_t>(ranks_.ranks()));
  ranks_.world->all_gather(exec_, std::as_bytes(std::span(&own, 1)),
                           std::as_writable_bytes(std::span(sizes)));
  const size_t most = *std::max_element(sizes.begin(), sizes.end());
  for (std::vector<float>* values : {&scores_, &labels_}) {
    std::vector<float> mine = std::move(*values);
    mine.resize(most);
    values->assign(ranks_.rank == 0 ? sizes.size() * most : 0, 0.0f);
    ranks_.world->gather(exec_, std::as_bytes(std::span(mine)),
                         std::as_writable_bytes(std::span(*values)), 0);
    if (ranks_.rank != 0) continue;
    // One behind the other, without what ranks with fewer left over.
    auto end = values->begin();
    for (size_t q = 0; q < sizes.size(); ++q)
      end = std::copy_n(values->begin() + static_cast<int64_t>(q * most), sizes[q], end);
    values->erase(end, values->end());
  }
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
