// Cast: a change of precision in the original. Here all activations of a network have one type,
// so it copies.
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {

class CastLayer : public Layer {
 public:
  explicit CastLayer(config::ObjectReader& reader) : Layer(reader) {
    expect_bottoms(1);
    expect_tops(1);
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_copy_step(plan, io.type, name() + ".fprop", x.value, y.value, x.dims);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_copy_step(plan, io.type, name() + ".bprop", y.grad, x.grad, x.dims);
  }
};

}  // namespace

std::unique_ptr<Layer> make_cast(config::ObjectReader& reader) {
  return std::make_unique<CastLayer>(reader);
}

}  // namespace hlite::network
