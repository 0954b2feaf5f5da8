#include "hugectr_lite/ops/elu.h"

#include "hugectr_lite/network/activation_layer.h"

namespace hlite::network {

std::unique_ptr<Layer> make_elu(config::ObjectReader& reader) {
  auto param = reader.object("elu_param");
  const ops::Elu elu{.alpha = static_cast<float>(param.number("alpha", {.min = 0, .max = 1e6}))};
  param.finish();
  return std::make_unique<ActivationLayer<ops::Elu>>(reader, elu,
                                                     fmt::format("alpha {}", elu.alpha));
}

}  // namespace hlite::network
