#include "hugectr_lite/trainer/model/model.h"

#include <algorithm>

#include "hugectr_lite/core/log.h"
#include "hugectr_lite/trainer/model/make_executor.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_sizes.h"

namespace hlite::trainer {
namespace {

// Evaluation needs no more than this at a time to use a machine well.
constexpr int64_t kEvalChunk = 8192;

// Samples of one rank.
int64_t largest_batch(const config::SolverConfig& solver, int64_t ranks) {
  const int64_t evaluated = std::min(solver.batchsize_eval, kEvalChunk);
  return std::max(solver.batchsize / ranks, (evaluated + ranks - 1) / ranks);
}

// Of activations. The CPU has no fp16, and in bf16 nothing to scale.
FloatType activation_type(const config::TrainConfig& config, const cuda::Backend* gpu) {
  const FloatType type = config.solver.precision;
  if (gpu || type != FloatType::kFp16) return type;
  if (config.solver.mixed_precision) return FloatType::kBf16;
  config::fail_expected(*config.root.find("solver")->find("precision"),
                        "\"bf16\" or \"fp32\" where training is on the CPU");
}

// A penalty's gradient is taken of all parameters, when the whole sum is there.
void check_sharding(const config::TrainConfig& config) {
  if (!config.solver.shard_optimizer) return;
  for (const config::JsonNode* layer : config.layers)
    if (const config::JsonNode* penalty = layer->find("regularizer"))
      config::fail_at(
          *penalty,
          "expected no penalty on the dense network where solver.shard_optimizer is true");
}

std::vector<PlanPart*> without_null(std::vector<PlanPart*> parts) {
  std::erase(parts, nullptr);
  return parts;
}

}  // namespace

Model::Model(const config::TrainConfig& config, uint64_t seed, int threads, ModelRanks ranks,
             const cuda::Backend* gpu)
    : config_(config),
      seed_(seed),
      ranks_(std::move(ranks)),
      gpu_(gpu),
      type_(activation_type(config, gpu)),
      train_batch_(config.solver.batchsize / ranks_.context.ranks()),
      max_batch_(largest_batch(config.solver, ranks_.context.ranks())),
      layers_(build_layers(config, {.place = {.ranks = ranks_.context,
                                              .gathers_keys = config.solver.gathers_keys(),
                                              .max_batch = max_batch_,
                                              .train_batch = train_batch_,
                                              .threads = threads,
                                              .gpu = gpu,
                                              .type = type_,
                                              .wire = config.solver.wire_precision},
                                    .placements = ranks_.placements,
                                    .seed = seed})),
      batch_(config.data, max_batch_),
      rates_(config.optimizer, layers_.embeddings),
      keys_gather_(config.solver.gathers_keys()
                       ? std::make_unique<KeysGather>(
                             ranks_.context, batch_, config.data.key_layout().columns,
                             KeysGather::Room{.train = train_batch_, .most = max_batch_},
                             gpu != nullptr)
                       : nullptr),
      gradient_sum_(ranks_.context.ranks() > 1
                        ? std::make_unique<GradientSum>(ranks_.context, config, layers_,
                                                        ranks_.wants_to_stop, gpu)
                        : nullptr),
      loss_scaling_(gpu ? config.solver.mixed_precision : std::nullopt, type_, layers_,
                    gradient_sum_.get()),
      clip_(config.solver.gradient_clip_norm > 0
                ? std::make_unique<GradientClip>(config.solver.gradient_clip_norm, ranks_.context,
                                                 layers_, loss_scaling_,
                                                 gradient_sum_ ? gradient_sum_->shard() : nullptr)
                : nullptr),
      layer_parts_{
          layers_,           batch_, rates_, loss_scaling_, gradient_sum_.get(), clip_.get(),
          keys_gather_.get()},
      embedding_part_(layer_parts_, max_batch_),
      network_part_(layer_parts_, {.max_batch = max_batch_,
                                   .seed = seed,
                                   .type = type_,
                                   .on_gpu = gpu != nullptr || ranks_.steps_of_gpu}),
      table_penalties_(layers_),
      dense_optimizer_(config.optimizer, type_, layer_parts_),
      parts_(without_null({&batch_, &rates_, keys_gather_.get(), &embedding_part_,
                           gradient_sum_.get(), &loss_scaling_, clip_.get(), &network_part_,
                           &table_penalties_, &dense_optimizer_})),
      train_plan_(buffers_),
      eval_plan_(buffers_) {
  check_sharding(config);
  for (PlanPart* part : parts_) part->declare(buffers_);
}

void Model::make_plans() {
  const auto emit = [&](plan::Plan& plan, std::span<const Stage> stages, network::Phase phase) {
    for (const Stage stage : stages)
      for (PlanPart* part : parts_) part->emit(plan, stage, phase);
    plan.finalize();
  };
  emit(train_plan_, kTrainStages, network::Phase::kTrain);
  emit(eval_plan_, kEvalStages, network::Phase::kEval);
}

void Model::compile(const Exec& host) {
  host_ = host;
  if (gpu_) require_device_memory(*this);
  executor_ = make_executor(config_.solver, ranks_.context, gpu_, buffers_, host);
  if (ranks_.context.devices) buffers_.set_wait([this] { executor_->synchronize(); });
  make_plans();
  for (const auto& e : layers_.embeddings) e->tables().prepare();
}

void Model::allocate() {
  if (gpu_)
    buffers_.allocate(*gpu_);
  else
    buffers_.allocate();
  loss_scaling_.initialize();
  rates_.set_scale(1);
}

void Model::run(const plan::Plan& plan, const plan::StepContext& context) {
  if (!gradient_sum_) return executor_->run(plan, context);
  const auto run = [&] {
    gradient_sum_->begin_run();
    executor_->run(plan, context);
    if (&plan == &train_plan_) gradient_sum_->count_run();
    if (keys_gather_) keys_gather_->count_run(&plan == &train_plan_);
  };
  const auto look = [&] { check_keys(*this); };  // a table may be full on this rank alone
  for (run(); gradient_sum_->overflowed(executor_->exec(), look); run()) make_room(plan);
}

void Model::settle() {
  executor_->synchronize();
  if (ranks_.context.devices) ranks_.context.world->barrier();
}

// For lists that did not fit in a run of the plan, which has not counted.
void Model::make_room(const plan::Plan& plan) {
  settle();
  const int64_t done = rates_.iterations() - (&plan == &train_plan_ ? 1 : 0);
  for (const auto& e : layers_.embeddings)
    if (const std::string grown = e->tables().sharded()->grow(); !grown.empty())
      log::warning("iteration {}: {}", done + 1, grown);
  executor_->forget();
  rates_.set_iterations(done);
  gradient_sum_->clear_overflow();
  settle();
}

bool Model::stop_requested() const {
  if (gradient_sum_) return gradient_sum_->stop_requested();
  return ranks_.wants_to_stop && ranks_.wants_to_stop();
}

std::vector<StepTraffic> Model::traffic() const {
  std::vector<StepTraffic> list;
  if (!gradient_sum_) return list;
  if (keys_gather_) list.push_back(keys_gather_->traffic());
  for (const auto& e : layers_.embeddings)
    for (StepTraffic& step : e->tables().sharded()->traffic()) list.push_back(std::move(step));
  for (StepTraffic& step : gradient_sum_->traffic()) list.push_back(std::move(step));
  return list;
}

}  // namespace hlite::trainer
