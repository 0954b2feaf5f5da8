// Layer: what every layer of the dense network implements.
//
// A layer reads its own block of the config, infers its shapes and parameters, and adds its steps
// to a plan (typed_step.h, shared_steps.h). It owns no memory and keeps nothing but its config:
// what it says about itself is LayerTraits and LayerShape, and the network asks no more.
//
// Gradient contract: emit_backward() overwrites (never adds to) the gradient of each bottom that
// has one. Where several layers consume a tensor, each writes its own gradient buffer and the
// network adds a step that sums them; a layer never knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/network/initializer.h"
#include "hugectr_lite/ops/cast.h"
#include "hugectr_lite/plan/buffers.h"
#include "hugectr_lite/plan/gathered_rows.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::network {

using config::Block;
using config::kRequired;
using config::otherwise;
using plan::BufferId;
using plan::Buffers;
using plan::kNoBuffer;

// Dimensions of one sample: {V} for a [B,V] tensor, {S,V} for [B,S,V].
struct Dims : std::vector<int64_t> {
  using vector::vector;
  // {n,V} of a tensor [n B,V]: a Reshape gave it more rows than the batch has samples. The same
  // numbers in the same places as [B,n,V], but its dimension 1 is V.
  bool folded = false;
  // Of a history: the tensor of lengths that says how many of the sample's rows, from the front,
  // are valid; those after are zeros, or what a layer made of zeros. Empty: all rows count. Of such
  // lengths, [B,1]: their own name.
  std::string lengths = {};
  bool is_lengths = false;
  // Of the numbers alone.
  bool operator==(const Dims& other) const {
    return folded == other.folded &&
           static_cast<const std::vector<int64_t>&>(*this) == static_cast<const vector&>(other);
  }
};
// The lengths called `name`: always float, as 16 bits do not count far, and without a gradient.
Dims lengths_dims(std::string name);
int64_t elements(const Dims& dims);
// Rows of one sample seen as a matrix along the last dimension: [1,V] for {V}, [S,V] for {S,V}.
int64_t rows_of_sample(const Dims& dims);
inline int64_t width_of_row(const Dims& dims) { return elements(dims) / rows_of_sample(dims); }
std::string to_string(const Dims& dims);  // "[B,27,128]", "[26 B,11]"
// Width that tensor cores like, and multiple of rows in which weights are stored, the last ones
// zero: an input of 13 features can be 16 wide, and nothing else changes.
constexpr int64_t padded(int64_t n) { return (n + 7) / 8 * 8; }

// A tensor of the network as one of its layers sees it.
struct LayerTensor {
  std::string name = {};
  Dims dims = {};
  BufferId value = kNoBuffer;
  BufferId grad = kNoBuffer;           // of LayerIo::type; kNoBuffer: not needed
  FloatType type = FloatType::kFloat;  // of the value: LayerIo::type, or of logits float
  int64_t columns = 0;                 // of a sample in memory: elements(dims), or more,
                                       // where zeros pad what an inner product reads
  // Packed, of a history: its valid rows alone lie there, those of one sample after those of the
  // one before, or the last of them; and this says where each sample's begin, int64 [B+1], and then
  // which row of the history that is, [B]. kNoBuffer: all rows do.
  BufferId offsets = kNoBuffer;
  // Set in LayerShape::made_of_rows' bottom where no step has written the value: emit_forward()'s
  // first step does, too.
  std::optional<plan::GatheredRows> rows = {};
};

// How many rows a tensor has in a batch: so many of each sample, or as many as LayerTensor::offsets
// says.
struct RowCount {
  int64_t of_sample = 1;
  BufferId offsets = kNoBuffer;
};
inline RowCount rows_of(const LayerTensor& t) { return {rows_of_sample(t.dims), t.offsets}; }

struct ParameterSpec {
  std::string suffix;  // "weight", "bias": the tensor is named <layer>.<suffix>
  Dims dims;
  Initializer initializer;
};

