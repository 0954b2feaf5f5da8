// Cast: a change of precision in the original. Here all activations of a network have one type,
// so it changes nothing.
#include "hugectr_lite/network/layer.h"

namespace hlite::network {
namespace {

class CastLayer : public Layer {
 public:
  explicit CastLayer(Block& s) : Layer(s) {
    s.about("Accepted, without effect: all activations of a network have one type here.");
    expect_one_each(s);
    traits_.is_view = true;
  }

  void emit_forward(plan::Plan&, const LayerIo&, Phase) const override {}
  void emit_backward(plan::Plan&, const LayerIo&) const override {}
};

}  // namespace

std::unique_ptr<Layer> make_cast(Block& s) { return std::make_unique<CastLayer>(s); }

}  // namespace hlite::network
