#include "hugectr_lite/trainer/run/trainer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "data_reader/open_source.h"
#include "hugectr_lite/checkpoint/delta.h"
#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/report/html_report.h"
#include "hugectr_lite/trainer/report/metrics_file.h"
#include "hugectr_lite/trainer/report/mllog_file.h"
#include "hugectr_lite/trainer/report/tensorboard_file.h"
#include "hugectr_lite/trainer/run/links_report.h"
#include "hugectr_lite/trainer/run/preconditions.h"
#include "hugectr_lite/trainer/run/resources.h"
#include "hugectr_lite/trainer/run/training_data.h"

namespace hlite::trainer {

RankOptions one_rank(const config::TrainConfig& config, const Options& options) {
  if (config.solver.ranks() > 1)
    raise<ConfigError>("solver.gpu: expected one rank, found {}", config.solver.ranks());
  // Before the result is begun: where an initializer of an aggregate throws, GCC 12 destroys the
  // members before it twice.
  const int threads = resolve_threads(config, options);
  const cuda::Backend* const gpu = choose_device(config, options);
  if (gpu) gpu->use_device(config.solver.gpu[0][0]);
  RowMemoryDecision memory =
      require_memory({.config = config, .options = options, .threads = threads, .gpu = gpu});
  return {.memory = std::move(memory), .threads = threads, .gpu = gpu};
}

Trainer::Trainer(const config::TrainConfig& config, const Options& options, RankOptions rank)
    : config_(config),
      options_(options),
      ranks_(rank.ranks),
      pool_(rank.threads),
      progress_(options.quiet || ranks_.rank != 0) {
  if (ranks_.rank == 0) {
    outputs_.emplace(config_, options_);
    for (const std::string& warning : path_warnings(config)) log::warning("{}", warning);
  }
  if (!options.resume.empty()) {
    resumed_ =
        std::make_unique<checkpoint::CheckpointMeta>(checkpoint::read_manifest(options.resume));
    resumed_weights_ = checkpoint::weights_in(options.resume, *resumed_);
    if (check_same_run(config, *resumed_, options)) checkpoint::forget_evaluations(*resumed_);
  }
  if (ranks_.rank == 0) {
    data::TrainedOn data;
    if (!options.without_data) data = check_training_data(config, options);
    const ModelData checked = check_model_data(std::move(data), options, config.data.follow);
    check_rows_fit(config, options);
    trained_on_ = checked.on;
    new_data_ = checked.new_data;
    if (options.with_preparation) preparation_ = preparation_of(config);
    open_records();
  }
  agree_on_start();
  if (rank.gpu) rank.gpu->use_device(gpu_of(config.solver, ranks_));
  if (ranks_.devices && ranks_.rank == 0) report_links(*rank.gpu, *ranks_.devices, progress_);
  for (const LayerPlacement& p : rank.placements) progress_.line(p.explanation);
  memory_lines_ = rank.memory.lines;
  for (const std::string& line : memory_lines_) progress_.line(line);
  if (ranks_.rank == 0)
    for (const std::string& warning : rank.memory.warnings) log::warning("{}", warning);
  model_ = std::make_unique<Model>(config, seed_, pool_.threads(),
                                   ModelRanks{.context = ranks_,
                                              .placements = std::move(rank.placements),
                                              .stop_request = InterruptGuard::requested,
                                              .tiers = std::move(rank.memory.tiers)},
                                   rank.gpu);
  for (const LayerTiers& tiers : tiers_of(*model_))
    for (const std::string& line : tier_texts(tiers)) progress_.line(line);
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
  if (options_.record) records_.add(options_.record);
}

// Leaves rows that have moved since `before` out of the counts of iterations.
void Trainer::leave_out(const std::vector<embedding::RowCacheCounts>& before) {
  const auto after = trainer::moved_rows(*model_);
  for (size_t i = 0; i < after.size(); ++i) {
    rows_outside_training_[i] += after[i];
    rows_outside_training_[i] -= before[i];
  }
}

std::optional<TablesEvent> Trainer::table_tiers() const {
  if (!config_.solver.embedding_memory) return std::nullopt;
  TablesEvent event{.iterations = iteration_ - first_iteration_,
                    .decision = memory_lines_,
                    .layers = tiers_of(*model_),
                    .moved = trainer::moved_rows(*model_)};
  for (size_t i = 0; i < rows_outside_training_.size(); ++i)
    event.moved[i] -= rows_outside_training_[i];
  return event;
}

embedding::RowCacheCounts Trainer::moved_rows() const {
  embedding::RowCacheCounts sum;
  const auto tiers = tiers_of(*model_);
  const auto moved = trainer::moved_rows(*model_);
  for (size_t i = 0; i < moved.size(); ++i) {
    if (tiers[i].is_lower) continue;
    sum += moved[i];
    if (i < rows_outside_training_.size()) sum -= rows_outside_training_[i];
  }
  return sum;
}

// Broadcasts what rank 0 alone knows or draws.
void Trainer::agree_on_start() {
  uint64_t agreed[] = {resumed_ ? resumed_->seed : resolve_seed(config_), new_data_ ? 1u : 0u};
  if (ranks_.ranks() > 1)
    ranks_.world->broadcast(exec(), std::as_writable_bytes(std::span(agreed)), 0);
  seed_ = agreed[0];
  new_data_ = agreed[1] != 0;
  if (new_data_) checkpoint::forget_evaluations(*resumed_);
  if (config_.solver.keep_checkpoints == 0) return;
  run_ = resumed_ ? resumed_->run : 0;
  while (run_ == 0) run_ = random_word();
}

bool Trainer::agree_to_stop() {
  float requests = InterruptGuard::requested() ? 1 : 0;
  if (ranks_.ranks() > 1) ranks_.world->all_reduce(exec(), {&requests, 1});
  return requests > 0;
}

void Trainer::open_data() {
  if (config_.data.follow) return open_folder();
  data::SourceOptions options;
  options.start_batch = resumed_ && !new_data_ ? resumed_->data_position : 0;
  earlier_iterations_ = resumed_ ? resumed_->iteration - options.start_batch : 0;
  options.seed = seed_;
  options.shuffle = config_.data.shuffle;
  options.shuffle_samples = config_.data.shuffle_samples;
  options.shard = {ranks_.rank, ranks_.ranks()};
  source_ =
      data::open_source(config_.data, config_.resolve(config_.data.source), data::Split::kTrain,
                        config_.solver.batchsize, model_->layers().slot_rows, options);
  last_iteration_ =
      config_.solver.max_iter
          ? *config_.solver.max_iter
          : earlier_iterations_ + *config_.solver.num_epochs * source_->batches_per_epoch();
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
  rows_outside_training_ = trainer::moved_rows(*model_);
  first_iteration_ = iteration_;
  const auto weights = weights_of(*model_), states = states_of(*model_);
  if (outputs_) outputs_->check_free_space(weights, states, iteration_, last_iteration_);
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
    // A step may have had the time that other users of the machine took from the measurement.
    if (const StepTime& t = event.steps.back(); t.seconds > 0)
      event.rates.flops = std::max(event.rates.flops, t.flops / t.seconds);
  }
  return event;
}

