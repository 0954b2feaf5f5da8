#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/network/activation_layer.h"

namespace hlite::network {

std::unique_ptr<Layer> make_relu(config::ObjectReader& reader) {
  return std::make_unique<ActivationLayer<ops::Relu>>(reader, ops::Relu{});
}

}  // namespace hlite::network
