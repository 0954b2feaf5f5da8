// Scale: repeats what a tensor [B,w], or [n B,w], has. `axis` 0: each number `factor` times along
// its row, [B, w factor]; `axis` 1: each row `factor` times, [B factor, w]. The gradient is the sum
// over all copies; HugeCTR takes the first one's alone.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/reduce.h"

namespace hlite::network {
namespace {

class ScaleLayer : public Layer {
 public:
  explicit ScaleLayer(config::ObjectReader& reader) : Layer(reader) {
    auto param = reader.object("scale_param");
    by_row_ = param.integer("axis", {.min = 0, .max = 1}) == 1;
    factor_ = param.integer("factor", {.min = 1, .max = 1 << 20});
    param.finish();
    expect_one_each();
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    const Dims& x = dims[0];
    if (!x.folded) expect_rank(x, 1, 0);
    Dims top = x;
    if (!by_row_) {
      top.back() *= factor_;
    } else {
      top = {rows_of_sample(x) * factor_, x.back()};
      top.folded = true;
    }
    return {.tops = {top},
            .summary = fmt::format("each {} {} times", by_row_ ? "row" : "number", factor_)};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(
        plan, io.type, {.name = name() + ".fprop", .reads = {x.value}, .writes = {y.value}},
        [=, cut = cut_of(x.dims)]<typename T>(const StepViews<T>& v) {
          ops::broadcast_axis<T>(v.exec, cut.rows(v, x.value), 1, cut.copies(v, y.value));
        });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop", .reads = {y.grad}, .writes = {x.grad}},
                   [=, cut = cut_of(x.dims)]<typename T>(const StepViews<T>& v) {
                     ops::reduce_axis<T>(v.exec, cut.copies(v, y.grad), 1, cut.rows(v, x.grad));
                   });
  }

 private:
  // A sample as `count` pieces of `width`, each of which has `factor` copies.
  struct Cut {
    int64_t count, width, factor;
    template <typename T>
    [[nodiscard]] Matrix<T> rows(const StepViews<T>& v, BufferId id) const {
      return matrix<T>(v.buffers, id, v.batch * count, width);
    }
    template <typename T>
    [[nodiscard]] View<T, 3> copies(const StepViews<T>& v, BufferId id) const {
      return {v.buffers.template data<T>(id), v.batch * count, factor, width};
    }
  };
  [[nodiscard]] Cut cut_of(const Dims& dims) const {
    return by_row_ ? Cut{rows_of_sample(dims), dims.back(), factor_}
                   : Cut{elements(dims), 1, factor_};
  }

  bool by_row_ = false;
  int64_t factor_ = 1;
};

}  // namespace

std::unique_ptr<Layer> make_scale(config::ObjectReader& reader) {
  return std::make_unique<ScaleLayer>(reader);
}

}  // namespace hlite::network
