#include "hugectr_lite/ops/sigmoid.h"

#include "hugectr_lite/network/activation_layer.h"

namespace hlite::network {

std::unique_ptr<Layer> make_sigmoid(config::ObjectReader& reader) {
  return std::make_unique<ActivationLayer<ops::Sigmoid>>(reader, ops::Sigmoid{});
}

}  // namespace hlite::network
