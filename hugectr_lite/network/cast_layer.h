// Changes precision where mixed precision is on; with everything in fp32 it copies.
#pragma once

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

class CastLayer : public Layer {
 public:
  explicit CastLayer(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;
};

}  // namespace hlite::network