// What a layer does with the rows of a history (Dims::lengths).
enum class Rows {
  kMixed,   // it mixes rows, or takes them for features, and does not know of lengths: refused
  kAlike,   // the same to each, padding too: its tops are of the same history
  kAlone,   // that, and a row of a top comes from those of the bottoms in its place alone: bottoms
            // and tops may be packed, all of them or none (LayerTensor::offsets)
  kCounted  // it knows which are valid, or need not; infer() sets Dims::lengths of its tops
};

// Facts that a layer states about itself, from its config.
struct LayerTraits {
  // The number of bottoms and tops that carry data, from the front; the rest are names of the
  // dialect only.
  size_t data_bottoms = 0, data_tops = 0;
  bool is_loss = false;  // its top is the mean loss; bottom 0: logits, which it reads as float
  // Set by a loss of several tasks, whose logits and labels are [B,T]; empty: one, [B,1].
  std::vector<float> task_weights = {};
  bool predicts_values = false;  // of a loss: logits are the values themselves, not log odds
  // Of a loss: its logits, and those of predictions, are this of the tensor that bottom 0 names.
  ops::Affine link = {};
  // y = x w + b of bottom 0, with parameters weight and perhaps bias, then a ReLU where `has_relu`.
  // Between two of them backward is fused (LayerIo::Below); padding of x (LayerTensor::columns) and
  // a float y are welcome.
  bool is_inner_product = false;
  bool has_relu = false;
  // Its top is its bottom under another name or shape, in the same memory; no steps.
  bool is_view = false;
  // It reads lengths as such: LayerTensor::type is then float, whatever LayerIo::type. To other
  // layers, lengths of the data are a feature like any other.
  bool takes_lengths = false;
  // One pass makes the gradients of all bottoms, wanted or not: all have a place, or none.
  bool joint_gradients = false;
  // It can mask the gradient of bottom 0 by the ReLU that made this (LayerIo::Below), as it reads
  // the values anyway.
  bool masks_by_values = false;
  // Bottoms in whose gradient emit_backward()'s steps look for NaN and infinity while they write
  // it, setting LayerIo::gradient_overflow to 1, so that no other step has to read it for that.
  std::vector<size_t> finds_gradient_overflow_in = {};
};

// Gives layers whose numbers are those of the whole batch what other ranks have of it. The trainer
// has the one implementation: the network knows no communicators.
class RankGather {
 public:
  virtual ~RankGather() = default;
  [[nodiscard]] virtual int ranks() const = 0;
  // Adds a step on lane comm: `all` <- `mine` of every rank, in the order of ranks. Collective.
  virtual void add_gather_step(plan::Plan& plan, const std::string& name, BufferId mine,
                               BufferId all) = 0;
};

// Bottoms of which a layer does not look at rows where `mask`, another bottom, is 0.
struct MaskedBottoms {
  size_t mask = 0;
  // Bottoms whose rows are the mask's columns, and those whose rows are its rows.
  std::vector<size_t> by_columns = {}, by_rows = {};
  // The mask is of the shape of these bottoms, whose columns then are its columns; and the top is 0
  // where it is.
  bool alike = false;
};

// Columns of an attention's heads: how many there are, and for how many a GPU has room.
struct HeadWidth {
  int64_t columns = 0, most_on_gpu = 0;
};

