// The buffers of a network: Network::declare().
#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/network.h"
#include "hugectr_lite/network/packing.h"
#include "hugectr_lite/ops/loss_head.h"

namespace hlite::network {

void Network::declare(Buffers& buffers, const NetworkSetup& setup) {
  HLITE_CHECK(setup.inputs.size() == inputs_.size(), "{} buffers for {} inputs",
              setup.inputs.size(), inputs_.size());
  setup_ = setup;
  if (setup_.packs_histories) {
    packed_ = pack_histories(layers_, tensors_, inputs_);
    const auto is_loss = [](const LayerEntry& e) { return e.layer->traits().is_loss; };
    loss_layer_ = static_cast<size_t>(std::find_if(layers_.begin(), layers_.end(), is_loss) -
                                      layers_.begin());
    declare_offsets(buffers);
  }
  declare_parameters(buffers);
  declare_tensors(buffers);
  find_head();
  connect_layers(buffers);
  declare_logits(buffers);
  fuse_backward();
}

void Network::declare_parameters(Buffers& buffers) {
  using plan::BufferKind;
  parameter_buffer_ = buffers.add("dense.parameters", BufferKind::kParameter, parameter_bytes_);
  gradient_buffer_ = setup_.gradients != kNoBuffer
                         ? setup_.gradients
                         : buffers.add("dense.gradients", BufferKind::kGradient, parameter_bytes_);
  const bool mixed = setup_.type != FloatType::kFloat;
  const int64_t size = float_type_bytes(setup_.type);
  working_buffer_ = mixed ? buffers.add("dense.working", BufferKind::kParameter,
                                        parameter_bytes_ / kFloatBytes * size)
                          : parameter_buffer_;
  for (DenseParameter& p : parameters_) {
    p.buffers.value = buffers.slice(p.name, parameter_buffer_, p.offset, p.stored * kFloatBytes);
    p.buffers.grad =
        buffers.slice(p.name + ".grad", gradient_buffer_, p.offset, p.stored * kFloatBytes);
    p.buffers.working = mixed ? buffers.slice(p.name + ".working", working_buffer_,
                                              p.offset / kFloatBytes * size, p.stored * size)
                              : p.buffers.value;
  }
}

bool Network::makes_float_logits(const TensorEntry& t) const {
  if (t.producer < 0 || t.consumers.size() != 1 ||
      t.consumers[0] != std::pair(loss_layer_, size_t{0}))
    return false;
  const LayerTraits& producer = layers_[static_cast<size_t>(t.producer)].layer->traits();
  return producer.is_inner_product && !producer.has_relu;
}

bool Network::feeds_inner_products_only(const TensorEntry& t) const {
  return std::all_of(t.consumers.begin(), t.consumers.end(), [&](const auto& consumer) {
    return layers_[consumer.first].layer->traits().is_inner_product;
  });
}

// A mask has no other bottoms, and a dense feature may be one, as HugeCTR has them.
bool Network::takes_as_lengths(const TensorEntry& t, size_t layer) const {
  return layers_[layer].shape.is_mask ||
         (t.dims.is_lengths && layers_[layer].layer->traits().takes_lengths);
}

// Returns true if a float input of a float network is one that padding makes wider.
bool Network::pads(const TensorEntry& t) const {
  const int64_t width = elements(t.dims);
  return t.type == FloatType::kFloat && setup_.type == FloatType::kFloat && !t.needs_grad &&
         !t.consumers.empty() && padded(width) > width && feeds_inner_products_only(t);
}

// Value and gradient of a view's top are those of its bottom, declared before, as it reads them.
void Network::view_bottom(TensorEntry& top) const {
  const auto layer = static_cast<size_t>(top.producer);
  const TensorEntry& t = tensors_[layers_[layer].bottoms[0]];
  const bool cast = t.cast != kNoBuffer;
  top.value = cast ? t.cast : t.value;
  top.type = cast ? setup_.type : t.type;
  if (t.consumer_grads.empty()) {
    top.grad = t.grad;
    return;
  }
  for (size_t c = 0; c < t.consumers.size(); ++c)
    if (t.consumers[c].first == layer) top.grad = t.consumer_grads[c];
}

void Network::declare_tensors(Buffers& buffers) {
  using plan::BufferKind;
  const int64_t batch = setup_.max_batch, size = float_type_bytes(setup_.type);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    TensorEntry& t = tensors_[i];
    t.columns = elements(t.dims) + (t.has_weight ? 1 : 0);
    if (i < inputs_.size()) {
      t.value = setup_.inputs[i];
      t.type = inputs_[i].type;
      const bool by_layers = std::any_of(
          t.consumers.begin(), t.consumers.end(),
          [&](const auto& c) { return c.first != loss_layer_ && !takes_as_lengths(t, c.first); });
      if (t.type != setup_.type && by_layers) {
        if (feeds_inner_products_only(t)) t.columns = padded(t.columns);
        t.cast = buffers.add(t.name + ".cast", BufferKind::kActivation, batch * t.columns * size);
      } else if (setup_.pad_inputs && pads(t)) {
        t.columns = padded(t.columns);
        t.cast = buffers.add(t.name + ".padded", BufferKind::kActivation, batch * t.columns * size);
      }
    } else if (layers_[static_cast<size_t>(t.producer)].layer->traits().is_view) {
      view_bottom(t);
    } else {
      const bool loss = layers_[static_cast<size_t>(t.producer)].layer->traits().is_loss;
      t.type = loss || t.dims.is_lengths || makes_float_logits(t) ? FloatType::kFloat : setup_.type;
      t.value = buffers.add(t.name, BufferKind::kActivation,
                            batch * t.columns * float_type_bytes(t.type));
    }
    if (!t.needs_grad) continue;
    if (t.grad == kNoBuffer)
      t.grad = buffers.add(t.name + ".grad", BufferKind::kGradient, batch * t.columns * size);
    if (t.consumers.size() > 1)
      for (size_t c = 0; c < t.consumers.size(); ++c)
        t.consumer_grads.push_back(buffers.add(fmt::format("{}.grad{}", t.name, c),
                                               BufferKind::kGradient, batch * t.columns * size));
  }
}

