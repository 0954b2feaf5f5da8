#include "hugectr_lite/trainer/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <span>
#include <utility>

#include "data_reader/source.h"
#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/core/cuda_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/trainer/preconditions.h"
#include "hugectr_lite/trainer/rank_tensors.h"
#include "hugectr_lite/trainer/stopwatch.h"
#include "hugectr_lite/trainer/traffic.h"

namespace hlite::trainer {
namespace {

namespace fs = std::filesystem;
}  // namespace

std::string needs_cpu(const config::TrainConfig& config) {
  if (config.solver.ranks() > 1)
    return fmt::format("one rank trains on a GPU so far, and the config has {}",
                       config.solver.ranks());
  return "";
}

const cuda::Backend* choose_device(const config::TrainConfig& config, const Options& options) {
  const config::DeviceChoice device = options.device.value_or(config.solver.device);
  if (device == config::DeviceChoice::kCpu) return nullptr;
  const auto plugin = cuda::CudaPlugin::load();
  const std::string reason = needs_cpu(config);
  if (device == config::DeviceChoice::kCuda) {
    const cuda::Backend& gpu = plugin.require_device();
    if (const int id = config.solver.gpu[0][0]; id >= plugin.devices())
      raise<DeviceError>("device cuda: solver.gpu asks for device {}, and there are {} here", id,
                         plugin.devices());
    if (!reason.empty()) raise<DeviceError>("device cuda: {}; run with --device cpu", reason);
    return &gpu;
  }
  const bool fits = reason.empty() && config.solver.gpu[0][0] < plugin.devices();
  return fits ? &plugin.backend() : nullptr;
}

uint64_t resolve_seed(const config::TrainConfig& config) {
  if (config.solver.seed != 0) return config.solver.seed;
  // Below 2^63, so that a printed seed can be put into a config.
  std::random_device entropy;
  return (uint64_t{entropy()} << 32 | entropy()) >> 1;
}

int resolve_threads(const config::TrainConfig& config, const Options& options) {
  if (options.threads > 0) return options.threads;
  return config.solver.threads > 0 ? config.solver.threads : available_threads();
}

Trainer::Trainer(const config::TrainConfig& config, const Options& options, RankOptions rank)
    : config_(config),
      options_(options),
      ranks_(rank.ranks),
      pool_(rank.threads),
      metrics_("", false),
      progress_(options.quiet || ranks_.rank != 0) {
  if (ranks_.rank == 0) {
    check_can_write("--save", options.save);
    if (!options.save.empty()) checkpoint::check_checkpoint_place(options.save);
    check_can_write("--export", options.export_path);
    check_can_write("--metrics", options.metrics);
    check_can_write("solver.snapshot_prefix", snapshot_path(0));
  }
  if (!options.resume.empty()) {
    resumed_ =
        std::make_unique<checkpoint::CheckpointMeta>(checkpoint::read_manifest(options.resume));
    check_same_run(config, *resumed_, options.resume);
  }
  seed_ = agree_on_seed();
  if (rank.gpu) rank.gpu->use_device(config.solver.gpu[0][0]);
  for (const LayerPlacement& p : rank.placements) progress_.line(p.explanation);
  model_ = std::make_unique<Model>(config, seed_, pool_.threads(),
                                   ModelRanks{.context = ranks_,
                                              .placements = std::move(rank.placements),
                                              .wants_to_stop = InterruptGuard::requested},
                                   rank.gpu);
  open_data();
  if (ranks_.rank == 0) metrics_ = MetricsFile(options.metrics, /*append=*/resumed_ != nullptr);
}

Trainer::~Trainer() {
  if (model_) model_->release_input();  // the sources' memory goes before the model
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
  options.shard = {ranks_.rank, ranks_.ranks()};
  source_ =
      data::open_source(config_.data, config_.resolve(config_.data.source), data::Split::kTrain,
                        config_.solver.batchsize, model_->slot_rows(), options);
  last_iteration_ = config_.solver.max_iter
                        ? *config_.solver.max_iter
                        : *config_.solver.num_epochs * source_->batches_per_epoch();
  if (config_.solver.eval_interval > 0)
    evaluator_ = std::make_unique<Evaluator>(config_, *model_, exec(), ranks_);
}

void Trainer::restore() {
  if (!resumed_) model_->initialize(exec());
  std::vector<checkpoint::TensorRef> weights;
  if (const std::string path = resumed_ ? checkpoint::weights_file(options_.resume) : options_.init;
      !path.empty()) {
    const ReadFile file(path);
    const checkpoint::SafetensorsReader reader(file);
    model_->make_room(reader);
    weights = model_->weights();
    // A table without keys has all of them.
    std::erase_if(weights, [&](const checkpoint::TensorRef& t) {
      return t.dtype == checkpoint::DType::kU32 && reader.find(t.name) == nullptr;
    });
  }
  if (resumed_) {
    checkpoint::load_checkpoint(options_.resume, *resumed_, weights, model_->states());
    iteration_ = resumed_->iteration;
    samples_ = resumed_->samples;
    model_->set_step(iteration_);
    if (resumed_->loss_scale > 0) {
      auto scale = optimizer::loss_scale_from(static_cast<float>(resumed_->loss_scale));
      scale.good = static_cast<int32_t>(resumed_->loss_scale_good);
      model_->set_dynamic_loss_scale(scale);
    }
    progress_.line(fmt::format("resumed {} at iteration {}", options_.resume, iteration_));
  } else if (!options_.init.empty()) {
    checkpoint::load_weights(options_.init, weights);
  }
  model_->weights_changed();
}

int Trainer::run() {
  const auto start = Clock::now();
  model_->compile();
  model_->allocate();
  if (evaluator_) evaluator_->allocate();
  restore();
  progress_.line(fmt::format(
      "training {} of {} samples in batches of {}, {} iterations, {}{} threads, seed {}",
      config_.data.source, source_->samples(), config_.solver.batchsize,
      std::max<int64_t>(0, last_iteration_ - iteration_),
      ranks_.ranks() > 1 ? fmt::format("{} ranks x ", ranks_.ranks()) : "", pool_.threads(),
      seed_));
  if (!model_->on_gpu() && config_.solver.precision != FloatType::kFloat)
    progress_.line(fmt::format("in fp32: solver.precision {} is for a GPU",
                               float_type_name(config_.solver.precision)));
  const Reason reason = loop();
  if (reason == Reason::kInterrupted) {
    check_weights();
    save(options_.save.empty() ? snapshot_path(iteration_) : options_.save);
  } else if (!options_.save.empty()) {
    save(options_.save);
  }
  if (!options_.export_path.empty() && reason != Reason::kInterrupted) {
    write_collected(exec(), ranks_, {model_->weights()}, [&](const auto& lists) {
      checkpoint::save_weights(options_.export_path, lists[0]);
    });
    progress_.line(fmt::format("exported the weights to {}", options_.export_path));
  }
  const double rate = train_seconds_ > 0 ? static_cast<double>(run_samples_) / train_seconds_ : 0;
  const char* names[] = {"max_iter", "target", "interrupted"};
  report_traffic();
  metrics_.end({iteration_, samples_, seconds_since(start), rate, peak_resident_bytes(),
                names[static_cast<int>(reason)]});
  progress_.line(fmt::format("done after {} iterations ({}): {} samples in {}, {:.0f} samples/s",
                             iteration_, names[static_cast<int>(reason)], run_samples_,
                             duration_text(seconds_since(start)), rate));
  const std::string verdict = waiting_verdict(train_seconds_, source_->wait_seconds(),
                                              source_->bytes_read(), source_->decode_seconds());
  if (!verdict.empty()) progress_.line(verdict);
  return reason == Reason::kInterrupted ? kExitInterrupted : kExitDone;
}

void Trainer::report_traffic() {
  if (ranks_.ranks() == 1) return;
  const TrafficReport report =
      collect_traffic(exec(), *model_, ranks_, eval_traffic_, iteration_ - first_iteration_,
                      config_.solver.batchsize);
  metrics_.traffic(report.json());
  if (options_.traffic && ranks_.rank == 0) fmt::print("{}", report.text());
}

Trainer::Reason Trainer::loop() {
  const auto& solver = config_.solver;
  ProgressState state;
  state.iter = iteration_;
  state.last_iter = last_iteration_;
  const auto start = Clock::now();
  const auto measure = [&] {
    const double now = seconds_since(start);
    state.samples_per_s = rates_.samples_per_second(now, run_samples_);
    state.wait_share = rates_.wait_share(now, source_->wait_seconds());
    const auto left = static_cast<double>((last_iteration_ - iteration_) * solver.batchsize);
    state.eta_seconds = run_samples_ > 0
                            ? left * rates_.total_seconds(now) / static_cast<double>(run_samples_)
                            : INFINITY;
  };
  first_iteration_ = iteration_;
  rates_.resume(seconds_since(start));
  Reason reason = Reason::kMaxIter;
  while (iteration_ < last_iteration_) {
    train_one();
    const bool due = progress_.due(),
               display = solver.display > 0 && iteration_ % solver.display == 0;
    const bool evaluate = evaluator_ && iteration_ % solver.eval_interval == 0;
    const bool snapshot = solver.snapshot > 0 && iteration_ % solver.snapshot == 0;
    // Looking at a GPU's numbers waits for them. An evaluation's are taken when an iteration's
    // number says so, never for being ready or for a person watching: runs repeat.
    const bool moment = display || evaluate || snapshot || iteration_ == last_iteration_;
    if (moment) report_evaluation(state);
    if (!model_->on_gpu() || due || moment) look(state);
    if (moment) check_weights();
    if (due) {
      measure();
      progress_.redraw(state);
    }
    if (display) {
      measure();
      progress_.display(state);
      metrics_.train({iteration_, state.loss, state.lr, state.samples_per_s, state.wait_share});
      rates_.start_lap(seconds_since(start), run_samples_, source_->wait_seconds());
    }
    bool stop = model_->stop_requested();
    if ((evaluate || snapshot) && !stop) {
      rates_.pause(seconds_since(start));
      if (evaluate && this->evaluate(state)) {
        reason = Reason::kTarget;
        break;
      }
      stop = agree_to_stop();
      if (snapshot) report_evaluation(state);
      if (snapshot && !stop) save(snapshot_path(iteration_));
      rates_.resume(seconds_since(start));
    }
    if (stop) {
      reason = Reason::kInterrupted;
      break;
    }
  }
  rates_.pause(seconds_since(start));
  report_evaluation(state);
  train_seconds_ = rates_.total_seconds(seconds_since(start));
  return reason;
}

bool Trainer::evaluate(ProgressState& state) {
  const auto before = model_->traffic();
  const bool whole = evaluator_->start([this] { return agree_to_stop(); });
  const auto after = model_->traffic();
  if (eval_traffic_.empty())
    for (const StepTraffic& step : before) eval_traffic_.push_back({step.step, {}});
  for (size_t i = 0; i < after.size(); ++i)
    eval_traffic_[i].totals += after[i].totals - before[i].totals;
  if (!whole) return false;  // interrupted: no result
  evaluated_ = iteration_;
  // Training goes on beside the metrics, unless they decide whether it does.
  if (evaluator_->beside_training() && !config_.solver.auc_target) return false;
  return report_evaluation(state);
}

bool Trainer::report_evaluation(ProgressState& state) {
  if (!evaluated_) return false;
  const int64_t iteration = *std::exchange(evaluated_, std::nullopt);
  const EvalResult result = evaluator_->finish();
  state.auc = result.auc;
  metrics_.eval(iteration, result);
  progress_.line(
      fmt::format("iter {}  evaluation: AUC {}  loss {:.5f}  {} samples in {:.2f} s", iteration,
                  result.auc ? fmt::format("{:.5f}", *result.auc) : "undefined (one class only)",
                  result.loss, result.samples, result.seconds));
  const auto& target = config_.solver.auc_target;
  if (!target || !result.auc || *result.auc < *target) return false;
  progress_.line(fmt::format("the target AUC of {} is reached", *target));
  return true;
}

// Samples of all ranks in the batch of which this is one rank's part.
int64_t Trainer::global_size(const data::HostBatch& batch) const {
  const int64_t full = config_.solver.batchsize;
  return std::min(full, source_->samples() - batch.first_sample / full * full);
}

void Trainer::train_one() {
  model_->wait_for_input();
  const data::HostBatch& batch = source_->next();
  const int64_t size = global_size(batch);
  model_->train(
      {.exec = exec(),
       .batch = batch.size,
       .input = {batch.labels.data(), batch.dense.data(), batch.keys.data(), batch.memory},
       .global_batch = size,
       .first_row = batch.first_sample % config_.solver.batchsize});
  ++iteration_;
  samples_ += size;
  run_samples_ += size;
  last_batch_ = {batch.first_sample, batch.size};
}

std::string Trainer::snapshot_path(int64_t iteration) const {
  const fs::path prefix(config_.solver.snapshot_prefix);
  const fs::path place = prefix.is_absolute() ? prefix : fs::path(config_.directory) / prefix;
  return place.lexically_normal().string() + std::to_string(iteration);
}

void Trainer::save(const std::string& directory) {
  const auto start = Clock::now();
  checkpoint::CheckpointMeta meta;
  meta.iteration = iteration_;
  meta.samples = samples_;
  meta.data_position = source_->position();
  meta.seed = seed_;
  meta.config = config_.root.dump();
  if (const auto scale = model_->dynamic_loss_scale()) {
    meta.loss_scale = static_cast<double>(scale->scale);
    meta.loss_scale_good = scale->good;
  }
  write_collected(exec(), ranks_, {model_->weights(), model_->states()}, [&](const auto& lists) {
    checkpoint::save_checkpoint(directory, meta, lists[0], lists[1]);
  });
  progress_.line(fmt::format("saved {} after iteration {} in {:.2f} s", directory, iteration_,
                             seconds_since(start)));
}

}  // namespace hlite::trainer
