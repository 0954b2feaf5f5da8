// Layers of inner products: y = x w + b, or with a ReLU max(0, x w + b), with or without b.
#pragma once

#include <memory>

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

struct InnerProductOptions {
  int64_t outputs = 1;
  bool relu = false, bias = true;
  InitializerType weight_init = InitializerType::kDefaultWeight,
                  bias_init = InitializerType::kDefaultBias;
};

// One of those that the block `node` stands for.
std::unique_ptr<Layer> make_inner_product_part(const config::JsonNode& node, Wiring wiring,
                                               const InnerProductOptions& options);

}  // namespace hlite::network
