// ELU: y = x where x > 0, else alpha (e^x - 1), any shape.
#include "hugectr_lite/ops/elu.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

class EluLayer : public Layer {
 public:
  explicit EluLayer(config::ObjectReader& reader) : Layer(reader) {
    auto elu = reader.object("elu_param");
    alpha_ = static_cast<float>(elu.number("alpha", {.min = 0, .max = 1e6}));
    elu.finish();
    expect_bottoms(1);
    expect_tops(1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    return {.tops = {dims[0]}, .summary = fmt::format("alpha {}", alpha_)};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop", .reads = {x.value}, .writes = {y.value}},
                   [=, alpha = alpha_]<typename T>(const StepViews<T>& v) {
                     ops::elu_forward<T>(v.exec, v.values(x), alpha, v.values(y));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop", .reads = {y.value, y.grad}, .writes = {x.grad}},
                   [=, alpha = alpha_]<typename T>(const StepViews<T>& v) {
                     ops::elu_backward<T>(v.exec, v.values(y), v.grads(y), alpha, v.grads(x));
                   });
  }

 private:
  float alpha_ = 1;
};

}  // namespace

std::unique_ptr<Layer> make_elu(config::ObjectReader& reader) {
  return std::make_unique<EluLayer>(reader);
}

}  // namespace hlite::network
