// Layer: what every layer of the dense network implements.
//
// A layer reads its own block of the config, infers its shapes, lists its parameters, and adds its
// steps to a plan. It owns no memory and keeps no state between iterations.
//
// Gradient contract: emit_backward() overwrites (never adds to) the gradient of each bottom that
// has one. Where several layers consume a tensor, each writes its own gradient buffer and the
// network adds a step that sums them; a layer never knows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/network/initializer.h"
#include "hugectr_lite/plan/buffers.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::network {

using plan::BufferId;
using plan::Buffers;
using plan::kNoBuffer;

// Dimensions of one sample: {V} for a [B,V] tensor, {S,V} for [B,S,V].
using Dims = std::vector<int64_t>;
int64_t elements(const Dims& dims);
std::string to_string(const Dims& dims);  // "[B,27,128]"

// A tensor of the network as one of its layers sees it.
struct LayerTensor {
  std::string name;
  Dims dims;
  BufferId value = kNoBuffer;
  BufferId grad = kNoBuffer;  // kNoBuffer: nobody needs it
};

struct ParameterSpec {
  std::string suffix;  // "weight", "bias": the tensor is named <layer>.<suffix>
  Dims dims;
  Initializer initializer;
};

struct LayerParameter {
  BufferId value = kNoBuffer;
  BufferId grad = kNoBuffer;
};

// Where a layer's tensors and parameters live.
struct LayerIo {
  const Buffers* buffers = nullptr;
  std::vector<LayerTensor> bottoms, tops;
  std::vector<LayerParameter> params;  // in the order of Layer::parameters()
  BufferId step = kNoBuffer;           // int64: the number of this iteration, from 1
  uint64_t seed = 0;
  BufferId dense_parameters = kNoBuffer, dense_gradients = kNoBuffer;  // all layers', contiguous
  BufferId workspace = kNoBuffer;  // Layer::workspace_bytes(); nothing survives a step
  // Backward fusion. `below` is set when bottom 0 comes straight from an inner product that nobody
  // else reads: this layer's data gradient then also applies that layer's ReLU and sums its bias
  // gradient. That layer finds its own gradient finished: `dz_ready`.
  struct Below {
    BufferId bias_grad = kNoBuffer;
    bool relu = false;
  };
  Below below;
  bool dz_ready = false;
};

enum class Phase { kTrain, kEval };

class Layer {
 public:
  explicit Layer(config::ObjectReader& reader);
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] const config::JsonNode& node() const { return *node_; }
  // Tensors read and written, in the order of the config. Only the first of a fused inner product's
  // four names carries data.
  [[nodiscard]] const std::vector<std::string>& bottoms() const { return bottoms_; }
  [[nodiscard]] const std::vector<std::string>& tops() const { return tops_; }
  // How many of tops() carry data, from the front; the rest are names of the dialect only.
  [[nodiscard]] virtual size_t data_tops() const { return tops_.size(); }
  [[nodiscard]] virtual size_t data_bottoms() const { return bottoms_.size(); }

  // Shapes of the data tops from those of the data bottoms. Throws ConfigError with the JSON path.
  virtual std::vector<Dims> infer(const std::vector<Dims>& bottoms) = 0;
  // Valid after infer().
  [[nodiscard]] virtual std::vector<ParameterSpec> parameters() const { return {}; }
  [[nodiscard]] virtual std::string describe() const { return {}; }
  // Memory that steps of this layer need for themselves. Valid after infer().
  [[nodiscard]] virtual int64_t workspace_bytes() const { return 0; }
  // Whether a layer above may apply this layer's ReLU and bias gradient (see LayerIo::Below).
  [[nodiscard]] virtual bool is_inner_product() const { return false; }
  [[nodiscard]] virtual bool has_relu() const { return false; }
  [[nodiscard]] virtual bool is_loss() const { return false; }

  virtual void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const = 0;
  virtual void emit_backward(plan::Plan& plan, const LayerIo& io) const = 0;
  // Steps that need every dense gradient complete: a penalty on the parameters.
  virtual void emit_after_backward(plan::Plan&, const LayerIo&) const {}

 protected:
  // ConfigError unless there are `count` bottoms (tops).
  void expect_bottoms(size_t count) const;
  void expect_tops(size_t count) const;
  // ConfigError unless bottom i has `rank` dimensions beside the batch.
  void expect_rank(const Dims& dims, size_t rank, size_t i) const;

  std::string name_, type_;
  std::vector<std::string> bottoms_, tops_;

 private:
  const config::JsonNode* node_;
};

// Views of a buffer for the first `batch` samples.
Matrix<float> matrix(const Buffers& buffers, BufferId id, int64_t batch, int64_t width);
Vector<float> vector(const Buffers& buffers, BufferId id, int64_t n);
View<float, 3> cube(const Buffers& buffers, BufferId id, int64_t batch, const Dims& dims);

}  // namespace hlite::network