void Trainer::restore() {
  if (!resumed_ || new_data_) initialize(*model_);
  if (resumed_)
    restore_state();
  else if (!options_.init.empty())
    load_trained_weights(*model_, options_.init);
  weights_changed(*model_);
}

void Trainer::restore_state() {
  const std::string last =
      checkpoint::weights_in(options_.resume, *resumed_, checkpoint::Which::kLast).path;
  const ReadFile states_file(checkpoint::last_states_file(options_.resume));
  const auto weights = weights_to_read(*model_, ReadFile(last), &states_file);
  const auto states = states_to_read(*model_, states_file, resumed_->iteration);
  checkpoint::load_checkpoint(
      options_.resume, *resumed_, weights, states,
      new_data_ ? checkpoint::TableSizes::kMayGrow : checkpoint::TableSizes::kSame);
  iteration_ = evicted_ = resumed_->iteration;
  samples_ = resumed_->samples;
  model_->rates().set_iterations(iteration_);
  model_->rates().set_scale(resumed_->rate_scale);
  if (resumed_->loss_scale > 0) {
    auto scale = optimizer::loss_scale_from(static_cast<float>(resumed_->loss_scale));
    scale.good = static_cast<int32_t>(resumed_->loss_scale_good);
    model_->loss_scaling().set_dynamic_state(scale);
  }
  progress_.line(fmt::format("resumed {} at iteration {}{}", options_.resume, iteration_,
                             new_data_ ? ", at the start of new data" : ""));
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
  if (needs_file())
    raise<ConfigError>(
        "{}.follow: expected a run that goes on to the next file by itself, found "
        "single steps beyond the end of one",
        config_.data.name);
  model_->executor().wait_for_input();
  const data::HostBatch& batch = source_->next();
  train_on(batch, global_size(batch), source_->ready());
}

