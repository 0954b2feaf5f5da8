// The buffers of a model, and its plans: which steps an iteration has, in order.
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/interaction.h"
#include "hugectr_lite/ops/packed_rows.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

using embedding::TablesIo, embedding::TableSteps, embedding::EmbeddingLayer,
    embedding::EmbeddingTop;
using network::Phase;

void Model::declare_buffers() {
  batch_.declare(buffers_);
  rates_.declare(buffers_, keys_ahead_);
  if (keys_gather_) keys_gather_->declare(buffers_);
  for (size_t i = 0; i < layers_.embeddings.size(); ++i) {
    EmbeddingLayer& layer = *layers_.embeddings[i];
    if (leaves_lookup(i)) layer.tables().steps().leave_lookup();
    layer.declare(buffers_, max_batch_);
  }
  if (exchanges_) {
    exchanges_->status.declare(buffers_, keys_ahead_);
    exchanges_->dense_sum.declare(buffers_, layers_.network->parameter_bytes(),
                                  exchanges_->row_sum.grouped_bytes());
    exchanges_->row_sum.declare(buffers_, exchanges_->dense_sum);
    exchanges_->status.set_words(buffers_, exchanges_->dense_sum.words());
  }
  loss_scaling_.declare(buffers_);
  if (clip_) clip_->declare(buffers_);
  declare_network();
  table_penalties_.declare(buffers_);
  loss_mean_.declare(buffers_);
  dense_optimizer_.declare(buffers_);
}

// Returns true if the layer that reads an embedding's vectors makes them: it reads the rows, writes
// the vectors for backward, and uses them while the multiprocessor has them. That saves their way
// back from memory, but the lookup then waits for the bottom network, beside which it would run.
bool Model::leaves_lookup(size_t embedding) const {
  const EmbeddingLayer& layer = *layers_.embeddings[embedding];
  const embedding::SlotLayout& layout = layer.layout();
  return has_gpu_steps() && type_ != FloatType::kFloat && layer.tops().size() == 1 &&
         layer.tops()[0].width == layout.width &&
         layers_.network->makes_of_rows(layers_.first_top[embedding]) &&
         layer.tables().steps().can_leave_lookup() &&
         ops::interaction_gains_by_rows(gpu_, (config_.trains ? train_batch_ : max_batch_) *
                                                  layout.slots() * layout.width *
                                                  float_type_bytes(type_));
}

void Model::declare_network() {
  const bool on_gpu = has_gpu_steps();
  std::vector<plan::BufferId> inputs = {batch_.labels(), batch_.dense()};
  for (const size_t history : layers_.histories) inputs.push_back(batch_.lengths(history));
  std::vector<std::optional<plan::GatheredRows>> rows(inputs.size());
  for (size_t i = 0; i < layers_.embeddings.size(); ++i) {
    EmbeddingLayer& layer = *layers_.embeddings[i];
    inputs.insert(inputs.end(), layer.top_values().begin(), layer.top_values().end());
    rows.resize(inputs.size());
    if (leaves_lookup(i)) rows.back() = layer.tables().steps().gathered_rows();
  }
  network::NetworkSetup setup = {.max_batch = max_batch_,
                                 .inputs = inputs,
                                 .rows = rows,
                                 .step = rates_.step(),
                                 .seed = seed_,
                                 .type = type_,
                                 .loss_scale = loss_scaling_.scale(),
                                 .gradient_overflow = loss_scaling_.gradient_overflow(),
                                 .pad_inputs = on_gpu,
                                 .relu_masks = on_gpu,
                                 .loss_heads = on_gpu,
                                 .weight_gradient_lane = weight_gradient_lane(),
                                 .packs_histories = !on_gpu};
  if (exchanges_) {
    setup.gradients = exchanges_->dense_sum.gradients();
    setup.gather = &exchanges_->layer_sums;
    setup.capacity_exceeded = exchanges_->status.capacity_exceeded();
  }
  layers_.network->declare(buffers_, setup);
}

TablesIo Model::tables_io(size_t layer, Phase phase) const {
  return {.keys = batch_.keys(),
          .all_keys = keys_gather_ ? keys_gather_->all_keys() : plan::kNoBuffer,
          .output = layers_.embeddings[layer]->output(),
          .grad = layers_.vector_gradients(layer),
          .rate = rates_.embedding_rate(layer),
          .step = rates_.step(),
          .routed = phase == Phase::kTrain ? rates_.routed() : plan::kNoBuffer,
          .loss_scale = loss_scaling_.state(),
          .capacity_exceeded = exchanges_ ? status()->capacity_exceeded() : plan::kNoBuffer,
          .clip = clip_ ? clip_->table_factor() : plan::kNoBuffer,
          .training = phase == Phase::kTrain};
}

template <typename Emit>
void Model::each_table(Phase phase, Emit&& emit) const {
  for (size_t i = 0; i < layers_.embeddings.size(); ++i)
    emit(layers_.embeddings[i]->tables().steps(), tables_io(i, phase));
}
template <typename Emit>
void Model::each_trained_table(Emit&& emit) const {
  each_table(Phase::kTrain, [&](TableSteps& steps, const TablesIo& io) {
    if (io.grad != plan::kNoBuffer) emit(steps, io);
  });
}

void Model::build_plans() {
  if (config_.trains) build_train_plan(keys_ahead_ ? keys_plan_ : train_plan_, train_plan_);
  build_eval_plan(eval_plan_);
}

// Rows of the tables -> vectors. `keys`: the plan of what needs keys alone.
void Model::emit_lookup(plan::Plan& keys, plan::Plan& plan, Phase phase) {
  if (keys_gather_) keys_gather_->emit(keys, phase);
  each_table(phase, [&](TableSteps& t, const TablesIo& io) { t.emit_forward(keys, plan, io); });
  if (&keys != &plan) rates_.emit_routed(keys);
  layers_.network->emit_input_offsets(plan);
  for (size_t i = 0; i < layers_.embeddings.size(); ++i) emit_tops(plan, i);
  if (exchanges_) exchanges_->status.emit_notice(keys);
}

