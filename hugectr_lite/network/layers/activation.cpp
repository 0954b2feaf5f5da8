// The layers of activations (ops/activation.h): one bottom, one top, any shape.
#include "hugectr_lite/ops/activation.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/network/layer_parts.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

template <typename F>
class ActivationLayer final : public Layer {
 public:
  // `about` describes it; `summary` names its parameters.
  ActivationLayer(Block& s, const F& f, const char* about, std::string summary = {})
      : Layer(s), f_(f), summary_(std::move(summary)) {
    s.about(about);
    expect_one_each(s);
  }
  ActivationLayer(const config::JsonNode& node, Wiring wiring, const F& f)
      : Layer(node, std::move(wiring)), f_(f) {}

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& bottoms) const override {
    return {.tops = {bottoms[0]}, .rows = Rows::kAlone, .summary = summary_};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop", .reads = {x.value, x.offsets}, .writes = {y.value}},
                   [=, f = f_]<typename T>(const StepViews<T>& v) {
                     // Other tensors keep the bits that models were trained with.
                     if constexpr (std::is_same_v<F, ops::Sigmoid>)
                       if (x.offsets != kNoBuffer)
                         return ops::sigmoid_by_vectors<T>(v.exec, v.values(x), v.values(y));
                     ops::activation_forward<T>(v.exec, f, v.values(x), v.values(y));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop",
                    .reads = {(F::kFromInput ? x : y).value, y.grad, y.offsets},
                    .writes = {x.grad}},
                   [=, f = f_]<typename T>(const StepViews<T>& v) {
                     ops::activation_backward<T>(v.exec, f, v.values(F::kFromInput ? x : y),
                                                 v.grads(y), v.grads(x));
                   });
  }

 private:
  F f_;
  std::string summary_;
};

}  // namespace

std::unique_ptr<Layer> make_relu(Block& s) {
  return std::make_unique<ActivationLayer<ops::Relu>>(s, ops::Relu{}, "max(x, 0).");
}

std::unique_ptr<Layer> make_elu(Block& s) {
  std::optional<float> alpha;
  if (auto param = s.object("elu_param", "Its parameters.", kRequired))
    param->number("alpha", &alpha, {.min = 0, .max = 1e6}, "The limit for small x is -alpha.",
                  kRequired);
  const ops::Elu elu{.alpha = alpha.value_or(1)};
  return std::make_unique<ActivationLayer<ops::Elu>>(s, elu, "x, or alpha (e^x - 1) below 0.",
                                                     fmt::format("alpha {}", elu.alpha));
}

std::unique_ptr<Layer> make_sigmoid(Block& s) {
  return std::make_unique<ActivationLayer<ops::Sigmoid>>(s, ops::Sigmoid{}, "1 / (1 + e^-x).");
}

std::unique_ptr<Layer> make_tanh(Block& s) {
  return std::make_unique<ActivationLayer<ops::Tanh>>(s, ops::Tanh{}, "tanh x.");
}

std::unique_ptr<Layer> make_silu(Block& s) {
  return std::make_unique<ActivationLayer<ops::Silu>>(s, ops::Silu{}, "Extension: x / (1 + e^-x).");
}

std::unique_ptr<Layer> make_gelu(Block& s) {
  return std::make_unique<ActivationLayer<ops::Gelu>>(
      s, ops::Gelu{}, "x Φ(x), with the normal distribution Φ: exact, as PyTorch's default.");
}

std::unique_ptr<Layer> make_gelu_part(const config::JsonNode& node, Wiring wiring) {
  return std::make_unique<ActivationLayer<ops::Gelu>>(node, std::move(wiring), ops::Gelu{});
}

}  // namespace hlite::network
