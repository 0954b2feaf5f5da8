// Cuts columns [begin, end) of a [B,w] tensor into one top per range. Ranges may overlap: gradients
// add up.
#pragma once

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

class SliceLayer : public Layer {
 public:
  explicit SliceLayer(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  [[nodiscard]] std::string describe() const override;
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;
  int64_t width_ = 0;
};

}  // namespace hlite::network
