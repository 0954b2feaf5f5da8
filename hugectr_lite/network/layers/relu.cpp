// ReLU: y = max(x, 0), any shape.
#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

class ReluLayer : public Layer {
 public:
  explicit ReluLayer(config::ObjectReader& reader) : Layer(reader) {
    expect_bottoms(1);
    expect_tops(1);
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop", .reads = {x.value}, .writes = {y.value}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::relu_forward<T>(v.exec, v.values(x), v.values(y));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop", .reads = {y.value, y.grad}, .writes = {x.grad}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::relu_backward<T>(v.exec, v.values(y), v.grads(y), v.grads(x));
                   });
  }
};

}  // namespace

std::unique_ptr<Layer> make_relu(config::ObjectReader& reader) {
  return std::make_unique<ReluLayer>(reader);
}

}  // namespace hlite::network
