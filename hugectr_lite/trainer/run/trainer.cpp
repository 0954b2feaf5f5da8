#include "hugectr_lite/trainer/run/trainer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "data_reader/open_source.h"
#include "data_reader/shuffled_source.h"
#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/model/non_finite_search.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "hugectr_lite/trainer/report/html_report.h"
#include "hugectr_lite/trainer/report/metrics_file.h"
#include "hugectr_lite/trainer/report/mllog_file.h"
#include "hugectr_lite/trainer/report/tensorboard_file.h"
#include "hugectr_lite/trainer/run/links_report.h"
#include "hugectr_lite/trainer/run/preconditions.h"
#include "hugectr_lite/trainer/run/training_data.h"

namespace hlite::trainer {

RankOptions one_rank(const config::TrainConfig& config, const Options& options) {
  if (config.solver.ranks() > 1)
    raise<ConfigError>("solver.gpu: expected one rank, found {}", config.solver.ranks());
  // Before the result is begun: where an initializer of an aggregate throws, GCC 12 destroys the
  // members before it twice.
  const int threads = resolve_threads(config, options.threads);
  const cuda::Backend* const gpu = choose_device(config, options.device);
  if (gpu) gpu->use_device(config.solver.gpu[0][0]);
  RowMemoryDecision memory = require_memory({.config = config,
                                             .without_data = options.without_data,
                                             .save = options.save,
                                             .threads = threads,
                                             .gpu = gpu});
  return {.memory = std::move(memory), .threads = threads, .gpu = gpu};
}

Trainer::Trainer(const config::TrainConfig& config, const Options& options, RankOptions rank)
    : run_(config, options, rank.ranks, rank.threads) {
  check_inputs();
  agree_on_start();
  make_model(std::move(rank));
  run_.last_iteration = config.solver.max_iter.value_or(0);
  if (options.without_data) return;
  open_data();
  evaluations_.open();
}

void Trainer::check_inputs() {
  const config::TrainConfig& config = run_.config;
  const Options& options = run_.options;
  if (run_.ranks.rank == 0) {
    run_.outputs.emplace(config, options);
    for (const std::string& warning : path_warnings(config)) log::warning("{}", warning);
  }
  if (!options.resume.empty()) {
    run_.resumed =
        std::make_unique<checkpoint::CheckpointMeta>(checkpoint::read_manifest(options.resume));
    run_.resumed_weights = checkpoint::weights_in(options.resume, *run_.resumed);
    if (check_same_run(config, *run_.resumed, options))
      checkpoint::forget_evaluations(*run_.resumed);
  }
  if (run_.ranks.rank != 0) return;
  data::TrainedOn data;
  if (!options.without_data) data = check_training_data(config, options);
  const ModelData checked = check_model_data(std::move(data), options, config.data.follow);
  check_rows_fit(config, options);
  run_.trained_on = checked.on;
  run_.new_data = checked.new_data;
  if (options.with_preparation) run_.preparation = preparation_of(config);
  open_records();
}

// Early: a benchmark's log says when the run's preparation began.
void Trainer::open_records() {
  if (!run_.options.mllog.empty())
    run_.records.add(std::make_unique<MllogFile>(run_.options.mllog, run_.config,
                                                 parse_submission(run_.options.submission)));
  if (!run_.options.metrics.empty())
    run_.records.add(
        std::make_unique<MetricsFile>(run_.options.metrics, /*append=*/run_.resumed != nullptr));
  if (!run_.options.tensorboard.empty())
    run_.records.add(std::make_unique<TensorboardFile>(run_.options.tensorboard));
  if (!run_.options.report.empty())
    run_.records.add(std::make_unique<HtmlReport>(run_.options.report, run_.config));
  if (run_.options.record) run_.records.add(run_.options.record);
}

// Broadcasts what rank 0 alone knows or draws.
void Trainer::agree_on_start() {
  uint64_t agreed[] = {run_.resumed ? run_.resumed->seed : resolve_seed(run_.config),
                       run_.new_data ? 1u : 0u};
  if (run_.ranks.ranks() > 1)
    run_.ranks.world->broadcast(run_.exec(), std::as_writable_bytes(std::span(agreed)), 0);
  run_.seed = agreed[0];
  run_.new_data = agreed[1] != 0;
  if (run_.new_data) checkpoint::forget_evaluations(*run_.resumed);
  if (run_.config.solver.keep_checkpoints == 0) return;
  run_.number = run_.resumed ? run_.resumed->run : 0;
  while (run_.number == 0) run_.number = random_word();
}

void Trainer::make_model(RankOptions rank) {
  if (rank.gpu) rank.gpu->use_device(gpu_of(run_.config.solver, run_.ranks));
  if (run_.ranks.devices && run_.ranks.rank == 0)
    report_links(*rank.gpu, *run_.ranks.devices, run_.progress);
  for (const LayerPlacement& p : rank.placements) run_.progress.line(p.explanation);
  run_.memory_lines = rank.memory.lines;
  for (const std::string& line : run_.memory_lines) run_.progress.line(line);
  if (run_.ranks.rank == 0)
    for (const std::string& warning : rank.memory.warnings) log::warning("{}", warning);
  run_.model = std::make_unique<Model>(run_.config, run_.seed, run_.pool.threads(),
                                       ModelRanks{.context = run_.ranks,
                                                  .placements = std::move(rank.placements),
                                                  .stop_request = InterruptGuard::requested,
                                                  .tiers = std::move(rank.memory.tiers)},
                                       rank.gpu);
  for (const LayerTiers& tiers : tiers_of(*run_.model))
    for (const std::string& line : tier_texts(tiers)) run_.progress.line(line);
}

void Trainer::open_data() {
  if (run_.config.data.follow) return files_.open_folder();
  data::SourceOptions options;
  options.start_batch = run_.resumed && !run_.new_data ? run_.resumed->data_position : 0;
  run_.earlier_iterations = run_.resumed ? run_.resumed->iteration - options.start_batch : 0;
  options.seed = run_.seed;
  options.shuffle = run_.config.data.shuffle;
  options.shuffle_samples = run_.config.data.shuffle_samples;
  options.shard = {run_.ranks.rank, run_.ranks.ranks()};
  run_.source = data::open_source(run_.config.data, run_.config.resolve(run_.config.data.source),
                                  data::Split::kTrain, run_.config.solver.batchsize,
                                  run_.model->layers().slot_rows, options);
  run_.last_iteration = run_.config.solver.max_iter
                            ? *run_.config.solver.max_iter
                            : run_.earlier_iterations +
                                  *run_.config.solver.num_epochs * run_.source->batches_per_epoch();
}

void Trainer::start() {
  run_.model->compile(run_.exec());
  run_.model->allocate();
  if (run_.source) run_.pinned = PinnedBlocks(run_.model->gpu(), run_.source->memory());
  evaluations_.allocate();
  restore();
  counts_.begin();
  vocabularies_.begin();
  const auto weights = weights_of(*run_.model), states = states_of(*run_.model);  // collective
  if (run_.outputs)
    run_.outputs->check_free_space(weights, states, run_.iteration, run_.last_iteration);
}

void Trainer::restore() {
  if (!run_.resumed || run_.new_data) initialize(*run_.model);
  if (run_.resumed)
    restore_state();
  else if (!run_.options.init.empty())
    load_trained_weights(*run_.model, run_.options.init);
  weights_changed(*run_.model);
}

void Trainer::restore_state() {
  const std::string last =
      checkpoint::weights_in(run_.options.resume, *run_.resumed, checkpoint::Which::kLast).path;
  const ReadFile states_file(checkpoint::last_states_file(run_.options.resume));
  const auto weights = weights_to_read(*run_.model, ReadFile(last), &states_file);
  const auto states = states_to_read(*run_.model, states_file, run_.resumed->iteration);
  checkpoint::load_checkpoint(
      run_.options.resume, *run_.resumed, weights, states,
      run_.new_data ? checkpoint::TableSizes::kMayGrow : checkpoint::TableSizes::kSame);
  run_.iteration = run_.resumed->iteration;
  run_.samples = run_.resumed->samples;
  run_.model->rates().set_iterations(run_.iteration);
  run_.model->rates().set_scale(run_.resumed->rate_scale);
  if (run_.resumed->loss_scale > 0) {
    auto scale = optimizer::loss_scale_from(static_cast<float>(run_.resumed->loss_scale));
    scale.good = static_cast<int32_t>(run_.resumed->loss_scale_good);
    run_.model->loss_scaling().set_dynamic_state(scale);
  }
  run_.progress.line(fmt::format("resumed {} at iteration {}{}", run_.options.resume,
                                 run_.iteration,
                                 run_.new_data ? ", at the start of new data" : ""));
}

// Samples of all ranks in the batch of which this is one rank's part.
int64_t Trainer::global_size(const data::HostBatch& batch) const {
  const int64_t full = run_.config.solver.batchsize;
  return std::min(full, run_.source->samples() - batch.first_sample / full * full);
}

void Trainer::step() {
  run_.expect_data();
  if (files_.at_end())
    raise<ConfigError>(
        "{}.follow: expected a run that goes on to the next file by itself, found "
        "single steps beyond the end of one",
        run_.config.data.name);
  run_.model->executor().wait_for_input();
  const data::HostBatch& batch = run_.source->next();
  train_on(batch, global_size(batch), run_.source->ready());
}

void Trainer::step(const data::HostBatch& batch) {
  HLITE_CHECK(run_.ranks.ranks() == 1, "{} ranks", run_.ranks.ranks());
  train_on(batch, batch.size, nullptr);
  run_.model->executor().wait_for_input();
}

// `size`: samples of all ranks.
void Trainer::train_on(const data::HostBatch& batch, int64_t size, const data::HostBatch* next) {
  run_.model->train({.batch = batch.size,
                     .iteration = run_.iteration + 1,
                     .input = input_of(batch, next),
                     .global_batch = size,
                     .first_row = batch.first_sample % run_.config.solver.batchsize});
  ++run_.iteration;
  run_.samples += size;
  last_batch_ = {batch.first_sample, batch.size};
  vocabularies_.evict_after_iteration();
}

double Trainer::batch_loss() {
  const float loss = loss_of(*run_.model);
  check_keys(*run_.model);
  return loss;
}

std::optional<int64_t> Trainer::replaced_keys() {
  if (!run_.config.data.key_policy.replaces()) return std::nullopt;
  return comm::sum_over_ranks(run_.ranks, run_.source->replaced_keys());
}

void Trainer::check_loss() {
  if (const double found = batch_loss(); !std::isfinite(found))
    fail_non_finite(fmt::format("expected a finite loss, found {}", found));
}

void Trainer::check_weights() {
  const auto bad = find_non_finite_weight(*run_.model);
  const bool found = !bad.tensor.empty();
  // A problem may be one rank's own: all end, or none.
  if (const int speaker = first_of_ranks(found); speaker >= 0)
    fail_non_finite(found ? fmt::format("expected finite weights, found {} in \"{}\", element {}",
                                        bad.value, bad.tensor, bad.element)
                          : fmt::format("rank {} found weights that are not finite", speaker),
                    speaker);
  if (const auto scale = run_.model->loss_scaling().dynamic_state(); scale && scale->lost > 0)
    fail_non_finite(
        fmt::format("expected finite gradients at a loss scale of {:g}, found others in {} "
                    "iterations",
                    static_cast<double>(optimizer::kMinLossScale), scale->lost));
}

// The first rank for which it is true, or -1 for none. Collective.
int Trainer::first_of_ranks(bool mine) {
  if (run_.ranks.ranks() == 1) return mine ? 0 : -1;
  const char own = mine ? 1 : 0;
  std::vector<char> all(static_cast<size_t>(run_.ranks.ranks()));
  run_.ranks.world->all_gather(run_.exec(), std::as_bytes(std::span(&own, 1)),
                               std::as_writable_bytes(std::span(all)));
  const auto first = std::find(all.begin(), all.end(), 1);
  return first == all.end() ? -1 : static_cast<int>(first - all.begin());
}

// The first rank that has the cause among its samples says so; where none has, `otherwise`.
void Trainer::fail_non_finite(const std::string& problem, int otherwise) {
  const auto where = find_non_finite(*run_.model, last_batch_.size);
  const int cause = first_of_ranks(!where.tensor.empty());
  // It ends in the error that the speaker throws.
  if (run_.ranks.rank != (cause < 0 ? otherwise : cause)) run_.ranks.world->barrier();
  int64_t sample = last_batch_.first_sample + where.sample;
  if (run_.config.data.shuffle_samples)
    sample = data::shuffled_sample(run_.seed,
                                   (run_.source->position() - 1) / run_.source->batches_per_epoch(),
                                   run_.source->samples(), sample);
  const std::string at =
      where.tensor.empty()
          ? "every activation is finite"
          : fmt::format("first in tensor \"{}\" of layer \"{}\", sample {} of {}", where.tensor,
                        where.layer, sample,
                        run_.followed ? run_.followed->path(run_.followed->file())
                                      : run_.config.resolve(run_.config.data.source));
  raise<DataError>(
      "iteration {}: {}: {}; a smaller learning rate (now {:g}), a longer warm-up, or better data "
      "may help",
      run_.iteration, problem, at, run_.model->rates().last_dense_rate());
}

}  // namespace hlite::trainer
