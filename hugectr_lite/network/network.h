// Network: the dense layers of a config, wired by tensor name.
//
// Built in three steps, so that everything can be checked and sized before memory is taken:
//   Network(...)  parses the layers, wires them, infers every shape; ConfigError with a line for
//                 everything that does not fit (keys; unknown, duplicate, unused or later tensor,
//                 broken chain, shape), as far as it does not follow from another fault
//   declare()     names the buffers: activations, gradients, parameters
//   emit_*()      adds the layers' steps to a plan
//
// All parameters lie in one buffer and all their gradients in another of the same layout, each
// tensor at a multiple of 512 bytes, so an all-reduce or an optimizer takes them in one go.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

// A tensor that comes from outside: dense features, labels, an embedding layer's vectors.
struct NetworkInput {
  std::string name;
  Dims dims;
  bool needs_grad = false;                   // an embedding wants the gradient of its output
  const config::JsonNode* source = nullptr;  // the block that makes it, for messages
  FloatType type = FloatType::kFloat;        // float, or NetworkSetup::type
  bool is_label = false;                     // only the loss may read it, as its second bottom
  bool has_weight = false;  // of a label: one more number in each row, which the loss alone reads
  bool is_known = true;     // false: what makes it is faulty, and so are its dims
  bool may_be_packed = false;  // it, and its gradient, may be as Network::input_offsets() says
};

// Settings that the network's steps work with.
struct NetworkSetup {
  int64_t max_batch = 0;
  std::vector<BufferId> inputs;  // a buffer for each, in the order given to the constructor
  // Empty, or one for each input: set for those that are still to be made of rows.
  std::vector<std::optional<plan::GatheredRows>> rows = {};
  BufferId step = kNoBuffer;  // int64: the number of this iteration, from 1
  uint64_t seed = 0;
  // The buffer of the parameters' gradients; kNoBuffer: a buffer of their own.
  BufferId gradients = kNoBuffer;

  // The type of activations and their gradients. With a 16-bit one (on a GPU) float inputs are cast
  // on their way in, parameters have working copies of that type, which the optimizer keeps up to
  // date, and logits, loss, and gradients of parameters stay float.
  FloatType type = FloatType::kFloat;
  BufferId loss_scale = kNoBuffer;  // float: what the loss's gradient is multiplied by; or 1
  // int32: set to 1 by backward steps for NaN or infinity in the gradients of those inputs that
  // finds_gradient_overflow() names. kNoBuffer: not needed.
  BufferId gradient_overflow = kNoBuffer;
  // Inputs that inner products alone read get columns of zeros, to a multiple of 8, that tensor
  // cores can load them; weights have rows of zeros for them. With a 16-bit type they always do.
  bool pad_inputs = false;
  bool relu_masks = false;  // forward writes which outputs ReLUs let pass, for backward
  bool loss_heads = false;  // LayerIo::Head, where the shapes allow it
  plan::Lane weight_gradient_lane = plan::Lane::kCompute;
  // Padding of histories is left out where no layer looks at it (packing.h). Of a GPU's: false.
  bool packs_histories = false;
  RankGather* gather = nullptr;            // LayerIo's; must outlive the plans
  BufferId capacity_exceeded = kNoBuffer;  // LayerIo's
};

// A tensor that training learns in addition to the parameters: <layer>.running_mean.
struct RunningTensor {
  std::string name;
  Dims dims;
  Initializer initializer;
  BufferId value = kNoBuffer;  // float; valid after declare()
};

struct DenseParameter {
  std::string name;  // <layer>.weight
  Dims dims;
  Initializer initializer;
  int64_t offset = 0;      // bytes into the parameter buffer (and gradient and state buffers)
  int64_t stored = 0;      // elements there: those of dims, and rows of zeros to a multiple of 8
  LayerParameter buffers;  // valid after declare()
};

// A history that tensors are packed by: LayerTensor::offsets.
struct PackedHistory {
  std::string lengths;
  int64_t rows = 0;  // of a sample, padding included
  int64_t last = 0;  // the last of its valid rows, so many; 0: all
  BufferId offsets = kNoBuffer;
};

// A layer of the config, for people.
struct DescribedLayer {
  std::string name, type, outputs, summary;
  int64_t parameters = 0;
};

class Network {
 public:
  Network(const std::vector<const config::JsonNode*>& layers, bool strict,
          std::vector<NetworkInput> inputs);

  struct LayerEntry {
    std::unique_ptr<Layer> layer;
    LayerShape shape;
    std::vector<size_t> bottoms, tops;  // tensors that carry data
    std::vector<size_t> params;
    LayerIo io;
  };
  struct TensorEntry {
    std::string name;
    Dims dims;
    int producer = -1;  // layer, or -1: an input
    bool needs_grad = false;
    bool is_label = false;    // an input of labels, or a tensor made of nothing but labels
    bool has_weight = false;  // NetworkInput::has_weight
    bool is_known = true;     // false: made by a layer with a fault, or from such tensors
    std::vector<std::pair<size_t, size_t>> consumers;  // (layer, bottom)
    BufferId value = kNoBuffer, grad = kNoBuffer;
    FloatType type = FloatType::kFloat;    // of the value
    int64_t columns = 0;                   // of a sample in memory (LayerTensor)
    std::vector<BufferId> consumer_grads;  // where there is more than one
    // Set for a float input in a 16-bit network, or one that is padded: what layers read in its
    // place.
    BufferId cast = kNoBuffer;
    int packed = -1;  // which of the packed histories it is of (packing.h); -1: it is not packed
  };

