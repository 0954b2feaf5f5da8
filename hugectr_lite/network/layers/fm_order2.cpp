// FmOrder2: the sum of the products of all pairs of a sample's vectors, `out_dim` wide each: [B,
// S V] -> [B,V] (ops/fm_order2.h).
#include "hugectr_lite/ops/fm_order2.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"

namespace hlite::network {
namespace {

class FmOrder2Layer : public Layer {
 public:
  explicit FmOrder2Layer(Block& s) : Layer(s) {
    s.about("Sum of the products of all pairs of vectors: [B, S V] -> [B,V].");
    s.integer("out_dim", &width_, {.min = 1}, "Width V of a vector.", kRequired);
    expect_one_each(s);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_rank(dims[0], 1, 0);
    if (dims[0][0] % width_ != 0)
      config::fail_expected(
          *node().find("out_dim"),
          fmt::format("a divisor of {}, the width of \"{}\"", dims[0][0], bottoms()[0]));
    return {.tops = {Dims{width_}},
            .summary = fmt::format("{} vectors of {}", dims[0][0] / width_, width_)};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(
        plan, io.type, {.name = name() + ".fprop", .reads = {x.value}, .writes = {y.value}},
        [=, cut = cut_of(x)]<typename T>(const StepViews<T>& v) {
          ops::fm_order2_forward<T>(v.exec, v.cube(x.value, cut), v.rows(y.value, y.dims[0]));
        });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop", .reads = {x.value, y.grad}, .writes = {x.grad}},
                   [=, cut = cut_of(x)]<typename T>(const StepViews<T>& v) {
                     ops::fm_order2_backward<T>(v.exec, v.cube(x.value, cut),
                                                v.rows(y.grad, y.dims[0]), v.cube(x.grad, cut));
                   });
  }

 private:
  [[nodiscard]] Dims cut_of(const LayerTensor& x) const { return {x.dims[0] / width_, width_}; }

  int64_t width_ = 1;
};

}  // namespace

std::unique_ptr<Layer> make_fm_order2(Block& s) { return std::make_unique<FmOrder2Layer>(s); }

}  // namespace hlite::network