// The columns of a layer's vectors that are its top.
static network::ColumnMove top_columns(const EmbeddingLayer& layer, const EmbeddingTop& top) {
  const int64_t width = layer.layout().width;
  return {.width = layer.layout().slots() * width,
          .begin = top.first_vector * width,
          .columns = top.rows * top.width};
}

// Vectors -> the tops of a layer that has several; histories packed, where they are read so.
void Model::emit_tops(plan::Plan& plan, size_t embedding) const {
  const EmbeddingLayer& layer = *layers_.embeddings[embedding];
  if (layer.tops().size() == 1) return;
  for (size_t i = 0; i < layer.tops().size(); ++i) {
    network::ColumnMove move = top_columns(layer, layer.tops()[i]);
    move.from = layer.output();
    const std::string name = fmt::format("{}.top{}", layer.name(), i);
    const plan::BufferId to = layer.top_values()[i];
    const plan::BufferId offsets = layers_.network->input_offsets(layers_.first_top[embedding] + i);
    if (offsets == plan::kNoBuffer) {
      network::add_columns_step(plan, type_, name, {move}, to, move.columns);
      continue;
    }
    network::add_typed_step(
        plan, type_, {.name = name, .reads = {move.from, offsets}, .writes = {to}},
        [=, width = layer.tops()[i].width]<typename T>(const network::StepViews<T>& v) {
          ops::cut_rows<T>(v.exec, v.rows(move.from, move.width), move.begin, v.offsets(offsets),
                           network::matrix<T>(v.buffers, to, v.count({0, offsets}), width));
        });
  }
}

// The gradients of its tops -> that of its vectors.
void Model::emit_top_gradients(plan::Plan& plan) const {
  for (size_t i = 0; i < layers_.embeddings.size(); ++i) {
    const EmbeddingLayer& layer = *layers_.embeddings[i];
    if (layer.tops().size() == 1 || layers_.vector_gradients(i) == plan::kNoBuffer) continue;
    const plan::BufferId to = layer.output_gradient();
    const int64_t all = top_columns(layer, layer.tops()[0]).width;
    std::vector<network::ColumnMove> moves;
    const size_t first = layers_.first_top[i];
    bool packed = false;
    for (size_t t = 0; t < layer.tops().size(); ++t) {
      const network::ColumnMove of = top_columns(layer, layer.tops()[t]);
      moves.push_back({.from = layers_.network->input_grad(first + t),
                       .width = of.columns,
                       .to_begin = of.begin,
                       .columns = of.columns});
      packed = packed || layers_.network->input_offsets(first + t) != plan::kNoBuffer;
    }
    if (!packed) {
      network::add_columns_step(plan, type_, layer.name() + ".vectors_grad", moves, to, all);
      continue;
    }
    for (size_t t = 0; t < moves.size(); ++t)
      network::add_typed_step(
          plan, type_,
          {.name = fmt::format("{}.vectors_grad{}", layer.name(), t),
           .reads = {moves[t].from, layers_.network->input_offsets(first + t)},
           .writes = {to}},
          [=, from = moves[t].from, begin = moves[t].to_begin, top = layer.tops()[t],
           rows = network::RowCount{layer.tops()[t].rows,
                                    layers_.network->input_offsets(first + t)}]<typename T>(
              const network::StepViews<T>& v) {
            ops::PackedRows places;
            if (rows.offsets != plan::kNoBuffer) places.offsets = v.offsets(rows.offsets);
            ops::paste_rows<T>(v.exec,
                               network::matrix<T>(v.buffers, from, v.count(rows), top.width),
                               places, top.rows, v.rows(to, all), begin);
          });
  }
}

// An iteration. Steps overlap as their reads and writes allow, whatever stands between them here.
void Model::build_train_plan(plan::Plan& keys, plan::Plan& plan) {
  const network::Network& network = *layers_.network;
  batch_.emit(keys, plan);
  emit_lookup(keys, plan, Phase::kTrain);
  rates_.emit(plan);
  network.emit_forward(plan, Phase::kTrain);  // up to the loss
  network.emit_backward(plan);                // gradients of the network and of the vectors
  emit_top_gradients(plan);

  // Gradients of rows, on the ranks that own them.
  each_trained_table([&](TableSteps& t, const TablesIo& io) { t.emit_backward(plan, io); });
  loss_scaling_.emit_find(plan);
  table_penalties_.emit_own(plan);

  // Sums over ranks: of dense gradients with the loss, and of rows that every rank holds.
  if (exchanges_) {
    exchanges_->dense_sum.emit(plan, network.loss(), exchanges_->status);
    exchanges_->row_sum.emit(plan);
  }
  network.emit_after_backward(plan);  // penalties
  table_penalties_.emit_replicated(plan);
  loss_mean_.emit(plan, network.loss(), weight_gradient_lane());

  // These decide whether the updates take place and how much gradients are clipped.
  loss_scaling_.emit_decision(plan);
  if (clip_) clip_->emit(plan);

  dense_optimizer_.emit(plan);
  each_trained_table([&](TableSteps& t, const TablesIo& io) { t.emit_update(plan, io); });
  if (&keys != &plan) keys.finalize();
  plan.finalize();
}

void Model::build_eval_plan(plan::Plan& plan) {
  batch_.emit(plan, plan);
  emit_lookup(plan, plan, Phase::kEval);
  layers_.network->emit_forward(plan, Phase::kEval);
  plan.finalize();
}

}  // namespace hlite::trainer
