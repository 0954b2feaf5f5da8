#include "hugectr_lite/network/network.h"

#include <fmt/format.h>

#include <algorithm>

#include "hugectr_lite/config/problems.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/layer_registry.h"
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {
// The alignment of parameters, in bytes: their 16-bit copies then begin at multiples of 256, as
// matrix libraries like best.
constexpr int64_t kAlignment = 512;
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
int64_t stored_elements(const Dims& dims) {
  return dims.size() == 2 ? padded(dims[0]) * dims[1] : elements(dims);
}

// The node that names tensor i of a layer's `bottom` or `top`, for the path in a message.
const config::JsonNode& name_node(const Layer& layer, const char* key, size_t i) {
  const config::JsonNode* node = layer.node().find(key);
  return node->kind() == config::JsonNode::Kind::kArray ? node->elements()[i] : *node;
}
}  // namespace

Network::Network(const std::vector<const config::JsonNode*>& layers, bool strict,
                 std::vector<NetworkInput> inputs)
    : inputs_(std::move(inputs)) {
  for (const NetworkInput& input : inputs_) {
    TensorEntry t;
    t.name = input.name;
    t.dims = input.dims;
    t.needs_grad = input.needs_grad;
    t.is_label = input.is_label;
    t.has_weight = input.has_weight;
    t.is_known = input.is_known;
    tensors_.push_back(std::move(t));
  }
  config::Problems problems;
  for (const config::JsonNode* node : layers) {
    std::vector<std::unique_ptr<Layer>> made;
    bool good = problems.collect([&] { made = make_layers(*node, strict); });
    for (auto& layer : made) good = problems.collect([&] { add_layer(std::move(layer)); }) && good;
    const config::JsonNode* top = node->find("top");
    std::vector<std::string> tops;
    if (!good && top && config::Problems().collect([&] { tops = config::to_strings(*top); }))
      add_unknown(tops);
  }
  const bool known = std::all_of(inputs_.begin(), inputs_.end(),
                                 [](const NetworkInput& input) { return input.is_known; });
  if (problems.empty() && known)
    problems.collect([&] {
      check_loss();
      check_chains_end();
      find_unused();
    });
  problems.raise();
}

// Tops of a layer with a fault: layers that read them are not to blame.
void Network::add_unknown(const std::vector<std::string>& tops) {
  for (const std::string& name : tops) {
    const bool there = std::any_of(tensors_.begin(), tensors_.end(),
                                   [&](const TensorEntry& t) { return t.name == name; });
    if (there) continue;
    TensorEntry t;
    t.name = name;
    t.is_known = false;
    tensors_.push_back(std::move(t));
  }
}

void Network::check_loss() {
  const auto is_loss = [](const LayerEntry& e) { return e.layer->traits().is_loss; };
  const auto loss = std::find_if(layers_.begin(), layers_.end(), is_loss);
  if (loss == layers_.end())
    throw ConfigError(
        "layers: expected a loss (BinaryCrossEntropyLoss) as the last layer, found none");
  const auto second = std::find_if(loss + 1, layers_.end(), is_loss);
  if (second != layers_.end())
    config::fail_at(
        second->layer->node(),
        fmt::format(
            "expected one loss layer, found a second after \"{}\"; the loss of several tasks "
            "is a MultiCrossEntropyLoss of all their logits, with a target_weight for each",
            loss->layer->name()));
  loss_layer_ = static_cast<size_t>(loss - layers_.begin());
}

size_t Network::find_tensor(const Layer& layer, const std::string& name) const {
  std::vector<std::string> known;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) return i;
    known.push_back(tensors_[i].name);
  }
  const auto& bottoms = layer.bottoms();
  const auto i =
      static_cast<size_t>(std::find(bottoms.begin(), bottoms.end(), name) - bottoms.begin());
  const config::JsonNode& at = name_node(layer, "bottom", i);
  const std::string best = config::closest(name, known);
  if (!best.empty())
    config::fail_at(
        at, fmt::format("no layer before this one makes a tensor \"{}\"; did you mean \"{}\"?",
                        name, best));
  config::fail_at(at, fmt::format("no layer before this one makes a tensor \"{}\"; there are {}",
                                  name, fmt::join(known, ", ")));
}

