// MatrixMultiply: the product of a matrix each of every sample, [B,m,n] x [B,n,k] -> [B,m,k], and
// Transpose, [B,m,n] -> [B,n,m] (ops/batched_product.h).
//
// Of a history, the rows beyond its length are summed like the others: they are zeros, or meet
// weights that are.
#include "hugectr_lite/ops/batched_product.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/packed_rows.h"

namespace hlite::network {
namespace {

using ops::Transpose;

class MatrixMultiplyLayer final : public Layer {
 public:
  explicit MatrixMultiplyLayer(Block& s) : Layer(s) {
    s.about("Product of two matrices of each sample: [B,m,n] x [B,n,k] -> [B,m,k].");
    expect_bottoms(s, 2);
    expect_tops(s, 1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    for (size_t i = 0; i < 2; ++i) expect_rank(dims[i], 2, i);
    if (dims[0][1] != dims[1][0])
      config::fail_at(
          *node().find("bottom"),
          fmt::format("expected as many columns of \"{}\" as rows of \"{}\", found "
                      "{} and {}",
                      bottoms()[0], bottoms()[1], to_string(dims[0]), to_string(dims[1])));
    // Weights of 0 are as good as a mask.
    return {.tops = {Dims{dims[0][0], dims[1][1]}},
            .rows = Rows::kCounted,
            .masked = MaskedBottoms{.mask = 0, .by_columns = {1}},
            .takes_packed = dims[0][0] == 1 ? std::vector<size_t>{1} : std::vector<size_t>{}};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &a = io.bottoms[0], &b = io.bottoms[1], &c = io.tops[0];
    if (b.offsets == kNoBuffer)
      return add_product(plan, io, "fprop", {a.value, a.dims}, {b.value, b.dims},
                         {c.value, c.dims});
    add_typed_step(
        plan, io.type,
        {.name = name() + ".fprop", .reads = {a.value, b.value, b.offsets}, .writes = {c.value}},
        [=]<typename T>(const StepViews<T>& v) {
          ops::weigh_rows<T>(v.exec, v.rows(a.value, a.dims[1]), v.packed(b.value, b),
                             v.offsets(b.offsets), v.rows(c.value, c.dims[1]));
        });
  }

  // da = dc b^T, db = a^T dc.
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &a = io.bottoms[0], &b = io.bottoms[1], &c = io.tops[0];
    if (b.offsets != kNoBuffer)
      return add_typed_step(plan, io.type,
                            {.name = name() + ".bprop",
                             .reads = {a.value, b.value, c.grad, b.offsets},
                             .writes = {a.grad, b.grad}},
                            [=]<typename T>(const StepViews<T>& v) {
                              ops::weigh_rows_backward<T>(
                                  v.exec, v.rows(a.value, a.dims[1]), v.packed(b.value, b),
                                  v.rows(c.grad, c.dims[1]), v.offsets(b.offsets),
                                  v.rows(a.grad, a.dims[1]), v.packed(b.grad, b));
                            });
    const Operand dc{c.grad, c.dims};
    add_product(plan, io, "bprop0", dc, {b.value, b.dims, Transpose::kYes}, {a.grad, a.dims});
    add_product(plan, io, "bprop1", {a.value, a.dims, Transpose::kYes}, dc, {b.grad, b.dims});
  }

 private:
  struct Operand {
    BufferId id;
    Dims dims;
    Transpose turned = Transpose::kNo;
  };
  void add_product(plan::Plan& plan, const LayerIo& io, const char* step, const Operand& a,
                   const Operand& b, const Operand& c) const {
    add_typed_step(plan, io.type,
                   {.name = name() + "." + step, .reads = {a.id, b.id}, .writes = {c.id}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::batched_product<T>(v.exec, a.turned, b.turned, v.cube(a.id, a.dims),
                                             v.cube(b.id, b.dims), v.cube(c.id, c.dims));
                   });
  }
};

class TransposeLayer final : public Layer {
 public:
  explicit TransposeLayer(Block& s) : Layer(s) {
    s.about("Extension: transpose of each sample's matrix: [B,m,n] -> [B,n,m].");
    expect_one_each(s);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_rank(dims[0], 2, 0);
    return {.tops = {Dims{dims[0][1], dims[0][0]}}, .rows = Rows::kCounted};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_transpose(plan, io, "fprop", x.value, x.dims, y.value, y.dims);
  }
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_transpose(plan, io, "bprop", y.grad, y.dims, x.grad, x.dims);
  }

 private:
  void add_transpose(plan::Plan& plan, const LayerIo& io, const char* step, BufferId from,
                     const Dims& from_dims, BufferId to, const Dims& to_dims) const {
    add_typed_step(plan, io.type, {.name = name() + "." + step, .reads = {from}, .writes = {to}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::batched_transpose<T>(v.exec, v.cube(from, from_dims),
                                               v.cube(to, to_dims));
                   });
  }
};

}  // namespace

std::unique_ptr<Layer> make_matrix_multiply(Block& s) {
  return std::make_unique<MatrixMultiplyLayer>(s);
}
std::unique_ptr<Layer> make_transpose(Block& s) { return std::make_unique<TransposeLayer>(s); }

}  // namespace hlite::network
