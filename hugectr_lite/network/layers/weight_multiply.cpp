// WeightMultiply, first called Multiply: a vector of weights, `weight_dims` [S,V], for each column
// of [B,S], times its value: [B, S V] (ops/weight_multiply.h).
#include "hugectr_lite/ops/weight_multiply.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

class WeightMultiplyLayer : public Layer {
 public:
  explicit WeightMultiplyLayer(Block& s) : Layer(s) {
    s.about("Each column of [B,S] times a vector: [B, S V] (`Multiply` in older files).");
    std::vector<int64_t> dims;
    if (s.integers("weight_dims", &dims, {.min = 1, .max = int64_t{1} << 24}, "[S,V].",
                   kRequired) &&
        dims.size() != 2)
      s.expected("weight_dims", "[columns of the bottom, vector size]");
    dims.resize(2);
    slots_ = dims[0];
    width_ = dims[1];
    s.choice("weight_init", &weight_init_, named_initializers(), "Initializer of the weights.");
    expect_one_each(s);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_rank(dims[0], 1, 0);
    if (dims[0][0] != slots_)
      config::fail_expected(node().find("weight_dims")->elements()[0],
                            fmt::format("{}, the width of \"{}\"", dims[0][0], bottoms()[0]));
    const int64_t out = slots_ * width_;
    return {.tops = {Dims{out}},
            .parameters = {{"weight", {slots_, width_}, {weight_init_, slots_, out}}},
            .summary = fmt::format("{} -> {} x {}", slots_, slots_, width_)};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(
        plan, io.type,
        {.name = name() + ".fprop", .reads = {x.value, weight(io)}, .writes = {y.value}},
        [=, w = weight(io), slots = slots_, width = width_]<typename T>(const StepViews<T>& v) {
          ops::weight_multiply_forward<T>(v.exec, v.rows(x.value, slots),
                                          matrix<T>(v.buffers, w, slots, width),
                                          v.rows(y.value, slots * width));
        });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(
        plan, io.type,
        {.name = name() + ".bprop", .reads = {y.grad, weight(io)}, .writes = {x.grad}},
        [=, w = weight(io), slots = slots_, width = width_]<typename T>(const StepViews<T>& v) {
          ops::weight_multiply_backward_data<T>(v.exec, v.rows(y.grad, slots * width),
                                                matrix<T>(v.buffers, w, slots, width),
                                                v.rows(x.grad, slots));
        });
    add_typed_step(plan, io.type,
                   {.name = name() + ".wgrad",
                    .lane = io.weight_gradient_lane,
                    .reads = {x.value, y.grad},
                    .writes = {io.params[0].grad}},
                   [=, dw = io.params[0].grad, slots = slots_,
                    width = width_]<typename T>(const StepViews<T>& v) {
                     ops::weight_multiply_backward_weights<T>(v.exec, v.rows(x.value, slots),
                                                              v.rows(y.grad, slots * width),
                                                              matrix(v.buffers, dw, slots, width));
                   });
  }

 private:
  static BufferId weight(const LayerIo& io) { return io.params[0].working; }

  int64_t slots_ = 0, width_ = 0;
  InitializerType weight_init_ = InitializerType::kXavierUniform;
};

}  // namespace

std::unique_ptr<Layer> make_weight_multiply(Block& s) {
  return std::make_unique<WeightMultiplyLayer>(s);
}

}  // namespace hlite::network
