// Softmax along the last dimension of a tensor of any shape, of `factor` (1) times its numbers
// (ops/softmax.h). A second bottom of the same shape is a mask: where it is 0, next to nothing, and
// in a row of which nothing counts, 0.
#include "hugectr_lite/ops/softmax.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

class SoftmaxLayer : public Layer {
 public:
  explicit SoftmaxLayer(Block& s) : Layer(s) {
    s.about(
        "Softmax along the last dimension; a second bottom is a mask, and a row without any 1 there becomes 0.");
    s.number("factor", &factor_, {}, "Numbers are multiplied by it first.");
    if (bottoms().size() != 2) expect_bottoms(s, 1);
    expect_tops(s, 1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_equal_shapes(dims);
    std::string summary = factor_ == 1 ? "" : fmt::format("factor {}", factor_);
    if (dims.size() == 2) summary += summary.empty() ? "masked" : ", masked";
    LayerShape shape = {.tops = {dims[0]}, .rows = Rows::kAlike, .summary = summary};
    if (dims.size() == 2)
      shape.masked = {.mask = 1, .by_columns = {0}, .by_rows = {0}, .alike = true};
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const BufferId mask = io.bottoms.size() == 2 ? io.bottoms[1].value : kNoBuffer;
    add_typed_step(
        plan, io.type, {.name = name() + ".fprop", .reads = {x.value, mask}, .writes = {y.value}},
        [=, factor = factor_]<typename T>(const StepViews<T>& v) {
          ops::softmax_forward<T>(v.exec, rows(v, x.value, x.dims), rows(v, mask, x.dims), factor,
                                  rows(v, y.value, x.dims));
        });
  }

  // A mask that is computed learns nothing.
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(
        plan, io.type, {.name = name() + ".bprop", .reads = {y.value, y.grad}, .writes = {x.grad}},
        [=, factor = factor_]<typename T>(const StepViews<T>& v) {
          ops::softmax_backward<T>(v.exec, rows(v, y.value, x.dims), rows(v, y.grad, x.dims),
                                   factor, rows(v, x.grad, x.dims));
        });
    if (io.bottoms.size() == 2)
      add_columns_step(plan, io.type, name() + ".no_gradient", {}, io.bottoms[1].grad,
                       elements(x.dims));
  }

 private:
  template <typename T>
  static Matrix<T> rows(const StepViews<T>& v, BufferId id, const Dims& dims) {
    return matrix<T>(v.buffers, id, v.batch * rows_of_sample(dims), dims.back());
  }

  float factor_ = 1;
};

}  // namespace

std::unique_ptr<Layer> make_softmax(Block& s) { return std::make_unique<SoftmaxLayer>(s); }

}  // namespace hlite::network