// Names the tensors that the layer to be added makes.
void Network::add_tops(LayerEntry& entry, bool needs_grad) {
  const Layer& layer = *entry.layer;
  const size_t index = layers_.size();
  for (size_t i = 0; i < layer.tops().size(); ++i) {
    const std::string& name = layer.tops()[i];
    const auto refuse = [&](const std::string& where) {
      config::fail_at(name_node(layer, "top", i),
                      fmt::format("tensor \"{}\" is made twice: {} makes it too", name, where));
    };
    const auto maker = [&](size_t owner) {
      return owner < index ? layers_[owner].layer->node().path() : std::string("this layer");
    };
    for (const TensorEntry& t : tensors_)
      if (t.name == name)
        refuse(t.producer < 0 ? "the input" : maker(static_cast<size_t>(t.producer)));
    for (const auto& [alias, owner] : aliases_)
      if (alias == name) refuse(maker(owner));
    if (i >= layer.traits().data_tops) {
      aliases_.emplace_back(name, index);
      continue;
    }
    TensorEntry t;
    t.name = name;
    t.dims = entry.shape.tops[i];
    t.producer = static_cast<int>(index);
    t.needs_grad = needs_grad && !layer.traits().is_loss && !t.dims.is_lengths;
    t.is_label = !layer.traits().is_loss && tensors_[entry.bottoms[0]].is_label;
    entry.tops.push_back(tensors_.size());
    tensors_.push_back(std::move(t));
  }
}

void Network::add_layer(std::unique_ptr<Layer> made) {
  LayerEntry entry;
  entry.layer = std::move(made);
  Layer& layer = *entry.layer;
  const config::JsonNode& node = layer.node();
  const size_t index = layers_.size();
  for (const LayerEntry& other : layers_)
    if (other.layer->name() == layer.name())
      config::fail_at(node.find("name") ? *node.find("name") : node,
                      fmt::format("expected a name of its own, found \"{}\", the name of {} too",
                                  layer.name(), other.layer->node().path()));
  std::vector<Dims> bottoms;
  bool needs_grad = false;
  for (size_t i = 0; i < layer.traits().data_bottoms; ++i) {
    const size_t t = find_tensor(layer, layer.bottoms()[i]);
    entry.bottoms.push_back(t);
    bottoms.push_back(tensors_[t].dims);
    tensors_[t].consumers.emplace_back(index, i);
    needs_grad |= tensors_[t].needs_grad;
  }
  const bool known = std::all_of(entry.bottoms.begin(), entry.bottoms.end(),
                                 [&](size_t t) { return tensors_[t].is_known; });
  check_labels(entry);
  if (!known) return add_unknown(layer.tops());
  check_chain(layer);
  entry.shape = layer.infer(bottoms);
  follow_history(entry);
  if (!entry.shape.parameters.empty() && tensors_[entry.bottoms[0]].is_label)
    config::fail_at(name_node(layer, "bottom", 0),
                    fmt::format("expected features, found the labels \"{}\"; only a loss reads "
                                "labels",
                                layer.bottoms()[0]));
  needs_grad |= !entry.shape.parameters.empty();
  for (const ParameterSpec& spec : entry.shape.parameters) {
    entry.params.push_back(parameters_.size());
    parameters_.push_back({layer.name() + "." + spec.suffix,
                           spec.dims,
                           spec.initializer,
                           parameter_bytes_,
                           stored_elements(spec.dims),
                           {}});
    parameter_bytes_ += aligned(parameters_.back().stored * static_cast<int64_t>(sizeof(float)));
  }
  for (const ParameterSpec& spec : entry.shape.running)
    running_.push_back({layer.name() + "." + spec.suffix, spec.dims, spec.initializer});
  add_tops(entry, needs_grad);
  if (layer.traits().joint_gradients && needs_grad)
    for (const size_t t : entry.bottoms) tensors_[t].needs_grad = !tensors_[t].dims.is_lengths;
  describe(entry);
  layers_.push_back(std::move(entry));
}

void Network::describe(const LayerEntry& entry) {
  DescribedLayer of = {entry.layer->name(), entry.layer->type(), "", entry.shape.summary};
  for (const size_t p : entry.params) of.parameters += elements(parameters_[p].dims);
  for (const size_t t : entry.tops)
    of.outputs +=
        (of.outputs.empty() ? "" : " ") +
        (entry.layer->traits().is_loss ? std::string("scalar") : to_string(tensors_[t].dims));
  described_.push_back(std::move(of));
}

