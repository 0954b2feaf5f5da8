// ReduceSum and ReduceMean: the sum, or mean, along dimension `axis` of the tensor, which becomes 1
// long: [B,w] -> [B,1] for axis 1; [B,S,V] -> [B,1,V] for axis 1, [B,S,1] for axis 2.
#include "hugectr_lite/ops/reduce.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

class ReduceLayer : public Layer {
 public:
  ReduceLayer(config::ObjectReader& reader, bool mean)
      : Layer(reader), mean_(mean), axis_(reader.integer("axis", {.min = 0})) {
    expect_one_each();
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& bottoms) const override {
    const Dims& x = bottoms[0];
    const auto last = static_cast<int64_t>(x.size()) - (x.folded ? 1 : 0);
    if (axis_ < 1 || axis_ > last)
      config::fail_expected(
          *node().find("axis"),
          fmt::format("an axis of \"{}\" {} beside the batch, 1 to {}; sums over samples are not "
                      "supported",
                      this->bottoms()[0], to_string(x), last));
    Dims top = x;
    top[reduced(x)] = 1;
    return {.tops = {top}};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(
        plan, io.type, {.name = name() + ".fprop", .reads = {x.value}, .writes = {y.value}},
        [=, cut = cut_of(x.dims)]<typename T>(const StepViews<T>& v) {
          ops::reduce_axis<T>(v.exec, cut.cube(v, x.value), cut.scale, cut.rows(v, y.value));
        });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(
        plan, io.type, {.name = name() + ".bprop", .reads = {y.grad}, .writes = {x.grad}},
        [=, cut = cut_of(x.dims)]<typename T>(const StepViews<T>& v) {
          ops::broadcast_axis<T>(v.exec, cut.rows(v, y.grad), cut.scale, cut.cube(v, x.grad));
        });
  }

 private:
  // A sample as [outer,n,inner], of which n is summed.
  struct Cut {
    int64_t outer = 1, n = 1, inner = 1;
    float scale = 1;
    template <typename T>
    View<T, 3> cube(const StepViews<T>& v, BufferId id) const {
      return {v.buffers.template data<T>(id), v.batch * outer, n, inner};
    }
    template <typename T>
    Matrix<T> rows(const StepViews<T>& v, BufferId id) const {
      return {v.buffers.template data<T>(id), v.batch * outer, inner};
    }
  };
  // Which of the Dims.
  [[nodiscard]] size_t reduced(const Dims& x) const {
    return static_cast<size_t>(axis_) - (x.folded ? 0 : 1);
  }
  [[nodiscard]] Cut cut_of(const Dims& x) const {
    Cut cut;
    for (size_t i = 0; i < x.size(); ++i)
      (i < reduced(x) ? cut.outer : i == reduced(x) ? cut.n : cut.inner) *= x[i];
    if (mean_) cut.scale = 1.0f / static_cast<float>(cut.n);
    return cut;
  }

  bool mean_;
  int64_t axis_;
};

}  // namespace

std::unique_ptr<Layer> make_reduce_sum(config::ObjectReader& reader) {
  return std::make_unique<ReduceLayer>(reader, false);
}
std::unique_ptr<Layer> make_reduce_mean(config::ObjectReader& reader) {
  return std::make_unique<ReduceLayer>(reader, true);
}

}  // namespace hlite::network
