// y = x w + b, and its fused spelling y = relu(x w + b).   x [B,in], w [in,out], b [out], y [B,out]
//
// FusedInnerProduct comes in chains: a Head and each Body name four tops (the output, then the
// names the original gives to mask, dReLU scratch and bias gradient), which the next Body or Tail
// takes as its four bottoms. Only the first carries data here; the others must match, so that a
// broken chain is an error and not a disconnected net.
#pragma once

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

class InnerProductBase : public Layer {
 public:
  explicit InnerProductBase(config::ObjectReader& reader);
  std::vector<Dims> infer(const std::vector<Dims>& bottoms) override;
  [[nodiscard]] std::vector<ParameterSpec> parameters() const override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool is_inner_product() const override { return true; }
  [[nodiscard]] bool has_relu() const override { return relu_; }
  [[nodiscard]] int64_t relu_mask_bytes() const override;
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override;
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override;

 protected:
  bool relu_ = false;

 private:
  template <typename T>
  void emit_backward_as(plan::Plan& plan, const LayerIo& io) const;

  int64_t in_ = 0, out_ = 0;
  InitializerType weight_init_ = InitializerType::kDefaultWeight;
  InitializerType bias_init_ = InitializerType::kDefaultBias;
};

class InnerProductLayer : public InnerProductBase {
 public:
  explicit InnerProductLayer(config::ObjectReader& reader);
};

class FusedInnerProductLayer : public InnerProductBase {
 public:
  explicit FusedInnerProductLayer(config::ObjectReader& reader);
  [[nodiscard]] size_t data_tops() const override { return 1; }
  [[nodiscard]] size_t data_bottoms() const override { return 1; }
};

}  // namespace hlite::network
