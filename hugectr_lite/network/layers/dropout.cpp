// Dropout, inverted: y = x m / (1 - rate), m in {0, 1} from counter-based random numbers, so that
// the mask of an iteration does not depend on threads, ranks or a resume. Evaluation copies.
#include "hugectr_lite/ops/dropout.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/network/layer_parts.h"
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"

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
    add_mask_step(plan, io, name() + ".fprop", x.value, y.value);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    add_mask_step(plan, io, name() + ".bprop", io.tops[0].grad, io.bottoms[0].grad);
  }

 private:
  // `to` = `from`, under the mask of this rank's samples in this iteration; that of a row does not
  // depend on packing.
  void add_mask_step(plan::Plan& plan, const LayerIo& io, std::string step_name, BufferId from,
                     BufferId to) const {
    const ops::DropoutMask mask = {.rate = static_cast<float>(rate_),
                                   .seed = io.seed,
                                   .stream = random::stream_of(name() + ".mask")};
    add_typed_step(plan, io.type,
                   {.name = std::move(step_name),
                    .reads = {from, io.step, io.tops[0].offsets},
                    .writes = {to}},
                   [=, y = io.tops[0], step = io.step]<typename T>(const StepViews<T>& v) {
                     ops::DropoutMask now = mask;
                     now.step = pointer<int64_t>(v.buffers, step);
                     now.first_element = v.context.first_row * elements(y.dims);
                     const Vector<T> x = v.flat(from, y), out = v.flat(to, y);
                     if (y.offsets == kNoBuffer) return ops::dropout<T>(v.exec, x, out, now);
                     for (int64_t b = 0; b < v.batch; ++b, now.first_element += elements(y.dims)) {
                       const int64_t* const at = v.offsets(y.offsets).row(b);
                       const int64_t width = y.dims.back();
                       ops::dropout<T>(v.exec, x.rows(at[0] * width, at[1] * width),
                                       out.rows(at[0] * width, at[1] * width), now);
                     }
                   });
  }

  double rate_ = 0.5;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(Block& s) { return std::make_unique<DropoutLayer>(s); }

std::unique_ptr<Layer> make_dropout_part(const config::JsonNode& node, Wiring wiring, double rate) {
  return std::make_unique<DropoutLayer>(node, std::move(wiring), rate);
}

}  // namespace hlite::network
