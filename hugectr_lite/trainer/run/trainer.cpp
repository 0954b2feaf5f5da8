#include "hugectr_lite/trainer/run/trainer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "data_reader/open_source.h"
#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/run/html_report.h"
#include "hugectr_lite/trainer/run/links_report.h"
#include "hugectr_lite/trainer/run/metrics_file.h"
#include "hugectr_lite/trainer/run/mllog_file.h"
#include "hugectr_lite/trainer/run/preconditions.h"
#include "hugectr_lite/trainer/run/rank_tensors.h"
#include "hugectr_lite/trainer/run/resources.h"
#include "hugectr_lite/trainer/run/tensorboard_file.h"

namespace hlite::trainer {

RankOptions one_rank(const config::TrainConfig& config, const Options& options) {
  if (config.solver.ranks() > 1)
    raise<ConfigError>("solver.gpu: expected one rank, found {}", config.solver.ranks());
  // Before the result is begun: where an initializer of an aggregate throws, GCC 12 destroys the
  // members before it twice.
  const int threads = resolve_threads(config, options);
  const cuda::Backend* const gpu = choose_device(config, options);
  return {.threads = threads, .gpu = gpu};
}

Trainer::Trainer(const config::TrainConfig& config, const Options& options, RankOptions rank)
    : config_(config),
      options_(options),
      ranks_(rank.ranks),
      pool_(rank.threads),
      watch_(config.solver.evaluation),
      progress_(options.quiet || ranks_.rank != 0) {
  if (ranks_.rank == 0) check_places(config, options);
  if (!options.resume.empty()) {
    resumed_ =
        std::make_unique<checkpoint::CheckpointMeta>(checkpoint::read_manifest(options.resume));
    check_same_run(config, *resumed_, options.resume);
  }
  if (ranks_.rank == 0) open_records();
  seed_ = agree_on_seed();
  if (rank.gpu) rank.gpu->use_device(gpu_of(config.solver, ranks_));
  if (ranks_.devices && ranks_.rank == 0) tell_links(*rank.gpu, *ranks_.devices, progress_);
  for (const LayerPlacement& p : rank.placements) progress_.line(p.explanation);
  model_ = std::make_unique<Model>(config, seed_, pool_.threads(),
                                   ModelRanks{.context = ranks_,
                                              .placements = std::move(rank.placements),
                                              .wants_to_stop = InterruptGuard::requested},
                                   rank.gpu);
  last_iteration_ = config_.solver.max_iter.value_or(0);
  if (options_.without_data) return;
  open_data();
  if (config_.solver.evaluates()) open_evaluation();
  if (!config_.data.test_source.empty())
    tester_ = std::make_unique<Evaluator>(config_, test_set(config_), *model_, exec(), ranks_);
}

// Early: a benchmark's log says when the run's preparation began.
void Trainer::open_records() {
  if (!options_.mllog.empty())
    records_.add(std::make_unique<MllogFile>(options_.mllog, config_,
                                             parse_submission(options_.submission)));
  if (!options_.metrics.empty())
    records_.add(std::make_unique<MetricsFile>(options_.metrics, /*append=*/resumed_ != nullptr));
  if (!options_.tensorboard.empty())
    records_.add(std::make_unique<TensorboardFile>(options_.tensorboard));
  if (!options_.report.empty())
    records_.add(std::make_unique<HtmlReport>(options_.report, config_));
}

uint64_t Trainer::agree_on_seed() {
  uint64_t seed = resumed_ ? resumed_->seed : resolve_seed(config_);
  if (ranks_.ranks() > 1)
    ranks_.world->broadcast(exec(), std::as_writable_bytes(std::span(&seed, 1)), 0);
  return seed;
}

bool Trainer::agree_to_stop() {
  float wanted = InterruptGuard::requested() ? 1 : 0;
  if (ranks_.ranks() > 1) ranks_.world->all_reduce(exec(), {&wanted, 1});
  return wanted > 0;
}

void Trainer::open_data() {
  data::SourceOptions options;
  options.start_batch = resumed_ ? resumed_->data_position : 0;
  options.seed = seed_;
  options.shuffle = config_.data.shuffle;
  options.shuffle_samples = config_.data.shuffle_samples;
  options.shard = {ranks_.rank, ranks_.ranks()};
  source_ =
      data::open_source(config_.data, config_.resolve(config_.data.source), data::Split::kTrain,
                        config_.solver.batchsize, model_->layers().slot_rows, options);
  last_iteration_ = config_.solver.max_iter
                        ? *config_.solver.max_iter
                        : *config_.solver.num_epochs * source_->batches_per_epoch();
}

void Trainer::open_evaluation() {
  evaluator_ =
      std::make_unique<Evaluator>(config_, evaluation_set(config_), *model_, exec(), ranks_);
}

void Trainer::start() {
  model_->compile(exec());
  model_->allocate();
  if (source_) pinned_ = PinnedBlocks(model_->gpu(), source_->memory());
  if (evaluator_) evaluator_->allocate();
  restore();
  first_iteration_ = iteration_;
  if (options_.report.empty()) return;
  step_seconds_.resize(model_->train_plan().steps().size());
  if (!model_->executor().measure(model_->train_plan(), step_seconds_)) step_seconds_.clear();
}

std::optional<StepsEvent> Trainer::step_times() {
  const int64_t iterations = iteration_ - first_iteration_;
  if (step_seconds_.empty() || iterations == 0) return std::nullopt;
  constexpr int kTimes = 3;
  constexpr int64_t kCopied = int64_t{16} << 20;
  StepsEvent event{.iterations = iterations,
                   .steps = {},
                   .rates = measure_rates(exec(), kTimes, kCopied),
                   .device = fmt::format("CPU, {} threads a rank", pool_.threads())};
  const plan::Plan& plan = model_->train_plan();
  const plan::WorkSize size = model_->train_size();
  for (size_t i = 0; i < step_seconds_.size(); ++i) {
    const plan::Step& step = plan.steps()[i];
    const plan::StepWork work = work_of(plan, step, size);
    event.steps.push_back({.name = step.name,
                           .lane = plan::lane_name(step.lane),
                           .seconds = step_seconds_[i] / static_cast<double>(iterations),
                           .flops = work.flops,
                           .bytes = work.bytes,
                           .exchange = step.lane == plan::Lane::kComm,
                           .sent = work.in_node + work.between});
    // What others who use the machine took from the measurement, a step may have had.
    if (const StepTime& t = event.steps.back(); t.seconds > 0)
      event.rates.flops = std::max(event.rates.flops, t.flops / t.seconds);
  }
  return event;
}

void Trainer::restore() {
  if (!resumed_) initialize(*model_);
  if (resumed_)
    restore_state(weights_to_read(*model_, checkpoint::weights_file(options_.resume)));
  else if (!options_.init.empty())
    load_trained_weights(*model_, options_.init);
  weights_changed(*model_);
}

void Trainer::restore_state(const std::vector<TensorRef>& weights) {
  checkpoint::load_checkpoint(options_.resume, *resumed_, weights, states_of(*model_));
  iteration_ = resumed_->iteration;
  samples_ = resumed_->samples;
  model_->rates().set_iterations(iteration_);
  model_->rates().set_scale(resumed_->rate_scale);
  watch_.restore(resumed_->plateau, resumed_->early_stop);
  best_weights_ = checkpoint::best_weights_file(options_.resume, *resumed_);
  if (resumed_->loss_scale > 0) {
    auto scale = optimizer::loss_scale_from(static_cast<float>(resumed_->loss_scale));
    scale.good = static_cast<int32_t>(resumed_->loss_scale_good);
    model_->loss_scaling().set_dynamic_state(scale);
  }
  progress_.line(fmt::format("resumed {} at iteration {}", options_.resume, iteration_));
}

// Samples of all ranks in the batch of which this is one rank's part.
int64_t Trainer::global_size(const data::HostBatch& batch) const {
  const int64_t full = config_.solver.batchsize;
  return std::min(full, source_->samples() - batch.first_sample / full * full);
}

void Trainer::expect_data() const {
  if (options_.without_data)
    raise<ConfigError>(
        "{}: expected data, found a trainer that was made without (its samples come "
        "by step(batch))",
        config_.data.name);
}

void Trainer::step() {
  expect_data();
  model_->executor().wait_for_input();
  const data::HostBatch& batch = source_->next();
  train_on(batch, global_size(batch));
}

void Trainer::step(const data::HostBatch& batch) {
  HLITE_CHECK(ranks_.ranks() == 1, "{} ranks", ranks_.ranks());
  train_on(batch, batch.size);
  model_->executor().wait_for_input();
}

// `size`: samples of all ranks.
void Trainer::train_on(const data::HostBatch& batch, int64_t size) {
  model_->train({.batch = batch.size,
                 .input = input_of(batch),
                 .global_batch = size,
                 .first_row = batch.first_sample % config_.solver.batchsize});
  ++iteration_;
  samples_ += size;
  last_batch_ = {batch.first_sample, batch.size};
}

double Trainer::loss() {
  const float loss = loss_of(*model_);
  check_keys(*model_);
  return loss;
}

double Trainer::learning_rate() { return model_->rates().last_dense_rate(); }

std::optional<EvalResult> Trainer::evaluate() {
  expect_data();
  if (!evaluator_) {
    open_evaluation();
    evaluator_->allocate();
  }
  if (!start_evaluation()) return std::nullopt;
  return finish_evaluation();
}

bool Trainer::start_evaluation() {
  const MovedData before = moved_data(*model_);
  const bool whole = evaluator_->start([this] { return agree_to_stop(); });
  add_moved(moved_in_evaluations_, before, moved_data(*model_));
  return whole;
}

EvalResult Trainer::finish_evaluation() { return evaluator_->finish(); }

TrafficReport Trainer::traffic() {
  model_->settle();
  return collect_traffic(exec(), *model_, ranks_, moved_in_evaluations_,
                         iteration_ - first_iteration_, config_.solver.batchsize);
}

bool Trainer::heed(const EvalResult& result) {
  const WatchVerdict verdict = watch_.see(result);
  const config::EvaluationConfig& evaluation = config_.solver.evaluation;
  if (verdict.keep) {
    const std::string path = snapshot_path(config_, "best.safetensors");
    model_->settle();
    write_collected(exec(), ranks_, {weights_of(*model_)},
                    [&](const auto& lists) { checkpoint::save_weights(path, lists[0]); });
    best_weights_ = path;
  }
  if (verdict.cut && !verdict.stop) {
    LearningRates& rates = model_->rates();
    const double base = config_.optimizer.schedule.base;
    rates.set_scale(watch_.next_scale(rates.scale(), base));
    progress_.line(
        fmt::format("{} is not better than {:.6f}: learning rates times {:g} from now on",
                    evaluation.lr_plateau->watch.monitor, watch_.plateau().value, rates.scale()));
  }
  if (verdict.stop)
    progress_.line(fmt::format("{} has not been better than {:.6f} for {} evaluations: the end",
                               evaluation.early_stop->monitor, watch_.early_stop().value,
                               watch_.early_stop().waited));
  return verdict.stop;
}

void Trainer::restore_best() {
  if (best_weights_.empty()) return;
  model_->settle();
  checkpoint::load_weights(best_weights_, weights_to_read(*model_, best_weights_));
  weights_changed(*model_);
  progress_.line(fmt::format("the best weights are back, of an evaluation with {} {:.6f}: {}",
                             config_.solver.evaluation.early_stop->monitor,
                             watch_.early_stop().value, best_weights_));
}

EvalResult Trainer::test() {
  model_->settle();
  tester_->allocate();
  tester_->start();
  return tester_->finish();
}

void Trainer::save(const std::string& directory) {
  const auto start = Clock::now();
  model_->settle();
  const checkpoint::CheckpointMeta meta = this->meta();
  write_collected(
      exec(), ranks_, {weights_of(*model_), states_of(*model_)},
      [&](const auto& lists) { checkpoint::save_checkpoint(directory, meta, lists[0], lists[1]); });
  progress_.line(fmt::format("saved {} after iteration {} in {:.2f} s", directory, iteration_,
                             seconds_since(start)));
}

checkpoint::CheckpointMeta Trainer::meta() {
  checkpoint::CheckpointMeta meta;
  meta.iteration = iteration_;
  meta.samples = samples_;
  meta.data_position = source_ ? source_->position() : 0;
  meta.seed = seed_;
  meta.config = config_.root.dump();
  if (const auto scale = model_->loss_scaling().dynamic_state()) {
    meta.loss_scale = static_cast<double>(scale->scale);
    meta.loss_scale_good = scale->good;
  }
  meta.rate_scale = model_->rates().scale();
  meta.plateau = watch_.plateau();
  meta.early_stop = watch_.early_stop();
  meta.best_weights = best_weights_;
  return meta;
}

void Trainer::export_weights(const std::string& path) {
  model_->settle();
  write_collected(exec(), ranks_, {weights_of(*model_)},
                  [&](const auto& lists) { checkpoint::save_weights(path, lists[0]); });
  progress_.line(fmt::format("exported the weights to {}", path));
}

}  // namespace hlite::trainer
