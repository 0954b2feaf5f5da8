// y = max(x, 0), any shape.
#pragma once

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

class ReluLayer : public Layer {
 public:
  explicit ReluLayer(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;
};

}  // namespace hlite::network
