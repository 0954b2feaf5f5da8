#include "hugectr_lite/trainer/model.h"

#include <algorithm>
#include <cstring>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/matmul_context.h"
#include "hugectr_lite/optimizer/advance_schedules.h"
#include "hugectr_lite/optimizer/dense_update.h"
#include "hugectr_lite/trainer/gpu_run.h"
#include "hugectr_lite/trainer/rank_lanes.h"

namespace hlite::trainer {
namespace {

using plan::BufferId;
using plan::BufferKind;
using plan::Lane;
// The network's inputs: labels, dense features, then the embedding layers' vectors.
constexpr size_t kEmbeddingInput = 2;
// Evaluation needs no more than this at a time to use a machine well.
constexpr int64_t kEvalChunk = 8192;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

Model::Model(const config::TrainConfig& config, uint64_t seed, int threads, ModelRanks ranks,
             const cuda::Backend* gpu)
    : config_(config),
      seed_(seed),
      threads_(threads),
      ranks_(std::move(ranks)),
      gpu_(gpu),
      type_(gpu ? config.solver.precision : FloatType::kFloat),
      loss_scaling_(config.solver, type_),
      train_batch_(config.solver.batchsize / ranks_.context.ranks()),
      max_batch_(std::max(train_batch_, round_up(std::min(config.solver.batchsize_eval, kEvalChunk),
                                                 ranks_.context.ranks()) /
                                            ranks_.context.ranks())),
      rule_(config.optimizer.rule),
      train_plan_(buffers_),
      eval_plan_(buffers_) {
  const size_t count = count_embeddings(config);
  if (count == 0)
    throw ConfigError(
        fmt::format("{}: layers[1]: expected an embedding layer (HybridSparseEmbedding, "
                    "LocalizedSlotSparseEmbeddingOneHot or ...Hash), found none",
                    config.root.where()));
  std::vector<network::NetworkInput> inputs;
  const config::JsonNode* data =
      config.root.find("layers") ? &config.root.find("layers")->elements()[0] : nullptr;
  inputs.push_back({config.data.label_top, {config.data.label_dim}, false, data});
  inputs.push_back({config.data.dense_top, {config.data.dense_width()}, false, data});
  for (size_t i = 0; i < count; ++i) {
    auto layer = std::make_unique<embedding::EmbeddingLayer>(*config.layers[i], config);
    for (const auto& input : inputs)
      if (input.name == layer->top())
        config::fail_at(*layer->node().find("top"),
                        fmt::format("tensor \"{}\" is made twice", layer->top()));
    inputs.push_back({layer->top(),
                      {layer->layout().slots(), layer->layout().width},
                      true,
                      &layer->node(),
                      type_});
    const LayerPlacement* placement =
        ranks_.placements.empty() ? nullptr : &ranks_.placements.at(i);
    layer->spread({.ranks = ranks_.context,
                   .placement = placement ? placement->placement : nullptr,
                   .max_batch = max_batch_,
                   .train_batch = train_batch_,
                   .threads = threads,
                   .gpu = gpu_,
                   .type = type_},
                  placement ? placement->exchanged_share : 1.0, seed);
    embeddings_.push_back(std::move(layer));
  }
  wire_sparse_inputs();
  const std::vector<const config::JsonNode*> dense(
      config.layers.begin() + static_cast<std::ptrdiff_t>(count), config.layers.end());
  network_ = std::make_unique<network::Network>(dense, config.strict, std::move(inputs));
  for (const auto& e : embeddings_)
    for (const auto& entry : network_->layers())
      if (entry.layer->name() == e->name())
        config::fail_at(entry.layer->node(),
                        fmt::format("expected a name of its own, found \"{}\", the name of {} too",
                                    entry.layer->name(), e->node().path()));
  declare(seed);
}

Model::~Model() = default;

// One embedding layer for each sparse input: then every key belongs to one table.
void Model::wire_sparse_inputs() {
  const auto& sparse = config_.data.sparse;
  std::vector<const embedding::EmbeddingLayer*> of_input(sparse.size(), nullptr);
  for (size_t i = 0; i < embeddings_.size(); ++i) {
    const auto& e = *embeddings_[i];
    for (size_t before = 0; before < i; ++before)
      if (embeddings_[before]->name() == e.name())
        config::fail_at(e.node(),
                        fmt::format("expected a name of its own, found \"{}\", the name of {} too",
                                    e.name(), embeddings_[before]->node().path()));
    if (const auto* other = of_input[e.input()])
      config::fail_at(*e.node().find("bottom"),
                      fmt::format("a second embedding layer on one sparse input is known, but not "
                                  "supported yet; \"{}\" is that of {} already",
                                  sparse[e.input()].top, other->node().path()));
    of_input[e.input()] = &e;
  }
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (of_input[i] == nullptr)
      config::fail_at(
          *config_.root.find("layers"),
          fmt::format("expected an embedding layer on the sparse input \"{}\", found none",
                      sparse[i].top));
    const auto& rows = of_input[i]->layout().rows;
    slot_rows_.insert(slot_rows_.end(), rows.begin(), rows.end());
  }
}

void Model::declare(uint64_t seed) {
  const auto& data = config_.data;
  std::string keys_name = "batch";
  for (const auto& sparse : data.sparse) keys_name += "." + sparse.top;
  // One block, laid out like a reader's: a batch can come in one copy.
  const int64_t key_columns = data.key_layout().columns;
  const data::BatchLayout layout =
      data::batch_layout(max_batch_, data.label_dim, data.dense_width(), key_columns);
  batch_ = buffers_.add("batch", BufferKind::kInput, layout.bytes);
  labels_ = buffers_.slice("batch." + data.label_top, batch_, 0,
                           max_batch_ * data.label_dim * kFloatBytes);
  dense_ = buffers_.slice("batch." + data.dense_top, batch_, layout.dense,
                          max_batch_ * data.dense_width() * kFloatBytes);
  keys_ = buffers_.slice(keys_name, batch_, layout.keys,
                         max_batch_ * key_columns * static_cast<int64_t>(sizeof(uint32_t)));
  step_ = buffers_.add("solver.step", BufferKind::kState, sizeof(int64_t));
  rates_ = buffers_.add("solver.learning_rate", BufferKind::kState, kFloatBytes);
  std::vector<BufferId> inputs = {labels_, dense_};
  for (auto& layer : embeddings_) {
    layer->declare(buffers_, max_batch_);
    inputs.push_back(layer->output());
    embedding_rates_.push_back(
        buffers_.add(layer->name() + ".learning_rate", BufferKind::kState, kFloatBytes));
  }
  BufferId gradients = plan::kNoBuffer;
  if (ranks_.context.ranks() > 1) {
    std::vector<GradientSum::Copied> copied;
    for (const auto& e : embeddings_) copied.push_back({e->name(), e->tables().sharded()});
    gradient_sum_ = std::make_unique<GradientSum>(ranks_.context, config_.all_reduce);
    overflow_ = buffers_.add("solver.overflow", BufferKind::kState, sizeof(int32_t));
    gradients = gradient_sum_->declare(buffers_, network_->parameter_bytes(), std::move(copied));
  }
  loss_scaling_.declare(buffers_);
  network_->declare(buffers_, {.max_batch = max_batch_,
                               .inputs = inputs,
                               .step = step_,
                               .seed = seed,
                               .gradients = gradients,
                               .type = type_,
                               .loss_scale = loss_scaling_.scale(),
                               .overflow = loss_scaling_.found(),
                               .pad_inputs = on_gpu(),
                               .relu_masks = on_gpu(),
                               .weight_gradient_lane = on_gpu() ? Lane::kWeights : Lane::kCompute});
  for (int i = 0; i < optimizer::state_count(rule_.type); ++i)
    dense_states_.push_back(
        buffers_.add(fmt::format("dense.{}", optimizer::state_name(rule_.type, i)),
                     BufferKind::kState, network_->parameter_bytes()));
}

std::vector<ModelRow> Model::describe() const {
  std::vector<ModelRow> rows;
  const auto& data = config_.data;
  rows.push_back({data.name, "Data",
                  fmt::format("[B,{}] [B,{}] [B,{}]", data.label_dim, data.dense_width(),
                              data.key_layout().columns),
                  fmt::format("label, dense, keys; {}", config::data_format_name(data.format)), 0});
  for (const auto& e : embeddings_) {
    const auto& layout = e->layout();
    const int64_t held =
        e->hashed() ? e->hash_capacity() * ranks_.context.ranks() : layout.total_rows;
    rows.push_back(
        {e->name(), e->type(), network::to_string({layout.slots(), layout.width}),
         fmt::format("{} tables, {}{} rows", layout.slots(), e->hashed() ? "up to " : "", held),
         held * layout.width});
  }
  for (const auto& entry : network_->layers()) {
    int64_t parameters = 0;
    for (const size_t p : entry.params)
      parameters += network::elements(network_->parameters()[p].dims);
    std::string output;
    for (const size_t t : entry.tops)
      output += (output.empty() ? "" : " ") +
                (entry.layer->traits().is_loss ? std::string("scalar")
                                               : network::to_string(network_->tensors()[t].dims));
    rows.push_back(
        {entry.layer->name(), entry.layer->type(), output, entry.shape.summary, parameters});
  }
  return rows;
}

MemoryEstimate Model::memory() const {
  MemoryEstimate m;
  m.tables = buffers_.total_bytes(BufferKind::kTable);
  m.optimizer_states = buffers_.total_bytes(BufferKind::kState);
  m.dense_parameters = buffers_.total_bytes(BufferKind::kParameter);
  m.activations = buffers_.total_bytes(BufferKind::kActivation);
  m.gradients = buffers_.total_bytes(BufferKind::kGradient);
  m.batch = buffers_.total_bytes(BufferKind::kInput);
  for (const auto& e : embeddings_) m.workspace += e->tables().workspace_bytes();
  if (gpu_) {
    m.batch *= 2;                 // one arrives while the other is worked on
    m.matmul = 2 * kMatmulBytes;  // of the lanes kCompute and kWeights
  }
  return m;
}

std::vector<TableSize> Model::tables() const {
  std::vector<TableSize> list;
  for (const auto& e : embeddings_) {
    const auto add = [&, row = e->layout().width * kFloatBytes](std::string name, int64_t rows) {
      list.push_back({std::move(name), rows, rows * row});
    };
    const auto& rows = e->layout().rows;
    if (e->hashed())
      add(e->name(), e->hash_capacity() * ranks_.context.ranks());
    else
      for (size_t s = 0; s < rows.size(); ++s)
        add(embedding::table_name(e->name(), static_cast<int64_t>(s)), rows[s]);
  }
  return list;
}

void Model::emit_copy_in(plan::Plan& plan) const {
  const auto& data = config_.data;
  const int64_t label_dim = data.label_dim, width = data.dense_width(),
                columns = data.key_layout().columns;
  plan.add({.name = "copy_in",
            .lane = Lane::kCopy,
            .reads = {},
            .writes = {batch_},
            .run = [this, label_dim, width, columns](const plan::StepContext& c) {
              const auto copy = [&](BufferId to, const void* from, int64_t bytes) {
                const auto n = static_cast<size_t>(bytes);
                if (c.exec.on_gpu())
                  c.exec.cuda->copy(buffers_.data<std::byte>(to), from, n, c.exec.stream);
                else
                  std::memcpy(buffers_.data<std::byte>(to), from, n);
              };
              // Each call costs the host a few microseconds on a GPU.
              if (c.exec.on_gpu() && std::ssize(c.input.memory) == buffers_.bytes(batch_))
                return copy(batch_, c.input.memory.data(), buffers_.bytes(batch_));
              copy(labels_, c.input.labels, c.batch * label_dim * kFloatBytes);
              copy(dense_, c.input.dense, c.batch * width * kFloatBytes);
              copy(keys_, c.input.keys, c.batch * columns * static_cast<int64_t>(sizeof(uint32_t)));
            }});
}

void Model::emit_learning_rate(plan::Plan& plan) const {
  std::vector<BufferId> writes = {step_, rates_};
  writes.insert(writes.end(), embedding_rates_.begin(), embedding_rates_.end());
  std::vector<optimizer::LrSchedule> schedules = {config_.optimizer.schedule};
  for (const auto& e : embeddings_) schedules.push_back(e->schedule());
  // Behind the lookups, on their lane: updates alone wait for it (and dropout, for the step).
  plan.add({.name = "learning_rate",
            .lane = Lane::kEmbedding,
            .reads = {step_},
            .writes = writes,
            // Both lists live in the step: an iteration allocates nothing.
            .run = [this, schedules, rates = std::vector<float*>(schedules.size())](
                       const plan::StepContext& c) mutable {
              rates[0] = buffers_.data<float>(rates_);
              for (size_t i = 0; i < embedding_rates_.size(); ++i)
                rates[i + 1] = buffers_.data<float>(embedding_rates_[i]);
              optimizer::advance_schedules(c.exec, schedules, buffers_.data<int64_t>(step_), rates);
            }});
}

void Model::emit_loss_scale(plan::Plan& plan, const std::vector<embedding::TablesIo>& io) const {
  std::vector<LossScaling::Gradients> gradients = {
      {.id = network_->gradient_buffer(), .count = network_->parameter_bytes() / kFloatBytes}};
  for (size_t i = 0; i < io.size(); ++i)
    if (io[i].grad != plan::kNoBuffer && !network_->finds_overflow(kEmbeddingInput + i))
      gradients.push_back(
          {.id = io[i].grad,
           .type = type_,
           .per_sample = embeddings_[i]->layout().slots() * embeddings_[i]->layout().width});
  loss_scaling_.emit_check(plan, gradients);
}

void Model::emit_dense_update(plan::Plan& plan) const {
  const BufferId w = network_->parameter_buffer(), g = network_->gradient_buffer(),
                 working = network_->working_buffer(), scale = loss_scaling_.state();
  const int64_t n = network_->parameter_bytes() / kFloatBytes;
  if (n == 0) return;
  std::vector<BufferId> reads = {w, g, rates_, step_}, writes = {w};
  reads.insert(reads.end(), dense_states_.begin(), dense_states_.end());
  writes.insert(writes.end(), dense_states_.begin(), dense_states_.end());
  if (working != w) writes.push_back(working);
  for (const BufferId verdict : {scale, overflow_})
    if (verdict != plan::kNoBuffer) reads.push_back(verdict);
  plan.add({.name = "dense_update",
            .lane = Lane::kCompute,
            .reads = reads,
            .writes = writes,
            .run = [this, w, g, n, working, scale](const plan::StepContext& c) {
              const auto state = [&](size_t i) {
                return i < dense_states_.size() ? network::vector(buffers_, dense_states_[i], n)
                                                : Vector<float>();
              };
              optimizer::GradientScale of_gradients;
              if (scale != plan::kNoBuffer)
                of_gradients =
                    optimizer::gradient_scale(*buffers_.data<optimizer::LossScale>(scale));
              if (overflow_ != plan::kNoBuffer)
                of_gradients.overflow = buffers_.data<int32_t>(overflow_);
              with_float_type(type_, [&]<typename T>() {
                const auto mirror =
                    working == w ? Vector<T>() : network::vector<T>(buffers_, working, n);
                optimizer::dense_update<T>(
                    c.exec, rule_, buffers_.data<float>(rates_), buffers_.data<int64_t>(step_),
                    network::vector(buffers_, w, n), network::vector(buffers_, g, n), state(0),
                    state(1), of_gradients, mirror);
              });
            }});
}

std::vector<StepTraffic> Model::traffic() const {
  std::vector<StepTraffic> list;
  if (!gradient_sum_) return list;
  for (const auto& e : embeddings_)
    for (StepTraffic& step : e->tables().sharded()->traffic()) list.push_back(std::move(step));
  for (StepTraffic& step : gradient_sum_->traffic()) list.push_back(std::move(step));
  return list;
}

bool Model::stop_requested() const {
  if (gradient_sum_) return gradient_sum_->stop_requested();
  return ranks_.wants_to_stop && ranks_.wants_to_stop();
}

bool Model::overlaps() const { return ranks_.context.ranks() > 1 && config_.solver.enable_overlap; }

void Model::run_once(const plan::Plan& plan, const plan::StepContext& context) {
  if (gpu_run_) return gpu_run_->run(plan, context);
  if (!overlaps()) return plan::run_in_order(plan, context);
  if (!lanes_) lanes_ = std::make_unique<RankLanes>(context.exec, threads_, ranks_.context);
  lanes_->run(plan, context);
}

void Model::run(const plan::Plan& plan, const plan::StepContext& context) {
  if (overflow_ == plan::kNoBuffer) return run_once(plan, context);
  const int64_t done = step();
  for (run_once(plan, context); read<int32_t>(overflow_) != 0; run_once(plan, context)) {
    for (const auto& e : embeddings_)
      if (const std::string grown = e->tables().sharded()->grow(); !grown.empty())
        log::warning("iteration {}: {}", done + 1, grown);
    set_step(done);
    const int32_t none = 0;
    put(&none, buffers_.data<int32_t>(overflow_), sizeof(none));
  }
}

void Model::compile() {
  if (gpu_) {
    const MemoryEstimate m = memory();
    require_device_memory(*gpu_, buffers_.device_bytes() + m.workspace + m.matmul, tables());
    gpu_run_ = std::make_unique<GpuRun>(*gpu_, buffers_, config_.solver);
  }
  make_plans();
  for (const auto& e : embeddings_) e->tables().prepare();
}

void Model::make_plans() {
  std::vector<embedding::TablesIo> io;
  for (size_t i = 0; i < embeddings_.size(); ++i)
    io.push_back({.keys = keys_,
                  .output = embeddings_[i]->output(),
                  .grad = network_->input_grad(kEmbeddingInput + i),
                  .rate = embedding_rates_[i],
                  .step = step_,
                  .loss_scale = loss_scaling_.state(),
                  .overflow = overflow_});
  const auto for_trained = [&](auto&& emit) {
    for (size_t i = 0; i < embeddings_.size(); ++i)
      if (io[i].grad != plan::kNoBuffer) emit(embeddings_[i]->tables().steps(), io[i]);
  };
  emit_copy_in(train_plan_);
  for (size_t i = 0; i < embeddings_.size(); ++i)
    embeddings_[i]->tables().steps().emit_forward(train_plan_, io[i]);
  emit_learning_rate(train_plan_);
  network_->emit_forward(train_plan_, network::Phase::kTrain);
  network_->emit_backward(train_plan_);
  for_trained([&](auto& tables, const auto& its) { tables.emit_backward(train_plan_, its); });
  if (gradient_sum_) gradient_sum_->emit(train_plan_, network_->loss(), ranks_.wants_to_stop);
  network_->emit_after_backward(train_plan_);
  emit_loss_scale(train_plan_, io);
  emit_dense_update(train_plan_);
  for_trained([&](auto& tables, const auto& its) { tables.emit_update(train_plan_, its); });
  train_plan_.finalize();

  emit_copy_in(eval_plan_);
  for (auto& its : io) its.training = false;
  for (size_t i = 0; i < embeddings_.size(); ++i)
    embeddings_[i]->tables().steps().emit_forward(eval_plan_, io[i]);
  network_->emit_forward(eval_plan_, network::Phase::kEval);
  eval_plan_.finalize();
}

void Model::allocate() {
  if (gpu_)
    buffers_.allocate(*gpu_);
  else
    buffers_.allocate();
  if (loss_scaling_.used()) {
    const optimizer::LossScale first = loss_scaling_.first_state();
    put(&first, buffers_.data<optimizer::LossScale>(loss_scaling_.state()), sizeof(first));
  }
}

void Model::wait_for_input() {
  if (gpu_run_) gpu_run_->wait_for_input();
}

void Model::release_input() {
  if (gpu_run_) gpu_run_->release_input();
}

}  // namespace hlite::trainer
