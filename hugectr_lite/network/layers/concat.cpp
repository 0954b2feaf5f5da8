// Concat: joins [B,w_i] tensors side by side: [B, sum of w_i].
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {

class ConcatLayer : public Layer {
 public:
  explicit ConcatLayer(config::ObjectReader& reader) : Layer(reader) { expect_tops(1); }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    int64_t width = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      expect_rank(dims[i], 1, i);
      width += dims[i][0];
    }
    return {.tops = {{width}}};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor& y = io.tops[0];
    std::vector<ColumnMove> moves;
    int64_t at = 0;
    for (const LayerTensor& x : io.bottoms) {
      const int64_t width = x.dims[0];
      moves.push_back({.from = x.value, .width = width, .to_begin = at, .columns = width});
      at += width;
    }
    add_columns_step(plan, io.type, name() + ".fprop", moves, y.value, y.dims[0]);
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor& y = io.tops[0];
    int64_t at = 0;
    for (size_t i = 0; i < io.bottoms.size(); ++i) {
      const int64_t width = io.bottoms[i].dims[0];
      add_columns_step(plan, io.type, fmt::format("{}.bprop{}", name(), i),
                       {{.from = y.grad, .width = y.dims[0], .begin = at, .columns = width}},
                       io.bottoms[i].grad, width);
      at += width;
    }
  }
};

}  // namespace

std::unique_ptr<Layer> make_concat(config::ObjectReader& reader) {
  return std::make_unique<ConcatLayer>(reader);
}

}  // namespace hlite::network
