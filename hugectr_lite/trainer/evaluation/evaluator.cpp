#include "hugectr_lite/trainer/evaluation/evaluator.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "data_reader/cached_source.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/stopwatch.h"
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

std::vector<metrics::Metric> further_metrics(const Model& model) {
  std::vector<metrics::Metric> more = model.config().solver.evaluation.metrics;
  if (model.layers().network->predicts_values()) {
    std::erase_if(more, [](const metrics::Metric& metric) { return metric.name == kRmse; });
    more.insert(more.begin(), metrics::find(kRmse).value());
  }
  return more;
}

EvalResult metrics_of(const Exec& exec, const Model& model, const SampleOutputs& outputs) {
  const network::Network& network = *model.layers().network;
  const auto more = further_metrics(model);
  const auto& [logits, labels, weights, groups] = outputs;
  EvalResult result;
  result.samples = std::ssize(labels) / network.tasks();
  if (network.tasks() == 1) {
    const bool values = network.predicts_values();
    if (!values) result.auc = ops::auc(logits, labels, weights);
    result.loss = values ? ops::mean_squared_error(exec, logits, labels, weights)
                         : ops::log_loss(exec, logits, labels, weights);
    result.more = metrics::take(more, {logits, labels, weights, groups, result.loss});
    return result;
  }
  result.tasks = task_metrics(exec, outputs, network.tasks(), more);
  const auto mean = [&](auto&& value) {
    std::vector<std::optional<double>> of_tasks;
    for (const TaskResult& t : result.tasks) of_tasks.push_back(value(t));
    return mean_of(of_tasks);
  };
  result.auc = mean([](const TaskResult& t) { return t.auc; });
  result.loss =
      weighted_loss(result.tasks, network.task_weights(),
                    weights.empty() ? static_cast<double>(result.samples) : sum_of(weights));
  for (size_t m = 0; m < more.size(); ++m)
    result.more.emplace_back(more[m].name,
                             mean([&](const TaskResult& t) { return t.more[m].second; }));
  return result;
}

EvalResult no_metrics(const Model& model) {
  EvalResult result;
  result.loss = std::numeric_limits<double>::quiet_NaN();
  for (const metrics::Metric& metric : further_metrics(model))
    result.more.emplace_back(metric.name, std::nullopt);
  return result;
}

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
  if (model_.gpu() && ranks_.ranks() == 1 && plain && set_.predictions.empty())
    gpu_ = GpuEvaluation::make(*model_.gpu(), samples());
  if (gpu_ && further_metrics(model_).empty()) return;
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
    append_groups(config_, batch, outputs_);
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
  EvalResult result = gpu_ ? compute_on_gpu() : compute();
  if (config_.data.key_policy.replaces())
    result.replaced_share = static_cast<double>(comm::sum_over_ranks(ranks_, replaced_keys_)) /
                            static_cast<double>(samples() * config_.data.key_layout().columns);
  result.seconds = seconds_ + seconds_since(begin);
  return result;
}

EvalResult Evaluator::compute_on_gpu() {
  gpu_->wait();
  EvalResult result{
      .auc = gpu_->metrics().auc(), .loss = gpu_->metrics().log_loss(), .samples = gpu_->samples()};
  const auto more = further_metrics(model_);
  if (more.empty()) return result;
  gpu_->read(outputs_);
  result.more =
      metrics::take(more, {outputs_.logits, outputs_.labels, {}, outputs_.groups, result.loss});
  return result;
}

// Of no samples on other ranks than 0, which share() gives the results.
EvalResult Evaluator::compute() {
  auto& [logits, labels, weights, groups] = outputs_;
  logits = comm::gather_lists(ranks_, std::move(logits), 0);
  labels = comm::gather_lists(ranks_, std::move(labels), 0);
  if (config_.data.sample_weight) weights = comm::gather_lists(ranks_, std::move(weights), 0);
  if (config_.solver.evaluation.group_slot)
    groups = comm::gather_lists(ranks_, std::move(groups), 0);
  if (!set_.predictions.empty()) export_predictions();
  EvalResult result = metrics_of(exec_, model_, outputs_);
  share(result);
  return result;
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

// Gives the results of rank 0 to all ranks.
void Evaluator::share(EvalResult& result) {
  if (ranks_.ranks() == 1) return;
  const auto give = [&](auto&... numbers) {
    (ranks_.world->broadcast(exec_, std::as_writable_bytes(std::span(&numbers, 1)), 0), ...);
  };
  give(result.auc, result.loss, result.samples);
  for (auto& [name, value] : result.more) give(value);
  for (TaskResult& t : result.tasks) {
    give(t.auc, t.loss, t.samples, t.weight);
    for (auto& [name, value] : t.more) give(value);
  }
}

}  // namespace hlite::trainer