// A layer that treats all rows alike hands on whose they are; one that mixes them without counting
// would take padding for events.
void Network::follow_history(LayerEntry& entry) const {
  const Layer& layer = *entry.layer;
  const Rows rows = entry.shape.rows;
  const std::string* history = nullptr;
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    const TensorEntry& t = tensors_[entry.bottoms[i]];
    const config::JsonNode& at = name_node(layer, "bottom", i);
    if (t.dims.is_lengths) {
      if (!layer.traits().takes_lengths && t.producer >= 0)
        config::fail_at(at, fmt::format("expected features, found \"{}\", which are the lengths of "
                                        "a history that a layer made",
                                        t.name));
      continue;
    }
    if (entry.shape.is_mask && t.producer >= 0)
      config::fail_at(at, fmt::format("expected lengths, of a history or as a dense feature, found "
                                      "\"{}\", which a layer computes",
                                      t.name));
    if (t.dims.lengths.empty() || rows == Rows::kCounted) continue;
    if (rows == Rows::kMixed)
      config::fail_at(at,
                      fmt::format("expected a tensor without history, as a {} does not know "
                                  "which of its rows are valid, found \"{}\" {} of lengths "
                                  "\"{}\"; ReduceMean, ReduceSum or SequenceLast with these, or "
                                  "a Reshape, come before it",
                                  layer.type(), t.name, to_string(t.dims), t.dims.lengths));
    if (history && *history != t.dims.lengths)
      config::fail_at(at, fmt::format("expected tensors of one history, found one of lengths "
                                      "\"{}\" and \"{}\" of lengths \"{}\"",
                                      *history, t.name, t.dims.lengths));
    history = &t.dims.lengths;
  }
  if (rows == Rows::kCounted) return;
  for (Dims& top : entry.shape.tops) {
    top.lengths = history ? *history : "";
    top.is_lengths = false;
  }
}

// The four bottoms of a Body or Tail must be the four tops of one layer, in order; the two of an
// MLP or Head those of an Interaction, whose second names its gradient.
void Network::check_chain(const Layer& layer) const {
  if (layer.bottoms().size() == layer.traits().data_bottoms) return;
  for (const LayerEntry& e : layers_)
    if (e.layer->tops() == layer.bottoms()) return;
  const std::string tops =
      layer.bottoms().size() == 2
          ? "the two tops of one Interaction"
          : fmt::format("the four tops of one {} in position Head or Body", layer.type());
  config::fail_at(*layer.node().find("bottom"),
                  fmt::format("expected {}, in their order, found other names", tops));
}

// Labels may be sliced or reshaped on their way to the loss, but a network that reads them as
// features learns nothing.
void Network::check_labels(const LayerEntry& entry) const {
  const Layer& layer = *entry.layer;
  const bool is_loss = layer.traits().is_loss;
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    const TensorEntry& t = tensors_[entry.bottoms[i]];
    const config::JsonNode& at = name_node(layer, "bottom", i);
    if (!t.is_known || !tensors_[entry.bottoms[0]].is_known) continue;
    if (is_loss && i == 0 && t.is_label)
      config::fail_at(at, fmt::format("expected logits as the first bottom of a loss, found the "
                                      "labels \"{}\"; the labels are its second bottom",
                                      t.name));
    if (is_loss && i == 1 && !t.is_label)
      config::fail_at(
          at, fmt::format("expected labels as the second bottom of a loss, found \"{}\"", t.name));
    if (!is_loss && t.has_weight)
      config::fail_at(at, fmt::format("expected a loss as the only layer that reads the labels "
                                      "\"{}\", as these have a sample_weight, found {}",
                                      t.name, layer.type()));
    if (!is_loss && t.is_label != tensors_[entry.bottoms[0]].is_label)
      config::fail_at(at, fmt::format("expected either labels or features as bottoms, found \"{}\" "
                                      "and \"{}\"; only a loss reads both",
                                      layer.bottoms()[0], t.name));
  }
}

// A tensor that no layer reads is usually a slip, and harmless: HugeCTR trains such a model too.
void Network::find_unused() {
  const auto warn = [&](const config::JsonNode& at, const std::string& name) {
    warnings_.push_back(
        fmt::format("{}: {}: tensor \"{}\" is not used by any layer", at.where(), at.path(), name));
  };
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorEntry& t = tensors_[i];
    if (!t.consumers.empty()) continue;
    if (t.producer < 0) {
      if (elements(t.dims) > 0 && inputs_[i].source) warn(*inputs_[i].source, t.name);
      continue;
    }
    const Layer& layer = *layers_[static_cast<size_t>(t.producer)].layer;
    if (layer.traits().is_loss) continue;
    const auto at = static_cast<size_t>(
        std::find(layer.tops().begin(), layer.tops().end(), t.name) - layer.tops().begin());
    warn(name_node(layer, "top", at), t.name);
  }
}

