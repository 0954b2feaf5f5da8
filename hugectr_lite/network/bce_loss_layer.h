// Mean binary cross-entropy of logits [B,1] against labels [B,1], plus an optional penalty on every
// dense parameter: L1: lambda/B sum |w|; L2: lambda/(2B) sum w^2.
#pragma once

#include <optional>

#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/ops/regularizer.h"

namespace hlite::network {

class BceLossLayer : public Layer {
 public:
  explicit BceLossLayer(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool is_loss() const override { return true; }
  [[nodiscard]] int64_t workspace_bytes() const override;
  // Training: the loss and the gradient of the logits in one pass.
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;
  // Adds the penalty to the loss and its gradient to every dense gradient, once these are complete.
  void emit_after_backward(plan::Plan& plan, const LayerIo& io) const override;

 private:
  std::optional<ops::Penalty> penalty_;
  double lambda_ = 0;
};

}  // namespace hlite::network
