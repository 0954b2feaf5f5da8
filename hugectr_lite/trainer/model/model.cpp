#include "hugectr_lite/trainer/model/model.h"

#include <algorithm>

#include "hugectr_lite/comm/device_communicator.h"
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

// Returns the type of activations. The CPU has no fp16, and in bf16 nothing to scale.
FloatType activation_type(const config::TrainConfig& config, const cuda::Backend* gpu) {
  const FloatType type = config.solver.precision;
  if (gpu || type != FloatType::kFp16) return type;
  if (config.solver.mixed_precision) return FloatType::kBf16;
  config::fail_expected(*config.root.find("solver")->find("precision"),
                        "\"bf16\" or \"fp32\" where training is on the CPU");
}

// Two graphs are in flight then, which must not both call what connects processes.
bool exchanges_keys_ahead(const config::TrainConfig& config, const ModelRanks& ranks,
                          const cuda::Backend* gpu) {
  if (!gpu || ranks.context.ranks() == 1 || !config.trains || !config.solver.cuda_graph)
    return false;
  const comm::DeviceCommunicator* const devices = ranks.context.devices;
  return devices ? devices->may_capture() && !devices->several_processes() : ranks.one_process;
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

}  // namespace

Model::Model(const config::TrainConfig& config, uint64_t seed, int threads, ModelRanks ranks,
             const cuda::Backend* gpu)
    : config_(config),
      seed_(seed),
      ranks_(std::move(ranks)),
      gpu_(gpu),
      keys_ahead_(exchanges_keys_ahead(config, ranks_, gpu)),
      type_(activation_type(config, gpu)),
      train_batch_(config.solver.batchsize / ranks_.context.ranks()),
      max_batch_(largest_batch(config.solver, ranks_.context.ranks())),
      layers_(build_layers(config, layer_setup(threads))),
      batch_(config.data, max_batch_),
      rates_(config.optimizer, layers_.embeddings),
      keys_gather_(config.solver.gathers_keys()
                       ? std::make_unique<KeysGather>(
                             ranks_.context, batch_, config.data.key_layout().columns,
                             KeysGather::Capacity{.train = train_batch_, .most = max_batch_})
                       : nullptr),
      exchanges_(make_exchanges()),
      loss_scaling_(gpu ? config.solver.mixed_precision : std::nullopt, type_, layers_, status()),
      clip_(config.solver.gradient_clip_norm > 0
                ? std::make_unique<GradientClip>(config.solver, ranks_.context, layers_,
                                                 loss_scaling_, shard())
                : nullptr),
      table_penalties_(layers_),
      loss_mean_(status()),
      dense_optimizer_(config.optimizer, type_,
                       {*layers_.network, rates_, loss_scaling_, status(), shard(), clip_.get()}),
      keys_plan_(buffers_),
      train_plan_(buffers_),
      eval_plan_(buffers_) {
  check_sharding(config);
  declare_buffers();
}

// Assigned to one by one: GCC 12 warns of an aggregate whose initializers may throw.
LayerSetup Model::layer_setup(int threads) const {
  LayerSetup setup;
  setup.place.ranks = ranks_.context;
  setup.place.gathers_keys = config_.solver.gathers_keys();
  setup.place.keys_ahead = keys_ahead_;
  setup.place.max_batch = max_batch_;
  setup.place.train_batch = train_batch_;
  setup.place.threads = threads;
  setup.place.gpu = gpu_;
  setup.place.type = type_;
  setup.place.wire = config_.solver.wire_precision;
  setup.placements = ranks_.placements;
  setup.tiers = ranks_.tiers;
  setup.weights = ranks_.weights;
  setup.steps_of_gpu = ranks_.steps_of_gpu;
  setup.seed = seed_;
  return setup;
}

std::unique_ptr<Model::RankExchanges> Model::make_exchanges() const {
  const comm::RankContext& ranks = ranks_.context;
  if (ranks.ranks() == 1) return nullptr;
  const SumOptions options(ranks, config_, gpu_ != nullptr);
  return std::unique_ptr<RankExchanges>(
      new RankExchanges{.status = {ranks, ranks_.stop_request, gpu_},
                        .dense_sum = {ranks, options, config_.solver.shard_optimizer},
                        .row_sum = {ranks, options, config_.all_reduce.grouped, layers_},
                        .layer_sums = LayerSumsGather(ranks)});
}