void Trainer::step(const data::HostBatch& batch) {
  HLITE_CHECK(ranks_.ranks() == 1, "{} ranks", ranks_.ranks());
  train_on(batch, batch.size, nullptr);
  model_->executor().wait_for_input();
}

// `size`: samples of all ranks.
void Trainer::train_on(const data::HostBatch& batch, int64_t size, const data::HostBatch* next) {
  model_->train({.batch = batch.size,
                 .iteration = iteration_ + 1,
                 .input = input_of(batch, next),
                 .global_batch = size,
                 .first_row = batch.first_sample % config_.solver.batchsize});
  ++iteration_;
  samples_ += size;
  last_batch_ = {batch.first_sample, batch.size};
  evict_rows([&](const embedding::Eviction& of) {
    return of.interval > 0 && iteration_ % of.interval == 0;
  });
}

// `due`: of the layers whose rows leave now. Shows what has become of their vocabularies.
void Trainer::evict_rows(const std::function<bool(const embedding::Eviction&)>& due) {
  VocabularyEvent event{.iter = iteration_};
  std::vector<embedding::RowCacheCounts> rows_before;
  for (const auto& layer : model_->layers().embeddings) {
    embedding::EmbeddingTables& tables = layer->tables();
    const embedding::VocabularyRules* const rules = tables.vocabulary_rules();
    if (!rules || !due(rules->eviction)) continue;
    if (event.layers.empty()) {
      model_->synchronize();
      rows_before = trainer::moved_rows(*model_);
    }
    const int64_t interval = rules->eviction.interval;
    tables.evict(iteration_, interval > 0 ? iteration_ - interval : evicted_);
    event.layers.push_back({layer->name(), tables.vocabulary()});
  }
  if (event.layers.empty()) return;
  leave_out(rows_before);
  if (ranks_.devices) ranks_.world->barrier();  // before any rank's next run
  records_.notify(&RunRecord::vocabulary, event);
  for (const std::string& line : vocabulary_texts(event)) progress_.line(line);
}

std::optional<VocabularyEvent> Trainer::vocabulary() {
  model_->synchronize();
  VocabularyEvent event{.iter = iteration_};
  for (const auto& layer : model_->layers().embeddings)
    if (layer->tables().vocabulary_rules())
      event.layers.push_back({layer->name(), layer->tables().vocabulary()});
  return event.layers.empty() ? std::nullopt : std::optional(event);
}

double Trainer::batch_loss() {
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
  const auto rows_before = trainer::moved_rows(*model_);
  const ModelTraffic before = model_traffic(*model_);
  const bool whole = evaluator_->start([this] { return agree_to_stop(); });
  add_traffic(evaluation_traffic_, before, model_traffic(*model_));
  leave_out(rows_before);
  return whole;
}

EvalResult Trainer::finish_evaluation() { return evaluator_->finish(); }

TrafficReport Trainer::traffic() {
  model_->synchronize();
  return collect_traffic(exec(), *model_, ranks_, evaluation_traffic_,
                         iteration_ - first_iteration_, config_.solver.batchsize);
}

std::optional<int64_t> Trainer::replaced_keys() {
  if (!config_.data.key_policy.replaces()) return std::nullopt;
  return comm::sum_over_ranks(ranks_, source_->replaced_keys());
}

EvalResult Trainer::test() {
  model_->synchronize();
  const auto rows_before = trainer::moved_rows(*model_);
  tester_->allocate();
  tester_->start();
  const EvalResult result = tester_->finish();
  leave_out(rows_before);
  return result;
}

