// DLRM's pairwise dot products. Bottoms: the MLP vector [B,V] and the embedding vectors [B,n,V].
// Top: [B, V + n(n+1)/2 + 1]; the layout is that of ops/interaction.h.
#pragma once

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

class InteractionLayer : public Layer {
 public:
  explicit InteractionLayer(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool finds_overflow(size_t bottom) const override { return bottom == 1; }
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;

 private:
  int64_t slots_ = 0, width_ = 0;
};

}  // namespace hlite::network
