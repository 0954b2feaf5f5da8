// The layers of activations (ops/activation.h): one bottom, one top, any shape.
#include "hugectr_lite/ops/activation.h"

#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

template <typename F>
class ActivationLayer final : public Layer {
 public:
  // `summary`: its parameters, for people.
  ActivationLayer(config::ObjectReader& reader, const F& f, std::string summary = {})
      : Layer(reader), f_(f), summary_(std::move(summary)) {
    expect_one_each();
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& bottoms) const override {
    return {.tops = {bottoms[0]}, .summary = summary_};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop", .reads = {x.value}, .writes = {y.value}},
                   [=, f = f_]<typename T>(const StepViews<T>& v) {
                     ops::activation_forward<T>(v.exec, f, v.values(x), v.values(y));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop", .reads = {y.value, y.grad}, .writes = {x.grad}},
                   [=, f = f_]<typename T>(const StepViews<T>& v) {
                     ops::activation_backward<T>(v.exec, f, v.values(y), v.grads(y), v.grads(x));
                   });
  }

 private:
  F f_;
  std::string summary_;
};

}  // namespace

std::unique_ptr<Layer> make_relu(config::ObjectReader& reader) {
  return std::make_unique<ActivationLayer<ops::Relu>>(reader, ops::Relu{});
}

std::unique_ptr<Layer> make_elu(config::ObjectReader& reader) {
  auto param = reader.object("elu_param");
  const ops::Elu elu{.alpha = static_cast<float>(param.number("alpha", {.min = 0, .max = 1e6}))};
  param.finish();
  return std::make_unique<ActivationLayer<ops::Elu>>(reader, elu,
                                                     fmt::format("alpha {}", elu.alpha));
}

std::unique_ptr<Layer> make_sigmoid(config::ObjectReader& reader) {
  return std::make_unique<ActivationLayer<ops::Sigmoid>>(reader, ops::Sigmoid{});
}

std::unique_ptr<Layer> make_tanh(config::ObjectReader& reader) {
  return std::make_unique<ActivationLayer<ops::Tanh>>(reader, ops::Tanh{});
}

}  // namespace hlite::network