void Network::check_chains_end() const {
  for (const auto& [name, owner] : aliases_) {
    const Layer& layer = *layers_[owner].layer;
    if (!layer.traits().is_inner_product) continue;  // an Interaction's second top may stay unused
    const bool used = std::any_of(layers_.begin(), layers_.end(), [&](const LayerEntry& e) {
      return e.layer->bottoms() == layer.tops();
    });
    if (!used)
      config::fail_at(*layer.node().find("top"),
                      fmt::format("expected a {} in position Body or Tail that takes these four "
                                  "tensors, found none",
                                  layer.type()));
  }
}

// A sum of several layers' gradients can overflow where none of them does.
bool Network::finds_gradient_overflow(size_t input) const {
  const TensorEntry& t = tensors_[input];
  if (setup_.gradient_overflow == kNoBuffer || t.grad == kNoBuffer || t.consumers.size() != 1)
    return false;
  const auto [layer, bottom] = t.consumers[0];
  const auto& found = layers_[layer].layer->traits().finds_gradient_overflow_in;
  return std::find(found.begin(), found.end(), bottom) != found.end();
}

bool Network::makes_of_rows(size_t input) const {
  const auto& consumers = tensors_[input].consumers;
  return consumers.size() == 1 &&
         layers_[consumers[0].first].shape.made_of_rows == consumers[0].second;
}

BufferId Network::loss() const { return layers_[loss_layer_].io.tops[0].value; }
BufferId Network::logits() const { return layers_[loss_layer_].io.bottoms[0].value; }

const std::vector<float>& Network::task_weights() const {
  return layers_[loss_layer_].layer->traits().task_weights;
}
bool Network::predicts_values() const {
  return layers_[loss_layer_].layer->traits().predicts_values;
}
int64_t Network::tasks() const { return std::max<int64_t>(1, std::ssize(task_weights())); }

void Network::emit_logits(plan::Plan& plan) const {
  if (output_ == kNoBuffer) return;
  const LayerEntry& loss = layers_[loss_layer_];
  const LayerTensor& z = loss.io.bottoms[0];
  const ops::Affine& link = loss.layer->traits().link;
  if (link == ops::Affine())
    return add_cast_to_float(plan, output_type_, z.name + ".to_float", output_, z.value, tasks());
  add_affine_step(plan, output_type_, loss.layer->name() + ".link", link, output_, z.value,
                  tasks());
}

void Network::emit_forward(plan::Plan& plan, Phase phase) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (const TensorEntry& t = tensors_[i]; t.cast != kNoBuffer)
      add_cast_from_float(
          plan, setup_.type, t.name + (t.type == setup_.type ? ".pad" : ".cast"),
          {.from = t.value, .to = t.cast, .width = elements(t.dims), .columns = t.columns});
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerEntry& e = layers_[i];
    if (e.layer->traits().is_loss) emit_logits(plan);
    e.layer->emit_lengths(plan, e.io);
    emit_offsets(plan, static_cast<int>(i));
    e.layer->emit_forward(plan, e.io, phase);
  }
}

// Sums the gradients that the readers of a tensor wrote; without a reader they are zeros.
void Network::emit_gradient_sum(plan::Plan& plan, const TensorEntry& t) const {
  if (t.consumers.empty() && t.grad != kNoBuffer)
    add_columns_step(plan, setup_.type, t.name + ".zero", {}, t.grad, elements(t.dims));
  if (!t.consumer_grads.empty())
    add_elementwise_step(plan, setup_.type, t.name + ".gsum", ops::Elementwise::kSum,
                         t.consumer_grads, t.grad, {.dims = t.dims, .offsets = offsets_of(t)});
}

void Network::emit_backward(plan::Plan& plan) const {
  for (size_t i = layers_.size(); i-- > 0;) {
    const LayerEntry& e = layers_[i];
    // Every reader of this layer's tops has run: add up what they wrote.
    for (const size_t t : e.tops) emit_gradient_sum(plan, tensors_[t]);
    const bool useful =
        std::any_of(e.tops.begin(), e.tops.end(), [&](size_t t) { return tensors_[t].needs_grad; });
    if (useful || e.layer->traits().is_loss) e.layer->emit_backward(plan, e.io);
  }
  for (size_t t = 0; t < inputs_.size(); ++t) emit_gradient_sum(plan, tensors_[t]);
}

void Network::emit_after_backward(plan::Plan& plan) const {
  for (const LayerEntry& e : layers_) e.layer->emit_after_backward(plan, e.io);
}

}  // namespace hlite::network
