#include "hugectr_lite/network/layer_registry.h"

#include <algorithm>
#include <map>

#include "hugectr_lite/network/add_layer.h"
#include "hugectr_lite/network/bce_loss_layer.h"
#include "hugectr_lite/network/cast_layer.h"
#include "hugectr_lite/network/concat_layer.h"
#include "hugectr_lite/network/dropout_layer.h"
#include "hugectr_lite/network/inner_product_layer.h"
#include "hugectr_lite/network/interaction_layer.h"
#include "hugectr_lite/network/relu_layer.h"
#include "hugectr_lite/network/reshape_layer.h"
#include "hugectr_lite/network/slice_layer.h"

namespace hlite::network {
namespace {
template <typename L>
std::unique_ptr<Layer> make(config::ObjectReader& reader) {
  return std::make_unique<L>(reader);
}

using Maker = std::unique_ptr<Layer> (*)(config::ObjectReader&);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> list = {
      {"Add", make<AddLayer>},
      {"BinaryCrossEntropyLoss", make<BceLossLayer>},
      {"Cast", make<CastLayer>},
      {"Concat", make<ConcatLayer>},
      {"Dropout", make<DropoutLayer>},
      {"FusedInnerProduct", make<FusedInnerProductLayer>},
      {"InnerProduct", make<InnerProductLayer>},
      {"Interaction", make<InteractionLayer>},
      {"ReLU", make<ReluLayer>},
      {"Reshape", make<ReshapeLayer>},
      {"Slice", make<SliceLayer>},
  };
  return list;
}

// Layers of the dialect that are refused by name.
const std::vector<std::string>& unsupported_types() {
  static const std::vector<std::string> list = {
      "BatchNorm", "CrossEntropyLoss", "DotProduct",           "ELU", "FmOrder2", "MultiCross",
      "Multiply",  "ReduceSum",        "MultiCrossEntropyLoss"};
  return list;
}
}  // namespace

std::vector<std::string> layer_types() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return names;
}

std::unique_ptr<Layer> make_layer(const config::JsonNode& node, bool strict) {
  config::ObjectReader reader(node, strict);
  const std::string type = reader.string("type");
  const auto it = makers().find(type);
  if (it == makers().end()) {
    const config::JsonNode& at = reader.member("type");
    const auto& refused = unsupported_types();
    if (std::find(refused.begin(), refused.end(), type) != refused.end())
      config::fail_at(at, fmt::format("layer type \"{}\" is known, but not supported yet", type));
    auto known = layer_types();
    known.insert(known.end(), {"HybridSparseEmbedding", "LocalizedSlotSparseEmbeddingOneHot"});
    const std::string best = config::closest(type, known);
    config::fail_at(
        at, best.empty()
                ? fmt::format("expected one of {}, found \"{}\"", fmt::join(known, ", "), type)
                : fmt::format("unknown layer type \"{}\"; did you mean \"{}\"?", type, best));
  }
  auto layer = it->second(reader);
  reader.finish();
  return layer;
}

}  // namespace hlite::network
