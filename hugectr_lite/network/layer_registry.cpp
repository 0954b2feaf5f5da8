#include "hugectr_lite/network/layer_registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/config/embedding_types.h"

// clang-format off
// Type in a config, and the function of layers/*.cpp that makes one. GROUP: the layers that it
// stands for.
#define HLITE_LAYERS(LAYER, GROUP)                           \
  LAYER("Add",                    make_add)                  \
  LAYER("BatchNorm",              make_batch_norm)           \
  LAYER("BinaryCrossEntropyLoss", make_bce_loss)             \
  LAYER("Cast",                   make_cast)                 \
  LAYER("Concat",                 make_concat)               \
  LAYER("DotProduct",             make_elementwise_multiply) \
  LAYER("Dropout",                make_dropout)              \
  LAYER("ELU",                    make_elu)                  \
  LAYER("ElementwiseMultiply",    make_elementwise_multiply) \
  LAYER("FmOrder2",               make_fm_order2)            \
  LAYER("FusedInnerProduct",      make_fused_inner_product)  \
  LAYER("FusedReshapeConcat",     make_fused_reshape_concat) \
  LAYER("GELU",                   make_gelu)                 \
  LAYER("GRU",                    make_gru)                  \
  LAYER("HSTU",                   make_hstu)                 \
  LAYER("InnerProduct",           make_inner_product)        \
  LAYER("Interaction",            make_interaction)          \
  LAYER("LayerNorm",              make_layer_norm)           \
  GROUP("MLP",                    make_mlp)                  \
  LAYER("MSELoss",                make_mse_loss)             \
  LAYER("MatrixMultiply",         make_matrix_multiply)      \
  LAYER("MultiCross",             make_multi_cross)          \
  LAYER("MultiCrossEntropyLoss",  make_multi_cross_entropy_loss) \
  LAYER("MultiHeadAttention",     make_multi_head_attention) \
  LAYER("Multiply",               make_weight_multiply)      \
  LAYER("PReLU_Dice",             make_prelu_dice)           \
  LAYER("PositionEmbedding",      make_position_embedding)   \
  LAYER("ReLU",                   make_relu)                 \
  LAYER("ReduceMean",             make_reduce_mean)          \
  LAYER("ReduceSum",              make_reduce_sum)           \
  LAYER("Reshape",                make_reshape)              \
  LAYER("Scale",                  make_scale)                \
  LAYER("SequenceConcat",         make_sequence_concat)      \
  LAYER("SequenceLast",           make_sequence_last)        \
  LAYER("SequenceMask",           make_sequence_mask)        \
  LAYER("SiLU",                   make_silu)                 \
  LAYER("Sigmoid",                make_sigmoid)              \
  LAYER("Slice",                  make_slice)                \
  LAYER("Softmax",                make_softmax)              \
  LAYER("Sub",                    make_sub)                  \
  LAYER("Tanh",                   make_tanh)                 \
  LAYER("Transpose",              make_transpose)            \
  LAYER("WeightMultiply",         make_weight_multiply)
// clang-format on

namespace hlite::network {

using Layers = std::vector<std::unique_ptr<Layer>>;

#define HLITE_DECLARE(type, make) std::unique_ptr<Layer> make(Block& s);
#define HLITE_DECLARE_GROUP(type, make) Layers make(Block& s);
HLITE_LAYERS(HLITE_DECLARE, HLITE_DECLARE_GROUP)
#undef HLITE_DECLARE
#undef HLITE_DECLARE_GROUP

namespace {
struct LayerLine {
  const char* type;
  Layers (*make)(Block&);
};

template <std::unique_ptr<Layer> (*kMake)(Block&)>
Layers make_one(Block& s) {
  Layers one;
  one.push_back(kMake(s));
  return one;
}

#define HLITE_LINE(type, make) {type, make_one<make>},
#define HLITE_GROUP_LINE(type, make) {type, make},
constexpr LayerLine kLayers[] = {HLITE_LAYERS(HLITE_LINE, HLITE_GROUP_LINE)};
#undef HLITE_LINE
#undef HLITE_GROUP_LINE

// Layers of the dialect that are refused by name.
constexpr const char* kUnsupportedTypes[] = {"CrossEntropyLoss", "Gather",
                                             "GroupFusedInnerProduct"};

[[noreturn]] void refuse(const config::JsonNode& at, const std::string& type) {
  if (std::find(std::begin(kUnsupportedTypes), std::end(kUnsupportedTypes), type) !=
      std::end(kUnsupportedTypes))
    config::fail_at(at, fmt::format("layer type \"{}\" is known, but not supported yet", type));
  if (config::embedding_type(type))
    config::fail_at(at, fmt::format("expected embedding layers before all dense layers, found "
                                    "\"{}\" after one",
                                    type));
  auto known = layer_types();
  for (const auto& embedding : config::kEmbeddingTypes) known.emplace_back(embedding.name);
  const std::string best = config::closest(type, known);
  config::fail_at(
      at, best.empty()
              ? fmt::format("expected one of {}, found \"{}\"", fmt::join(known, ", "), type)
              : fmt::format("unknown layer type \"{}\"; did you mean \"{}\"?", type, best));
}
}  // namespace

std::vector<std::string> layer_types() {
  std::vector<std::string> names;
  for (const LayerLine& line : kLayers) names.emplace_back(line.type);
  return names;
}

static const LayerLine* find_line(const std::string& type) {
  const auto line = std::find_if(std::begin(kLayers), std::end(kLayers),
                                 [&](const LayerLine& l) { return l.type == type; });
  return line == std::end(kLayers) ? nullptr : line;
}

Layers make_layers(const config::JsonNode& node, bool strict) {
  const std::string type = config::to_string(config::member(node, "type"));
  const LayerLine* line = find_line(type);
  if (!line) refuse(*node.find("type"), type);
  config::Problems problems;
  Layers layers;
  {
    Block s(node, strict, problems);
    layers = line->make(s);
  }
  problems.raise();
  return layers;
}

config::BlockSchema describe_layer(const std::string& type) {
  config::BlockSchema schema;
  Block s(schema);
  find_line(type)->make(s);
  return schema;
}

}  // namespace hlite::network