// Adds the buffers that a layer asks for itself.
void Network::add_layer_buffers(Buffers& buffers, LayerEntry& e) {
  using plan::BufferKind;
  LayerIo& io = e.io;
  const std::string& layer = e.layer->name();
  const auto activation = [&](const std::string& what, int64_t bytes) {
    return bytes == 0 ? kNoBuffer : buffers.add(layer + "." + what, BufferKind::kActivation, bytes);
  };
  io.workspace = activation("workspace", e.shape.workspace_bytes);
  if (setup_.relu_masks && !is_masked_by_values(e))
    io.relu_mask = activation("relu_mask", setup_.max_batch * e.shape.relu_mask_bytes);
  for (size_t i = 0; i < e.shape.kept.size(); ++i)
    io.kept.push_back(activation(fmt::format("kept{}", i), setup_.max_batch * e.shape.kept[i] *
                                                               float_type_bytes(setup_.type)));
  io.fixed = activation("fixed", e.shape.fixed_bytes);
  for (size_t i = 0; i < e.shape.rank_sums.size(); ++i) {
    const int64_t bytes = e.shape.rank_sums[i] * int64_t{sizeof(double)};
    const BufferId mine = activation(fmt::format("sums{}", i), bytes);
    io.rank_sums.push_back(
        {mine, io.gather ? activation(fmt::format("all_sums{}", i), bytes * io.ranks()) : mine});
  }
}

void Network::connect_layers(Buffers& buffers) {
  size_t running = 0;
  for (LayerEntry& e : layers_) {
    LayerIo& io = e.io;
    io.type = setup_.type;
    io.step = setup_.step;
    io.seed = setup_.seed;
    io.dense_parameters = parameter_buffer_;
    io.dense_gradients = gradient_buffer_;
    io.loss_scale = setup_.loss_scale;
    io.weight_gradient_lane = setup_.weight_gradient_lane;
    io.gather = setup_.gather;
    io.capacity_exceeded = setup_.capacity_exceeded;
    add_layer_buffers(buffers, e);
    for (size_t i = 0; i < e.shape.running.size(); ++i) {
      RunningTensor& t = running_[running++];
      t.value = buffers.add(t.name, plan::BufferKind::kState, elements(t.dims) * kFloatBytes);
      io.running.push_back(t.value);
    }
    for (const size_t p : e.params) io.params.push_back(parameters_[p].buffers);
    for (const size_t i : e.tops) {
      const TensorEntry& t = tensors_[i];
      io.tops.push_back({t.name, t.dims, t.value, t.grad, t.type, t.columns, offsets_of(t)});
    }
  }
  for (const TensorEntry& t : tensors_)
    for (size_t c = 0; c < t.consumers.size(); ++c) {
      LayerEntry& consumer = layers_[t.consumers[c].first];
      const bool cast = t.cast != kNoBuffer && !consumer.layer->traits().is_loss &&
                        !takes_as_lengths(t, t.consumers[c].first);
      consumer.io.bottoms.resize(consumer.bottoms.size());
      consumer.io.bottoms[t.consumers[c].second] = {
          t.name,
          t.dims,
          cast ? t.cast : t.value,
          t.consumer_grads.empty() ? t.grad : t.consumer_grads[c],
          cast ? setup_.type : t.type,
          t.columns,
          offsets_of(t)};
    }
  for (size_t i = 0; i < setup_.rows.size(); ++i) {
    if (!setup_.rows[i]) continue;
    HLITE_CHECK(makes_of_rows(i) && setup_.type != FloatType::kFloat, "no layer makes {} of rows",
                tensors_[i].name);
    const auto [layer, bottom] = tensors_[i].consumers[0];
    layers_[layer].io.bottoms[bottom].rows = setup_.rows[i];
  }
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (finds_gradient_overflow(i))
      layers_[tensors_[i].consumers[0].first].io.gradient_overflow = setup_.gradient_overflow;
}

