// Concat: joins tensors along dimension `axis` (1): [B,w_i] side by side, [B,S_i,V] slot after slot
// (axis 1), [B,S,V_i] along their vectors (axis 2). All other dimensions must agree.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {

class ConcatLayer : public Layer {
 public:
  explicit ConcatLayer(Block& s) : Layer(s) {
    s.about("Joins tensors along a dimension.");
    s.integer("axis", &axis_, {.min = 1, .max = 2}, "The dimension; 0 is the batch.");
    expect_tops(s, 1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    const size_t joined = joined_dimension(dims[0]);
    Dims top = dims[0];
    for (size_t i = 1; i < dims.size(); ++i) {
      Dims same = dims[i];
      if (same.size() == top.size()) same[joined] = top[joined];
      if (same != top)
        config::fail_at(
            *node().find("bottom"),
            fmt::format("expected shapes that differ in dimension {} only, found \"{}\" {} and "
                        "\"{}\" {}",
                        axis_, bottoms()[0], to_string(dims[0]), bottoms()[i], to_string(dims[i])));
      top[joined] += dims[i][joined];
    }
    return {.tops = {top}, .rows = joined + 1 == top.size() ? Rows::kAlone : Rows::kMixed};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor& y = io.tops[0];
    std::vector<ColumnMove> moves;
    int64_t at = 0;
    for (const LayerTensor& x : io.bottoms) {
      const int64_t width = width_of(x.dims);
      moves.push_back({.from = x.value, .width = width, .to_begin = at, .columns = width});
      at += width;
    }
    add_columns_step(plan, io.type, name() + ".fprop", moves, y.value, at, count_of(y));
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor& y = io.tops[0];
    int64_t at = 0;
    for (size_t i = 0; i < io.bottoms.size(); ++i) {
      const int64_t width = width_of(io.bottoms[i].dims);
      add_columns_step(plan, io.type, fmt::format("{}.bprop{}", name(), i),
                       {{.from = y.grad, .width = width_of(y.dims), .begin = at, .columns = width}},
                       io.bottoms[i].grad, width, count_of(y));
      at += width;
    }
  }

 private:
  // The dimension of Dims that is joined.
  [[nodiscard]] size_t joined_dimension(const Dims& dims) const {
    const auto last = static_cast<int64_t>(dims.size()) - (dims.folded ? 1 : 0);
    if (axis_ > last)
      config::fail_expected(*node().find("axis"),
                            fmt::format("a dimension of \"{}\" {} other than the batch, 1 to {}",
                                        bottoms()[0], to_string(dims), last));
    return static_cast<size_t>(axis_) - (dims.folded ? 0 : 1);
  }
  // A sample as a matrix whose rows the tensors share.
  [[nodiscard]] int64_t rows_of(const Dims& dims) const {
    return joined_dimension(dims) == 0 ? 1 : dims[0];
  }
  [[nodiscard]] RowCount count_of(const LayerTensor& y) const {
    return {rows_of(y.dims), y.offsets};
  }
  [[nodiscard]] int64_t width_of(const Dims& dims) const { return elements(dims) / rows_of(dims); }

  int64_t axis_ = 1;
};

}  // namespace

std::unique_ptr<Layer> make_concat(Block& s) { return std::make_unique<ConcatLayer>(s); }

}  // namespace hlite::network
