// Layers that an MLP stands for. Each `node` is the block of that MLP.
#pragma once

#include <memory>

#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/network/layer.h"

namespace hlite::network {

inline constexpr config::NumberRange kDropoutRates{.min = 0, .max = 0.9999};

struct InnerProductOptions {
  int64_t outputs = 1;
  bool relu = false, bias = true;
  InitializerType weight_init = InitializerType::kDefaultWeight,
                  bias_init = InitializerType::kDefaultBias;
};

// y = x w + b, or with a ReLU max(0, x w + b), with or without b.
std::unique_ptr<Layer> make_inner_product_part(const config::JsonNode& node, Wiring wiring,
                                               const InnerProductOptions& options);
std::unique_ptr<Layer> make_gelu_part(const config::JsonNode& node, Wiring wiring);
std::unique_ptr<Layer> make_dropout_part(const config::JsonNode& node, Wiring wiring, double rate);

// An inner product, whose LayerShape is `of`, of a sample's row and its history's rows
// (pair_product.cpp); bottoms: these two.
std::unique_ptr<Layer> make_pair_product(const config::JsonNode& node, Wiring wiring);
LayerShape pair_product_shape(LayerShape of, const Dims& history);

}  // namespace hlite::network