// The loss reads float logits whatever the network does.
void Network::declare_logits(Buffers& buffers) {
  LayerTensor& z = layers_[loss_layer_].io.bottoms[0];
  if (z.type == FloatType::kFloat && layers_[loss_layer_].layer->traits().link == ops::Affine())
    return;
  output_ = z.value;
  output_type_ = z.type;
  z.value = buffers.add(z.name + ".float", plan::BufferKind::kActivation,
                        setup_.max_batch * tasks() * kFloatBytes);
  z.type = FloatType::kFloat;
}

// The inner product of one output below a loss of one task. The layer below it sums its own bias
// gradient, with its weights'.
void Network::find_head() {
  const LayerEntry& loss = layers_[loss_layer_];
  const LayerTraits& of = loss.layer->traits();
  const TensorEntry& z = tensors_[loss.bottoms[0]];
  if (!setup_.loss_heads || setup_.weight_gradient_lane == plan::Lane::kCompute ||
      !of.task_weights.empty() || of.link != ops::Affine() || !makes_float_logits(z))
    return;
  const auto layer = static_cast<size_t>(z.producer);
  const TensorEntry& x = tensors_[layers_[layer].bottoms[0]];
  if (x.needs_grad && x.cast == kNoBuffer && x.packed < 0 && rows_of_sample(x.dims) == 1 &&
      ops::loss_head_takes(x.columns * float_type_bytes(setup_.type)))
    head_ = layer;
}

// Returns true if a layer, no inner product, masks the gradient of bottom 0. Not on the CPU, where
// masking and the sum of the bias gradient are one pass.
bool Network::masks_by_values(const LayerEntry& e) const {
  return e.layer->traits().masks_by_values && setup_.weight_gradient_lane != plan::Lane::kCompute;
}

// Its ReLU needs no record: the head, or another layer, reads what it let pass anyway.
bool Network::is_masked_by_values(const LayerEntry& below) const {
  if (!below.layer->traits().is_inner_product) return false;
  const auto& consumers = tensors_[below.tops[0]].consumers;
  if (consumers.size() != 1 || consumers[0].second != 0) return false;
  return consumers[0].first == head_ || masks_by_values(layers_[consumers[0].first]);
}

void Network::fuse_backward() {
  for (LayerEntry& e : layers_) {
    if (!e.layer->traits().is_inner_product && !masks_by_values(e)) continue;
    const TensorEntry& x = tensors_[e.bottoms[0]];
    if (x.producer < 0 || x.consumers.size() != 1) continue;
    LayerEntry& below = layers_[static_cast<size_t>(x.producer)];
    if (!below.layer->traits().is_inner_product) continue;
    const auto& params = below.io.params;  // weight, and bias where it has one
    const bool sums = params.size() > 1 && setup_.weight_gradient_lane == plan::Lane::kCompute;
    e.io.below = {sums ? params[1].grad : kNoBuffer, below.layer->traits().has_relu,
                  below.io.relu_mask};
    below.io.dz_ready = true;
  }
  if (!head_) return;
  LayerIo& head = layers_[*head_].io;
  head.in_head = true;
  layers_[loss_layer_].io.head = {head.bottoms[0], head.params[0],
                                  head.params.size() > 1 ? head.params[1] : LayerParameter{},
                                  head.below.relu};
}

}  // namespace hlite::network