void Trainer::save(const std::string& directory, const PolicyState& policy) {
  const auto start = Clock::now();
  model_->synchronize();
  const auto rows_before = trainer::moved_rows(*model_);
  evict_for_checkpoint();
  const checkpoint::CheckpointMeta meta = this->meta(policy);
  write_collected(exec(), ranks_, {weights_of(*model_), states_of(*model_)},
                  [&](const RankLists& lists) {
                    checkpoint::save_checkpoint(directory, meta, lists[0], lists[1]);
                  });
  leave_out(rows_before);
  progress_.line(fmt::format("saved {} after iteration {} in {:.2f} s", directory, iteration_,
                             seconds_since(start)));
}

void Trainer::evict_for_checkpoint() {
  if (evicted_ != iteration_)
    evict_rows([](const embedding::Eviction& of) { return of.interval == 0; });
  evicted_ = iteration_;
}

std::string Trainer::save_delta(const std::string& chain, const PolicyState& policy) {
  const auto start = Clock::now();
  HLITE_CHECK(resumed_ != nullptr, "{}: a delta without a checkpoint to begin from", chain);
  model_->synchronize();
  const auto rows_before = trainer::moved_rows(*model_);
  evict_for_checkpoint();
  checkpoint::DeltaSize size;
  std::string failure;
  std::optional<checkpoint::SafetensorsReader> best;
  if (policy.best_weights) best.emplace(*policy.best_weights);
  write_collected(
      exec(), ranks_, {best ? best->refs() : weights_of(*model_)}, [&](const auto& lists) {
        try {
          const ReadFile base(resumed_weights_.path);
          size = checkpoint::write_delta(chain, iteration_, base, *resumed_weights_.sum, lists[0]);
        } catch (const DataError& why) {  // as FileError; the other ranks wait for this one
          failure = why.what();
        }
      });
  leave_out(rows_before);
  if (!failure.empty()) return failure;
  progress_.line(
      size.was_there
          ? fmt::format("the delta of iteration {} is in {} already", iteration_, chain)
          : fmt::format(
                "saved the delta of iteration {}{} to {}: {} rows updated or added, {} removed, {} "
                "for {} of weights, in {:.2f} s",
                iteration_, best ? " (its best weights)" : "", chain, count_text(size.rows),
                count_text(size.gone), bytes_text(size.bytes), bytes_text(size.full_bytes),
                seconds_since(start)));
  return {};
}

checkpoint::CheckpointMeta Trainer::meta(const PolicyState& policy) {
  checkpoint::CheckpointMeta meta;
  meta.iteration = iteration_;
  meta.samples = samples_;
  meta.data_position = source_ ? source_->position() : 0;
  meta.seed = seed_;
  meta.run = run_;
  meta.config = config_.root.dump();
  if (const auto scale = model_->loss_scaling().dynamic_state()) {
    meta.loss_scale = static_cast<double>(scale->scale);
    meta.loss_scale_good = scale->good;
  }
  meta.rate_scale = model_->rates().scale();
  meta.plateau = policy.plateau;
  meta.early_stop = policy.early_stop;
  meta.best_weights = policy.best_weights;
  meta.trained_on = trained_on_.to_text();
  if (followed_) meta.followed = {followed_->file(), followed_->file_batches()};
  meta.preparation = preparation_;
  return meta;
}

FileSum Trainer::write_tensors(const std::string& path, const std::vector<TensorRef>& tensors) {
  model_->synchronize();
  const auto rows_before = trainer::moved_rows(*model_);
  FileSum sum;
  write_collected(exec(), ranks_, {tensors}, [&](const auto& lists) {
    sum = checkpoint::save_weights(path, lists[0], trained_on_.to_text());
  });
  leave_out(rows_before);
  return sum;
}

void Trainer::export_weights(const std::string& path) {
  std::vector<TensorRef> weights = weights_of(*model_, /*all_rows=*/true);
  for (TensorRef& t : weights)
    if (t.dtype != DType::kU32) t.dtype = DType::kF32;  // whatever the tables' precision
  write_tensors(path, weights);
  progress_.line(fmt::format("exported the weights to {}", path));
}

}  // namespace hlite::trainer