// The consequences for a layer of the shapes of its bottoms.
struct LayerShape {
  std::vector<Dims> tops;  // of those that carry data
  Rows rows = Rows::kMixed;
  std::vector<ParameterSpec> parameters = {};
  int64_t workspace_bytes = 0;  // LayerIo::workspace
  int64_t relu_mask_bytes = 0;  // LayerIo::relu_mask, a sample; 0: none
  // LayerIo::kept: numbers of a sample in each, of LayerIo::type; 0: none.
  std::vector<int64_t> kept = {};
  // Values that training learns in addition to the parameters, saved with them, and no optimizer
  // changes: LayerIo::running.
  std::vector<ParameterSpec> running = {};
  int64_t fixed_bytes = 0;              // LayerIo::fixed
  std::vector<int64_t> rank_sums = {};  // LayerIo::rank_sums: numbers in each
  std::string summary = {};             // of the layer, for people: "13 -> 512, ReLU"
  // What decides if the padding of a history can be left out (packing.h).
  bool is_mask = false;      // the top is 0 in rows beyond bottom 0, columns beyond bottom 1
  bool repeats_row = false;  // the top may be packed: one row of a sample, as often as asked for
  std::vector<size_t> by_sample = {};  // bottoms with one row a sample, where tops are packed
  std::optional<MaskedBottoms> masked = {};
  std::vector<size_t> takes_packed = {};  // bottoms that may be packed, whatever the others are
  // Of a layer that is not Rows::kAlone: its top may be packed, if these bottoms are as it is.
  std::optional<std::vector<size_t>> packs_with = {};
  bool zero_padding = false;  // of such a layer: padding of its top is 0, whoever reads it
  bool mixes_rows = false;    // of such a layer: the last rows of its top need all of bottom 0
  int64_t last_rows = 0;      // of bottom 0 it reads the last ones alone; 0: all
  HeadWidth heads = {};
  // A bottom that emit_forward()'s step can make itself, as it reads it: LayerTensor::rows. On a
  // GPU, in 16 bits.
  std::optional<size_t> made_of_rows = {};
};

struct LayerParameter {
  BufferId value = kNoBuffer;    // float
  BufferId grad = kNoBuffer;     // float
  BufferId working = kNoBuffer;  // the value as LayerIo::type, for matrix products; may be `value`
};

// Doubles that each rank sums over its samples: `mine` [n], and `all` [ranks,n], which is `mine` on
// one rank.
struct RankSums {
  BufferId mine = kNoBuffer, all = kNoBuffer;
};

// The places of a layer's tensors and parameters.
struct LayerIo {
  FloatType type = FloatType::kFloat;  // of activations and their gradients
  std::vector<LayerTensor> bottoms, tops;
  std::vector<LayerParameter> params;  // in the order of LayerShape::parameters
  BufferId step = kNoBuffer;           // int64: the number of this iteration, from 1
  uint64_t seed = 0;
  BufferId dense_parameters = kNoBuffer, dense_gradients = kNoBuffer;  // all layers', contiguous
  BufferId workspace = kNoBuffer;   // LayerShape::workspace_bytes; nothing survives a step
  std::vector<BufferId> kept;       // LayerShape::kept: from forward to backward
  BufferId fixed = kNoBuffer;       // the same, LayerShape::fixed_bytes whatever the batch
  std::vector<BufferId> running;    // float: LayerShape::running
  std::vector<RankSums> rank_sums;  // LayerShape::rank_sums
  RankGather* gather = nullptr;     // null on one rank
  [[nodiscard]] int64_t ranks() const { return gather ? gather->ranks() : 1; }
  // int32: not 0 if an exchange's capacity was exceeded; the run is then repeated and must change
  // nothing. kNoBuffer: there are no exchanges.
  BufferId capacity_exceeded = kNoBuffer;
  BufferId loss_scale = kNoBuffer;  // float: what the loss's gradient is multiplied by; or 1
  // int32: LayerTraits::finds_gradient_overflow_in. kNoBuffer: not needed.
  BufferId gradient_overflow = kNoBuffer;
  // The buffer where an inner product records which outputs its ReLU let pass, for backward to read
  // instead of the outputs. kNoBuffer: it reads the outputs.
  BufferId relu_mask = kNoBuffer;
  // No step reads gradients of weights, or biases, before the update: they can have their own lane.
  plan::Lane weight_gradient_lane = plan::Lane::kCompute;
  // `below` is set when bottom 0 comes straight from an inner product that no other layer reads, in
  // inner products, and on a GPU where LayerTraits::masks_by_values says so: this layer's data
  // gradient then also applies that layer's ReLU and, where both share a lane, sums its bias
  // gradient. That layer finds its own gradient masked: `dz_ready`.
  struct Below {
    BufferId bias_grad = kNoBuffer;
    bool relu = false;
    BufferId relu_mask = kNoBuffer;
  };
  Below below;
  bool dz_ready = false;
  // `head` is set in a loss whose step in training does the work of the inner product of one output
  // below it, too (ops/loss_head.h). That layer, which has no steps of its own then, is `in_head`.
  struct Head {
    LayerTensor x;
    LayerParameter weight, bias;
    bool relu = false;  // x is that of an inner product, which finds its gradient masked
  };
  std::optional<Head> head;
  bool in_head = false;
};

