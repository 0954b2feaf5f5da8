// Joins [B,w_i] tensors side by side: [B, sum of w_i].
#pragma once

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

class ConcatLayer : public Layer {
 public:
  explicit ConcatLayer(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;

 private:
  std::vector<int64_t> widths_;
};

}  // namespace hlite::network
