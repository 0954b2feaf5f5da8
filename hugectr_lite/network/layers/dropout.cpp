// Dropout, inverted: y = x m / (1 - rate), m in {0, 1} from counter-based random numbers, so that
// the mask of an iteration does not depend on threads, ranks or a resume. Evaluation copies.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/network/layer_parts.h"
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {

class DropoutLayer : public Layer {
 public:
  explicit DropoutLayer(Block& s) : Layer(s) {
    s.about(
        "Sets numbers to 0 at random and scales the others by 1 / (1 - rate). Evaluation copies.");
    s.number("rate", &rate_, kDropoutRates, "Share of numbers that become 0.");
    expect_one_each(s);
  }
  DropoutLayer(const config::JsonNode& node, Wiring wiring, double rate)
      : Layer(node, std::move(wiring)), rate_(rate) {}

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    return {.tops = {dims[0]}, .rows = Rows::kAlone, .summary = fmt::format("rate {}", rate_)};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    if (phase == Phase::kEval)
      return add_copy_step(plan, io.type, name() + ".fprop", x.value, y.value, y);
    add_dropout_step(plan, io, mask(), name() + ".fprop", x.value, y.value, y);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor& y = io.tops[0];
    add_dropout_step(plan, io, mask(), name() + ".bprop", y.grad, io.bottoms[0].grad, y);
  }

 private:
  [[nodiscard]] DropoutSpec mask() const { return {rate_, random::stream_of(name() + ".mask")}; }
  double rate_ = 0.5;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(Block& s) { return std::make_unique<DropoutLayer>(s); }

std::unique_ptr<Layer> make_dropout_part(const config::JsonNode& node, Wiring wiring, double rate) {
  return std::make_unique<DropoutLayer>(node, std::move(wiring), rate);
}

}  // namespace hlite::network
