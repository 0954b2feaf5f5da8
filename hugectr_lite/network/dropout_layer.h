// Inverted dropout: y = x m / (1 - rate), m in {0, 1} from counter-based random numbers, so that
// the mask of an iteration does not depend on threads, ranks or a resume. Evaluation copies.
#pragma once

#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/ops/dropout.h"

namespace hlite::network {

class DropoutLayer : public Layer {
 public:
  explicit DropoutLayer(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  [[nodiscard]] std::string describe() const override;
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;

 private:
  // All but step and first element.
  [[nodiscard]] ops::DropoutMask mask(const LayerIo& io) const;

  double rate_ = 0.5;
};

}  // namespace hlite::network
