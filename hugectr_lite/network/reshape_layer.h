// [B,S,V] -> [B, S*V], or, with `selected`, the vectors of the named slots side by side.
// `leading_dim`, when given, must be the width that comes out: a batch cannot change its size here.
#pragma once

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

class ReshapeLayer : public Layer {
 public:
  explicit ReshapeLayer(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  [[nodiscard]] std::string describe() const override;
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;

 private:
  bool has_selected_ = false;
  std::vector<int64_t> selected_;
  int64_t leading_dim_ = 0;  // 0: not given
  int64_t slots_ = 1, width_ = 0;
};

}  // namespace hlite::network
