#include "hugectr_lite/serve/scorer.h"

#include <algorithm>
#include <future>
#include <numeric>
#include <utility>

#include "data_reader/data_identity.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/predict/prediction_config.h"

namespace hlite::serve {

namespace {
double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
}  // namespace

// Made and used on the scoring thread: a GPU is the current device of a thread.
struct Scorer::Loaded {
  Loaded(std::unique_ptr<config::TrainConfig> of, const ScorerOptions& options)
      : config(std::move(of)),
        predictor(*config,
                  {.model = options.model,
                   .delta = options.delta,
                   .until = options.until,
                   .in = predict::WeightsIn::kFile},
                  options.run),
        batch(predictor.batch_size(), config->data.label_width(), config->data.dense_width(),
              config->data.key_layout().columns) {}
  const std::unique_ptr<const config::TrainConfig> config;
  predict::Predictor predictor;
  data::BatchBuffer batch;
  trainer::SampleOutputs outputs;
};

Scorer::Scorer(const ScorerOptions& options, const ModelMetrics& metrics)
    : options_(options), metrics_(metrics) {
  std::promise<void> loaded;
  thread_ = std::thread([&] {
    work([&](std::exception_ptr error) {
      error ? loaded.set_exception(std::move(error)) : loaded.set_value();
    });
  });
  try {
    loaded.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Scorer::~Scorer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

SampleBlock Scorer::rows_of(const predict::SampleArrays& samples) const {
  rows_->check_shapes(samples);
  const int64_t n = samples.keys.dim(0), dense = data().dense_dim, columns = key_columns();
  SampleBlock rows{.size = n,
                   .dense = std::vector<float>(static_cast<size_t>(n * dense)),
                   .keys = std::vector<uint32_t>(static_cast<size_t>(n * columns))};
  predict::KeyCounts counts = rows_->no_counts();
  int64_t replaced = 0;
  for (int64_t i = 0; i < n; ++i)
    replaced += rows_->put(samples, i, nullptr, rows.dense.data() + i * dense,
                           rows.keys.data() + i * columns, counts);
  if (replaced > 0) metrics_.unknown_keys.Increment(static_cast<double>(replaced));
  return rows;
}

SampleBlock Scorer::rows_of(std::span<const std::string> lines) {
  const std::lock_guard lock(text_mutex_);
  const data::HostBatch& batch = text_->rows_of(lines);
  const int64_t dense = data().dense_dim, stride = data().dense_width();
  SampleBlock rows{.size = batch.size,
                   .dense = std::vector<float>(static_cast<size_t>(batch.size * dense)),
                   .keys = std::vector<uint32_t>(batch.keys.data(),
                                                 batch.keys.data() + batch.size * key_columns())};
  for (int64_t i = 0; i < batch.size; ++i)
    std::copy_n(batch.dense.data() + i * stride, dense, rows.dense.data() + i * dense);
  metrics_.unknown_keys.Increment(static_cast<double>(text_->unknown()));
  return rows;
}

bool Scorer::full() {
  const std::lock_guard lock(mutex_);
  return queued_ >= options_.max_queue;
}

bool Scorer::submit(ScoreJob& job) {
  {
    const std::lock_guard lock(mutex_);
    // A request that is larger than the whole queue may have it for itself.
    if (queued_ > 0 && queued_ + job.samples.size > options_.max_queue) return false;
    queued_ += job.samples.size;
    job.queued = Clock::now();
    queue_.push_back(std::move(job));
    metrics_.queued_samples.Set(static_cast<double>(queued_));
  }
  wake_.notify_one();
  return true;
}

void Scorer::drain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  wake_.notify_one();
}

void Scorer::open_preparation(const config::DataConfig& config,
                              std::span<const int64_t> slot_rows) {
  const std::string folder =
      checkpoint::is_checkpoint(options_.model) ? checkpoint::preparation_in(options_.model) : "";
  if (folder.empty()) return;
  preparation_ = std::make_unique<const prep::Preparation>(folder, prep::Labels::kAbsent);
  // Another model's may be on its way into the place of this one.
  const auto trained =
      data::TrainedOn::parse(checkpoint::trained_on(options_.model), options_.model);
  data::check_same_data(trained.identity, options_.model, preparation_->manifest().identity(),
                        preparation_->path(), data::OtherData::kRefuse);
  try {
    text_ = std::make_unique<prep::TextRows>(*preparation_, config, slot_rows);
  } catch (const Error& error) {  // records are served all the same
    log::info("{}: no lines of text are taken: {}", options_.model, error.what());
  }
}

std::unique_ptr<Scorer::Loaded> Scorer::load() {
  auto loaded = std::make_unique<Loaded>(
      predict::prediction_config({options_.run.config}, options_.model, options_.run.overrides,
                                 options_.max_batch),
      options_);
  predictor_ = &loaded->predictor;
  if (options_.verify) verify();
  rows_ = std::make_unique<const predict::SampleRows>(loaded->config->data,
                                                      loaded->predictor.slot_rows());
  tasks_ = loaded->predictor.tasks();
  open_preparation(loaded->config->data, loaded->predictor.slot_rows());
  // Libraries and scratch memory are ready before the first request is.
  loaded->batch.set_size(1);
  loaded->predictor.run(loaded->batch.batch(), loaded->outputs);
  return loaded;
}

void Scorer::work(const std::function<void(std::exception_ptr)>& loaded) {
  std::unique_ptr<Loaded> model;
  try {
    model = load();
  } catch (...) {
    return loaded(std::current_exception());
  }
  loaded(nullptr);
  const std::jthread populating([&](const std::stop_token& stop) {
    model->predictor.populate([&] { return stop.stop_requested(); });
  });
  for (;;) {
    std::vector<ScoreJob> jobs = take_jobs();
    if (jobs.empty()) return;
    score(*model, std::move(jobs));
  }
}

// Jobs of at most max_batch samples together, or one that is larger; none: the end.
std::vector<ScoreJob> Scorer::take_jobs() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
  if (options_.max_delay.count() > 0 && !queue_.empty())
    wake_.wait_until(lock, queue_.front().received + options_.max_delay,
                     [&] { return stop_ || draining_ || queued_ >= options_.max_batch; });
  std::vector<ScoreJob> jobs;
  for (int64_t samples = 0; !queue_.empty();) {
    samples += queue_.front().samples.size;
    if (!jobs.empty() && samples > options_.max_batch) break;
    queued_ -= queue_.front().samples.size;
    jobs.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  metrics_.queued_samples.Set(static_cast<double>(queued_));
  return jobs;
}

void Scorer::score(Loaded& loaded, std::vector<ScoreJob> jobs) {
  const auto start = Clock::now();
  std::erase_if(jobs, [&](const ScoreJob& job) {
    if (job.counted) metrics_.queue_seconds.Observe(seconds_between(job.received, start));
    if (job.deadline > start) return false;
    job.done(
        {.status = 504,
         .error = fmt::format("expected to be scored within {:.0f} ms, found a queue of {:.0f} ms",
                              1e3 * seconds_between(job.received, job.deadline),
                              1e3 * seconds_between(job.received, start))});
    return true;
  });
  std::string failure;
  int status = 500;
  Clock::duration network{};
  try {
    network = evaluate(loaded, jobs);
  } catch (const FileError& error) {  // ServedModel logs it once
    failure = error.what();
    status = 503;
  } catch (const std::exception& error) {
    failure = error.what();
    log::warning("scoring failed: {}", failure);
  }
  const auto end = Clock::now();
  const float* logit = loaded.outputs.logits.data();
  for (ScoreJob& job : jobs) {
    if (!failure.empty()) {
      job.done({.status = status, .error = failure});
      continue;
    }
    const auto before = Clock::now();
    ScoreResult result;
    result.scores.resize(static_cast<size_t>(job.samples.size * tasks_));
    std::transform(logit, logit + result.scores.size(), result.scores.begin(),
                   [&](float of) { return loaded.predictor.score_of(of); });
    logit += result.scores.size();
    result.times = {.queue = start - job.queued,
                    .input = (job.queued - job.received) + (end - start - network),
                    .infer = network,
                    .output = Clock::now() - before};
    if (job.counted) count(job, result, start, end);
    job.done(std::move(result));
  }
}

// Logits of all jobs, one after the other, in batches of at most the model's size. Returns how long
// the network took.
Clock::duration Scorer::evaluate(Loaded& loaded, const std::vector<ScoreJob>& jobs) {
  const int64_t dense = data().dense_dim, stride = data().dense_width(), columns = key_columns();
  const int64_t most = loaded.predictor.batch_size();
  loaded.outputs.clear();
  data::HostBatch& batch = loaded.batch.batch();
  int64_t filled = 0;
  Clock::duration network{};
  const auto run = [&] {
    loaded.batch.set_size(filled);
    const auto before = Clock::now();
    loaded.predictor.run(batch, loaded.outputs);
    network += Clock::now() - before;
    if (jobs.front().counted) ++executions_;
    metrics_.batches.Increment();
    metrics_.batch_samples.Observe(static_cast<double>(filled));
    filled = 0;
  };
  for (const ScoreJob& job : jobs)
    for (int64_t i = 0; i < job.samples.size; ++i) {
      std::copy_n(job.samples.dense.data() + i * dense, dense,
                  batch.dense.data() + filled * stride);
      std::copy_n(job.samples.keys.data() + i * columns, columns,
                  batch.keys.data() + filled * columns);
      if (++filled == most) run();
    }
  if (filled > 0) run();
  return network;
}

void Scorer::count(const ScoreJob& job, const ScoreResult& result, Clock::time_point start,
                   Clock::time_point end) {
  metrics_.score_seconds.Observe(seconds_between(start, end));
  metrics_.request_seconds.Observe(seconds_between(job.received, end));
  metrics_.requests.Increment();
  metrics_.samples.Increment(static_cast<double>(job.samples.size));
  // Probabilities are not negative, as a counter must not be. Values may be.
  const double sum = std::accumulate(result.scores.begin(), result.scores.end(), 0.0);
  if (sum > 0) metrics_.score_sum.Increment(sum);
}

}  // namespace hlite::serve
