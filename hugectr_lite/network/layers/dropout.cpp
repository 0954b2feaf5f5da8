// Dropout, inverted: y = x m / (1 - rate), m in {0, 1} from counter-based random numbers, so that
// the mask of an iteration does not depend on threads, ranks or a resume. Evaluation copies.
#include "hugectr_lite/ops/dropout.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

// The mask of this rank's samples in this iteration.
ops::DropoutMask mask_now(ops::DropoutMask mask, const Buffers& buffers, BufferId step,
                          int64_t first_element) {
  mask.step = pointer<int64_t>(buffers, step);
  mask.first_element = first_element;
  return mask;
}

class DropoutLayer : public Layer {
 public:
  explicit DropoutLayer(config::ObjectReader& reader) : Layer(reader) {
    rate_ = reader.number_or("rate", 0.5, {.min = 0, .max = 0.9999});
    expect_one_each();
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    return {.tops = {dims[0]}, .summary = fmt::format("rate {}", rate_)};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    if (phase == Phase::kEval)
      return add_copy_step(plan, io.type, name() + ".fprop", x.value, y.value, y.dims);
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop", .reads = {x.value, io.step}, .writes = {y.value}},
                   [=, mask = mask(io), step = io.step]<typename T>(const StepViews<T>& v) {
                     ops::dropout_forward<T>(
                         v.exec, v.values(x), v.values(y),
                         mask_now(mask, v.buffers, step, v.context.first_row * elements(y.dims)));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop", .reads = {y.grad, io.step}, .writes = {x.grad}},
                   [=, mask = mask(io), step = io.step]<typename T>(const StepViews<T>& v) {
                     ops::dropout_backward<T>(
                         v.exec, v.grads(y), v.grads(x),
                         mask_now(mask, v.buffers, step, v.context.first_row * elements(y.dims)));
                   });
  }

 private:
  // All but step and first element.
  [[nodiscard]] ops::DropoutMask mask(const LayerIo& io) const {
    return {.rate = static_cast<float>(rate_),
            .seed = io.seed,
            .stream = random::stream_of(name() + ".mask")};
  }

  double rate_ = 0.5;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(config::ObjectReader& reader) {
  return std::make_unique<DropoutLayer>(reader);
}

}  // namespace hlite::network