  // After declare() those that run, which packing changes (packing.h).
  [[nodiscard]] const std::vector<LayerEntry>& layers() const { return layers_; }
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<DenseParameter>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<RunningTensor>& running() const { return running_; }
  // Tensors that no layer reads, a line for each with its place. Their gradient is zero.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] const std::vector<DescribedLayer>& described() const { return described_; }
  [[nodiscard]] int64_t parameter_bytes() const { return parameter_bytes_; }  // padding included

  // Returns true if NetworkSetup::rows may have this input: of the layers only one reads it, which
  // can make it.
  [[nodiscard]] bool makes_of_rows(size_t input) const;

  void declare(Buffers& buffers, const NetworkSetup& setup);
  // Valid after declare(): where the gradient of an input ends up.
  [[nodiscard]] BufferId input_grad(size_t input) const { return tensors_[input].grad; }
  // Where the rows of an input begin (LayerTensor::offsets) that all layers read packed; or
  // kNoBuffer. With packs_histories.
  [[nodiscard]] BufferId input_offsets(size_t input) const { return offsets_of(tensors_[input]); }
  // Returns true if backward steps check its gradient for NetworkSetup::gradient_overflow.
  [[nodiscard]] bool finds_gradient_overflow(size_t input) const;
  // Where the rows of each sample of a packed tensor begin, and the end; empty: it is not packed.
  [[nodiscard]] std::span<const int64_t> offsets(const Buffers& buffers, const TensorEntry& tensor,
                                                 int64_t batch) const {
    const BufferId id = offsets_of(tensor);
    if (id == kNoBuffer) return {};
    return {buffers.data<int64_t>(id), static_cast<size_t>(batch) + 1};
  }
  [[nodiscard]] BufferId parameter_buffer() const { return parameter_buffer_; }
  [[nodiscard]] BufferId gradient_buffer() const { return gradient_buffer_; }
  // All parameters rounded to NetworkSetup::type, in the same places; parameter_buffer() for float.
  [[nodiscard]] BufferId working_buffer() const { return working_buffer_; }
  [[nodiscard]] BufferId loss() const;    // float: mean loss of the batch
  [[nodiscard]] BufferId logits() const;  // float [B,1], of several tasks [B,T]
  // LayerTraits::task_weights, and how many tasks there are.
  [[nodiscard]] const std::vector<float>& task_weights() const;
  [[nodiscard]] int64_t tasks() const;
  // LayerTraits::predicts_values
  [[nodiscard]] bool predicts_values() const;

  // Adds what comes before all other steps: where the rows of the data's histories begin.
  void emit_input_offsets(plan::Plan& plan) const { emit_offsets(plan, -1); }
  void emit_forward(plan::Plan& plan, Phase phase) const;
  void emit_backward(plan::Plan& plan) const;
  // Adds what comes after the gradients have been summed over ranks: regularizers.
  void emit_after_backward(plan::Plan& plan) const;

 private:
  size_t find_tensor(const Layer& layer, const std::string& name) const;
  void add_layer(std::unique_ptr<Layer> made);
  void describe(const LayerEntry& entry);
  void add_unknown(const std::vector<std::string>& tops);
  void check_loss();
  void add_tops(LayerEntry& entry, bool needs_grad);
  void check_chain(const Layer& layer) const;
  void follow_history(LayerEntry& entry) const;
  void check_labels(const LayerEntry& entry) const;
  void find_unused();
  void check_chains_end() const;
  void emit_gradient_sum(plan::Plan& plan, const TensorEntry& t) const;
  void declare_parameters(Buffers& buffers);
  void view_bottom(TensorEntry& top) const;
  void declare_tensors(Buffers& buffers);
  void connect_layers(Buffers& buffers);
  void add_layer_buffers(Buffers& buffers, LayerEntry& entry);
  void declare_logits(Buffers& buffers);
  void emit_logits(plan::Plan& plan) const;
  void find_head();
  [[nodiscard]] bool masks_by_values(const LayerEntry& layer) const;
  [[nodiscard]] bool is_masked_by_values(const LayerEntry& below) const;
  void fuse_backward();
  void declare_offsets(Buffers& buffers);
  void emit_offsets(plan::Plan& plan, int producer) const;
  [[nodiscard]] BufferId offsets_of(const TensorEntry& tensor) const;
  [[nodiscard]] bool makes_float_logits(const TensorEntry& tensor) const;
  [[nodiscard]] bool feeds_inner_products_only(const TensorEntry& tensor) const;
  [[nodiscard]] bool takes_as_lengths(const TensorEntry& tensor, size_t layer) const;
  [[nodiscard]] bool pads(const TensorEntry& tensor) const;

  std::vector<DescribedLayer> described_;
  std::vector<LayerEntry> layers_;
  std::vector<TensorEntry> tensors_;
  std::vector<NetworkInput> inputs_;
  std::vector<DenseParameter> parameters_;
  std::vector<RunningTensor> running_;
  // Names of the dialect that carry no data: (name, layer that lists it as a top).
  std::vector<std::pair<std::string, size_t>> aliases_;
  std::vector<std::string> warnings_;
  int64_t parameter_bytes_ = 0;
  NetworkSetup setup_;
  BufferId parameter_buffer_ = kNoBuffer, gradient_buffer_ = kNoBuffer, working_buffer_ = kNoBuffer;
  size_t loss_layer_ = 0;
  std::optional<size_t> head_;  // the layer that is LayerIo::in_head
  std::vector<PackedHistory> packed_;
  // What the layer below the loss wrote, where logits have a buffer of their own: float, by
  // LayerTraits::link.
  BufferId output_ = kNoBuffer;
  FloatType output_type_ = FloatType::kFloat;
};

}  // namespace hlite::network
