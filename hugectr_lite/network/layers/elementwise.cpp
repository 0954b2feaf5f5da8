// Layers of equal shapes, element by element: Add (y = x_1 + ... + x_n), Sub (x_1 - x_2) and
// ElementwiseMultiply (x_1 x_2 ... x_n), which older files call DotProduct although it sums
// nothing.
#include "hugectr_lite/ops/elementwise.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/reduce.h"

namespace hlite::network {
namespace {

using ops::Elementwise;

class ElementwiseLayer : public Layer {
 public:
  ElementwiseLayer(Block& s, Elementwise how) : Layer(s), how_(how) {
    s.about(how == Elementwise::kSum ? "Sum of tensors of one shape."
            : how == Elementwise::kDifference
                ? "Difference of two tensors."
                : "Product, element by element (`DotProduct` in older "
                  "files).");
    if (how == Elementwise::kDifference)
      expect_bottoms(s, 2);
    else if (bottoms().size() == 1)
      s.refuse("bottom", "expected at least 2 bottom tensors, found 1");
    expect_tops(s, 1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_equal_shapes(dims);
    return {.tops = {dims[0]}, .rows = Rows::kAlone};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    std::vector<BufferId> inputs;
    for (const LayerTensor& x : io.bottoms) inputs.push_back(x.value);
    add_elementwise_step(plan, io.type, name() + ".fprop", how_, inputs, io.tops[0].value,
                         io.tops[0]);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor& y = io.tops[0];
    for (size_t i = 0; i < io.bottoms.size(); ++i) {
      const std::string step = fmt::format("{}.bprop{}", name(), i);
      const BufferId dx = io.bottoms[i].grad;
      if (how_ == Elementwise::kProduct)
        add_elementwise_step(plan, io.type, step, how_, others(io, i), dx, y);
      else if (how_ == Elementwise::kDifference && i == 1)
        add_negation(plan, io, step);
      else
        add_copy_step(plan, io.type, step, y.grad, dx, y);
    }
  }

 private:
  // The factors of the gradient of bottom i. Not dy y / x_i, which knows nothing where y is 0.
  static std::vector<BufferId> others(const LayerIo& io, size_t i) {
    std::vector<BufferId> factors = {io.tops[0].grad};
    for (size_t j = 0; j < io.bottoms.size(); ++j)
      if (j != i) factors.push_back(io.bottoms[j].value);
    return factors;
  }
  static void add_negation(plan::Plan& plan, const LayerIo& io, const std::string& step) {
    const LayerTensor &x = io.bottoms[1], &y = io.tops[0];
    add_typed_step(plan, io.type, {.name = step, .reads = {y.grad, y.offsets}, .writes = {x.grad}},
                   [=]<typename T>(const StepViews<T>& v) {
                     const Vector<T> from = v.grads(y), to = v.grads(x);
                     ops::broadcast_axis<T>(v.exec, {from.data(), 1, from.size()}, -1,
                                            {to.data(), 1, 1, to.size()});
                   });
  }

  Elementwise how_;
};

}  // namespace

std::unique_ptr<Layer> make_add(Block& s) {
  return std::make_unique<ElementwiseLayer>(s, Elementwise::kSum);
}
std::unique_ptr<Layer> make_sub(Block& s) {
  return std::make_unique<ElementwiseLayer>(s, Elementwise::kDifference);
}
std::unique_ptr<Layer> make_elementwise_multiply(Block& s) {
  return std::make_unique<ElementwiseLayer>(s, Elementwise::kProduct);
}

}  // namespace hlite::network
