#include "hugectr_lite/trainer/evaluation/evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "data_reader/cached_source.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/ops/group_metrics.h"
#include "hugectr_lite/ops/metrics.h"
#include "hugectr_lite/trainer/evaluation/prediction_files.h"

namespace hlite::trainer {
namespace {

// A test set has no length of its own in the config, and is read once.
config::DataConfig data_of(const config::TrainConfig& config, const EvalSet& set) {
  config::DataConfig data = config.data;
  if (!set.test) return data;
  data.eval_num_samples.reset();
  data.cache_eval_data = 0;
  return data;
}

}  // namespace

EvalSet evaluation_set(const config::TrainConfig& config) {
  const std::string& predictions = config.solver.export_predictions_prefix;
  return {.path = config.resolve(config.data.eval_source),
          .most_samples = config.solver.eval_samples(),
          .predictions = predictions.empty() ? "" : config.resolve(predictions, PathUse::kOutput)};
}

EvalSet test_set(const config::TrainConfig& config) {
  return {.path = config.resolve(config.data.test_source),
          .most_samples = std::numeric_limits<int64_t>::max(),
          .test = true};
}

Evaluator::Evaluator(const config::TrainConfig& config, const EvalSet& set, Model& model,
                     const Exec& exec, const comm::RankContext& ranks)
    : config_(config),
      model_(model),
      set_(set),
      exec_(exec),
      ranks_(ranks),
      source_(data::open_evaluation_source(
          data_of(config, set), set.path, model.max_batch() * ranks.ranks(),
          model.layers().slot_rows, set.most_samples, config.solver.batchsize_eval,
          {ranks.rank, ranks.ranks()})) {}

bool Evaluator::has_both_classes() const {
  const auto source =
      data::open_source(data_of(config_, set_), set_.path, data::Split::kEval,
                        source_->batch_size(), model_.layers().slot_rows,
                        {.max_samples = set_.most_samples, .shard = {ranks_.rank, ranks_.ranks()}});
  const int64_t tasks = config_.data.label_dim;
  std::vector<float> seen(static_cast<size_t>(2 * tasks));  // 1: there are samples of the class
  const auto both = [&] {
    for (size_t i = 0; i < seen.size(); i += 2)
      if (seen[i] > 0 && seen[i + 1] > 0) return true;
    return false;
  };
  for (int64_t i = 0; i < source->batches_per_epoch() && !both(); ++i) {
    const data::HostBatch& batch = source->next();
    for (int64_t b = 0; b < batch.size; ++b)
      for (int64_t t = 0; t < tasks; ++t) {
        const float label = batch.labels(b, t);
        if (label < -0.5f || (config_.data.sample_weight && batch.labels(b, tasks) == 0)) continue;
        seen[static_cast<size_t>(2 * t + (label > 0.5f))] = 1;
      }
  }
  if (ranks_.ranks() > 1) ranks_.world->all_reduce(exec_, seen);
  return both();
}

void Evaluator::allocate() {
  pinned_ = PinnedBlocks(model_.gpu(), source_->memory());
  const int64_t tasks = model_.layers().network->tasks();
  // A GPU computes AUC and log loss of one task alone, of samples that count alike, from
  // logits as they are.
  const bool plain = tasks == 1 && !model_.layers().network->predicts_values() &&
                     !config_.data.sample_weight && config_.data.negative_share == 1;
  if (model_.gpu() && ranks_.ranks() == 1 && plain && set_.predictions.empty() &&
      config_.solver.evaluation.metrics.empty())
    gpu_ = GpuEvaluation::make(*model_.gpu(), samples());
  if (gpu_) return;
  outputs_.logits.reserve(static_cast<size_t>(samples() * tasks));
  outputs_.labels.reserve(static_cast<size_t>(samples() * tasks));
  if (config_.data.sample_weight) outputs_.weights.reserve(static_cast<size_t>(samples()));
}

bool Evaluator::start(const std::function<bool()>& stop) {
  const auto begin = Clock::now();
  const int64_t batches = source_->batches_per_epoch();
  // A batch's memory may be used again once the next one is requested.
  const auto next = [this]() -> const data::HostBatch& {
    model_.executor().wait_for_input();
    return source_->next();
  };
  // The last run may have given up halfway.
  while (source_->position() % batches != 0) next();
  outputs_.clear();
  groups_.clear();
  places_.clear();
  replaced_keys_ = 0;
  if (gpu_) gpu_->begin();
  int64_t done = 0;
  for (; done < batches && !(stop && stop()); ++done) {
    const data::HostBatch& batch = next();
    const int64_t n = batch.size;
    const int64_t chunk = model_.max_batch() * ranks_.ranks();
    model_.evaluate({.batch = n,
                     .input = input_of(batch, done + 1 < batches ? source_->ready() : nullptr),
                     .global_batch = std::min(chunk, samples() - done * chunk)});
    if (gpu_)
      copy_outputs(model_, n, gpu_->next(n));
    else
      append_outputs(model_, n, outputs_);
    append_groups(batch);
    for (int64_t b = 0; !set_.predictions.empty() && b < n; ++b)
      places_.push_back(batch.first_sample + b);
    replaced_keys_ += batch.replaced_keys;
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
  if (config_.data.key_policy.replaces())
    result.replaced_share = static_cast<double>(comm::sum_over_ranks(ranks_, replaced_keys_)) /
                            static_cast<double>(samples() * config_.data.key_layout().columns);
  result.seconds = seconds_ + seconds_since(begin);
  return result;
}

void Evaluator::compute(EvalResult& result) {
  auto& [logits, labels, weights] = outputs_;
  logits = comm::gather_lists(ranks_, std::move(logits), 0);
  labels = comm::gather_lists(ranks_, std::move(labels), 0);
  if (config_.data.sample_weight) weights = comm::gather_lists(ranks_, std::move(weights), 0);
  const network::Network& network = *model_.layers().network;
  if (!set_.predictions.empty()) export_predictions();
  if (network.tasks() > 1) return compute_tasks(result);
  if (ranks_.rank == 0) {
    result.samples = std::ssize(logits);
    if (network.predicts_values()) {
      result.loss = ops::mean_squared_error(exec_, logits, labels, weights);
    } else {
      result.auc = ops::auc(logits, labels, weights);
      result.loss = ops::log_loss(exec_, logits, labels, weights);
    }
  }
  if (network.predicts_values()) result.more.emplace_back(kRmse, std::sqrt(result.loss));
  compute_more(result);
  share(result);
}

// In the order of the file, which ranks have rows of in turn.
void Evaluator::export_predictions() {
  places_ = comm::gather_lists(ranks_, std::move(places_), 0);
  if (ranks_.rank != 0) return;
  const auto tasks = static_cast<size_t>(model_.layers().network->tasks());
  std::vector<float> scores(outputs_.logits.size()), labels(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const size_t at = static_cast<size_t>(places_[i / tasks]) * tasks + i % tasks;
    scores[at] = score_of(model_, outputs_.logits[i]);
    labels[at] = outputs_.labels[i];
  }
  write_predictions(set_.predictions, scores, labels, static_cast<int64_t>(tasks));
}

void Evaluator::append_groups(const data::HostBatch& batch) {
  const auto& slot = config_.solver.evaluation.group_slot;
  if (!slot) return;
  const int64_t column = config_.data.key_layout().first_column[static_cast<size_t>(*slot)];
  for (int64_t b = 0; b < batch.size; ++b) groups_.push_back(batch.keys(b, column));
}

void Evaluator::compute_more(EvalResult& result) {
  const auto& metrics = config_.solver.evaluation.metrics;
  if (metrics.empty()) return;
  std::optional<ops::GroupRanking> ranking;
  if (config_.solver.evaluation.group_slot) {
    groups_ = comm::gather_lists(ranks_, std::move(groups_), 0);
    if (ranks_.rank == 0) ranking.emplace(outputs_.logits, outputs_.labels, groups_);
  }
  for (const config::EvalMetric& metric : metrics) {
    std::optional<double> value;
    if (ranks_.rank == 0) {
      using enum config::MetricKind;
      if (metric.kind == kCalibration)
        value = ops::calibration(outputs_.logits, outputs_.labels, outputs_.weights);
      if (metric.kind == kGroupAuc) value = ranking->group_auc();
      if (metric.kind == kNdcg) value = ranking->ndcg(metric.k);
      if (metric.kind == kHitRate) value = ranking->hit_rate(metric.k);
    }
    result.more.emplace_back(metric.name, value);
  }
}

void Evaluator::compute_tasks(EvalResult& result) {
  const network::Network& network = *model_.layers().network;
  result.tasks.resize(static_cast<size_t>(network.tasks()));
  if (ranks_.rank == 0) {
    const auto& [logits, labels, weights] = outputs_;
    result.samples = std::ssize(labels) / network.tasks();
    result.tasks = task_metrics(exec_, logits, labels, network.tasks(), weights);
    result.auc = mean_auc(result.tasks);
    result.loss =
        weighted_loss(result.tasks, network.task_weights(),
                      weights.empty() ? static_cast<double>(result.samples) : sum_of(weights));
  }
  if (ranks_.ranks() > 1)
    ranks_.world->broadcast(exec_, std::as_writable_bytes(std::span(result.tasks)), 0);
  share(result);
}

// Gives the results of rank 0 to all ranks.
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
  for (auto& [name, value] : result.more) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    double number = value.value_or(kNone);
    ranks_.world->broadcast(exec_, std::as_writable_bytes(std::span(&number, 1)), 0);
    value = std::isnan(number) ? std::nullopt : std::optional(number);
  }
}

}  // namespace hlite::trainer