enum class Phase { kTrain, kEval };

// Name and type of a layer, and the names of the tensors that it reads and writes, in the order of
// the config.
struct Wiring {
  std::string name, type;
  std::vector<std::string> bottoms, tops;
};

class Layer {
 public:
  // Declares name, type, bottom and top; a layer declares its other keys in its own constructor,
  // which also runs to describe them (config/block.h).
  explicit Layer(Block& s);
  // One of the layers that the block `node` stands for.
  Layer(const config::JsonNode& node, Wiring wiring);
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] const std::string& name() const { return wiring_.name; }
  [[nodiscard]] const std::string& type() const { return wiring_.type; }
  [[nodiscard]] const config::JsonNode& node() const { return *node_; }
  // Only the first of a fused inner product's four names carries data.
  [[nodiscard]] const std::vector<std::string>& bottoms() const { return wiring_.bottoms; }
  [[nodiscard]] const std::vector<std::string>& tops() const { return wiring_.tops; }
  [[nodiscard]] const LayerTraits& traits() const { return traits_; }

  // From the shapes of the data bottoms. Throws ConfigError with the JSON path. Unless overridden:
  // one top of the shape of bottom 0, row by row.
  [[nodiscard]] virtual LayerShape infer(const std::vector<Dims>& bottoms) const;
  // Steps that make lengths among its tops.
  virtual void emit_lengths(plan::Plan&, const LayerIo&) const {}
  virtual void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const = 0;
  virtual void emit_backward(plan::Plan& plan, const LayerIo& io) const = 0;
  // Steps that need every dense gradient complete: a penalty on the parameters.
  virtual void emit_after_backward(plan::Plan&, const LayerIo&) const {}

 protected:
  // A fault of the block unless there are `count` bottoms (tops); one of each.
  void expect_bottoms(Block& s, size_t count) const;
  void expect_tops(Block& s, size_t count) const;
  void expect_one_each(Block& s) const;
  // ConfigError unless bottom i has `rank` dimensions besides the batch.
  void expect_rank(const Dims& dims, size_t rank, size_t i) const;
  // ConfigError unless bottom i is lengths, and those of bottom `of` where it is a history.
  void expect_lengths(const std::vector<Dims>& dims, size_t i, size_t of) const;
  // ConfigError unless all bottoms have the same shape.
  void expect_equal_shapes(const std::vector<Dims>& dims) const;

  LayerTraits traits_;  // data_bottoms and data_tops: all, unless the layer says less

 private:
  Wiring wiring_;
  const config::JsonNode* node_;  // null in a layer that only describes its keys
};

// Declares name, type, bottom and top; one tensor or more on either side.
Wiring declare_wiring(Block& s);
// A fault of the block unless the list under `key` ("bottom" or "top") has `count` names.
void expect_tensors(Block& s, const char* key, const std::vector<std::string>& names, size_t count);

// Views of a buffer. kNoBuffer: null, without rows or elements.
template <typename T>
T* pointer(const Buffers& buffers, BufferId id) {
  return id == kNoBuffer ? nullptr : buffers.data<T>(id);
}
template <typename T = float>
Matrix<T> matrix(const Buffers& buffers, BufferId id, int64_t rows, int64_t columns) {
  if (id == kNoBuffer) return {};
  return {buffers.data<T>(id), rows, columns};
}
template <typename T = float>
Vector<T> vector(const Buffers& buffers, BufferId id, int64_t n) {
  if (id == kNoBuffer) return {};
  return Vector<T>(buffers.data<T>(id), n);
}

}  // namespace hlite::network
