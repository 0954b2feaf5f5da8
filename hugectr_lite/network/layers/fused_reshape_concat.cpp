// FusedReshapeConcat: bottoms [B,S,V_i] joined along their vectors, W wide together, and split
// after the last slot but one: tops [(S-1) B,W], the slots before, and [B,W], the last. In Deep
// Interest Network a history of items, and the one that is looked at.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"

namespace hlite::network {
namespace {

class FusedReshapeConcatLayer : public Layer {
 public:
  explicit FusedReshapeConcatLayer(Block& s) : Layer(s) {
    s.about("Joins [B,S,V_i] along their vectors: the first S - 1 slots, and the last slot apart.");
    expect_tops(s, 2);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    int64_t width = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      expect_rank(dims[i], 2, i);
      width += dims[i][1];
      if (dims[i][0] != dims[0][0] || dims[i][0] < 2)
        config::fail_at(
            *node().find("bottom"),
            fmt::format("expected tensors of two slots or more, as many in each, found \"{}\" {} "
                        "and \"{}\" {}",
                        bottoms()[0], to_string(dims[0]), bottoms()[i], to_string(dims[i])));
    }
    Dims before = {dims[0][0] - 1, width};
    before.folded = true;
    return {.tops = {before, {width}}};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    for (size_t t = 0; t < 2; ++t) {
      std::vector<ColumnMove> moves;
      for (const ConcatPiece& p : pieces(io))
        if (p.top == t)
          moves.push_back({.from = io.bottoms[p.bottom].value,
                           .width = elements(io.bottoms[p.bottom].dims),
                           .begin = p.in_bottom,
                           .to_begin = p.in_top,
                           .columns = p.columns});
      add_columns_step(plan, io.type, fmt::format("{}.fprop{}", name(), t), moves, io.tops[t].value,
                       elements(io.tops[t].dims));
    }
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    for (size_t b = 0; b < io.bottoms.size(); ++b) {
      std::vector<ColumnMove> moves;
      for (const ConcatPiece& p : pieces(io))
        if (p.bottom == b)
          moves.push_back({.from = io.tops[p.top].grad,
                           .width = elements(io.tops[p.top].dims),
                           .begin = p.in_top,
                           .to_begin = p.in_bottom,
                           .columns = p.columns});
      add_columns_step(plan, io.type, fmt::format("{}.bprop{}", name(), b), moves,
                       io.bottoms[b].grad, elements(io.bottoms[b].dims));
    }
  }

 private:
  // One slot's vector of one bottom: columns of a sample there, and in a top.
  struct ConcatPiece {
    size_t bottom, top;
    int64_t in_bottom, in_top, columns;
  };
  static std::vector<ConcatPiece> pieces(const LayerIo& io) {
    std::vector<ConcatPiece> list;
    const int64_t width = io.tops[1].dims[0];
    int64_t at = 0;
    for (size_t b = 0; b < io.bottoms.size(); ++b) {
      const int64_t slots = io.bottoms[b].dims[0], columns = io.bottoms[b].dims[1];
      for (int64_t s = 0; s < slots; ++s) {
        const bool last = s + 1 == slots;
        list.push_back(
            {b, last ? size_t{1} : 0, s * columns, (last ? 0 : s * width) + at, columns});
      }
      at += columns;
    }
    return list;
  }
};

}  // namespace

std::unique_ptr<Layer> make_fused_reshape_concat(Block& s) {
  return std::make_unique<FusedReshapeConcatLayer>(s);
}

}  // namespace hlite::network