void Model::compile(const Exec& host) {
  host_ = host;
  if (gpu_) require_device_memory(*this);
  executor_ = make_executor(config_, ranks_.context, gpu_, buffers_, host);
  if (ranks_.context.devices) buffers_.set_wait([this] { executor_->synchronize(); });
  build_plans();
  for (const auto& e : layers_.embeddings) e->tables().prepare();
}

void Model::allocate(std::span<const plan::LentMemory> lent) {
  HLITE_CHECK(!gpu_ || lent.empty(), "host memory is lent to a model on a GPU");
  if (gpu_)
    buffers_.allocate(*gpu_);
  else
    buffers_.allocate(lent);
  loss_scaling_.initialize();
  rates_.set_scale(1);
}

void Model::run(const plan::Plan& plan, const plan::StepContext& context) {
  const bool training = &plan == &train_plan_;
  while (run_once(plan, context)) grow_exchanges(training && !keys_ahead_);
}

// Returns true if an exchange did not fit. The host's part of the tables comes when all is issued,
// as what it waits for on a GPU may be the run before.
bool Model::run_once(const plan::Plan& plan, const plan::StepContext& context) {
  const bool training = &plan == &train_plan_, ahead = training && keys_ahead_;
  for (const auto& e : layers_.embeddings)
    e->tables().begin_run(executor_->exec(), host_, context.input, context.batch, training);
  if (exchanges_) exchanges_->status.begin_run();
  if (ahead)
    executor_->run_first(keys_plan_, context);
  else
    executor_->run(plan, context);
  if (keys_gather_) keys_gather_->count_run(training);
  const auto check = [&] { check_keys(*this); };  // a table may be full on this rank alone
  const Exec exec = ahead ? executor_->exec_of_first() : executor_->exec();
  const bool exceeded = exchanges_ && exchanges_->status.check_capacity(exec, check);
  if (ahead && !exceeded) executor_->run_rest(plan, context);
  if (exchanges_ && training && !(ahead && exceeded)) ++exchanges_->training_runs;
  for (const auto& e : layers_.embeddings) e->tables().end_run(host_);
  return exceeded;
}

void Model::synchronize() {
  executor_->synchronize();
  if (ranks_.context.devices) ranks_.context.world->barrier();
}

void Model::between_runs(FunctionRef<void()> body) {
  synchronize();
  body();
  synchronize();  // what it has put on streams, too
}

// After a run that exceeded a capacity and has not counted; `counted`: as an iteration all the same.
void Model::grow_exchanges(bool counted) {
  between_runs([&] {
    const int64_t done = rates_.iterations() - (counted ? 1 : 0);
    for (const auto& e : layers_.embeddings)
      if (const std::string grown = e->tables().steps().grow(); !grown.empty())
        log::warning("iteration {}: {}", done + 1, grown);
    executor_->forget();
    rates_.set_iterations(done);
    exchanges_->status.clear_capacity_exceeded();
  });
}

bool Model::stop_requested() const {
  if (exchanges_) return exchanges_->status.stop_requested();
  return ranks_.stop_request && ranks_.stop_request();
}

std::vector<StepTraffic> Model::traffic() const {
  std::vector<StepTraffic> list;
  if (!exchanges_) return list;
  const auto add = [&](std::vector<StepTraffic> steps) {
    std::move(steps.begin(), steps.end(), std::back_inserter(list));
  };
  const auto& [status, dense_sum, row_sum, layer_sums, runs] = *exchanges_;
  if (keys_gather_) add({keys_gather_->traffic()});
  for (const auto& e : layers_.embeddings) add(e->tables().traffic());
  add(row_sum.traffic(runs, dense_sum.reduced()));
  add(dense_sum.traffic(runs));
  add(layer_sums.traffic(runs));
  return list;
}

}  // namespace hlite::trainer
