#include "hugectr_lite/ops/tanh.h"

#include "hugectr_lite/network/activation_layer.h"

namespace hlite::network {

std::unique_ptr<Layer> make_tanh(config::ObjectReader& reader) {
  return std::make_unique<ActivationLayer<ops::Tanh>>(reader, ops::Tanh{});
}

}  // namespace hlite::network
