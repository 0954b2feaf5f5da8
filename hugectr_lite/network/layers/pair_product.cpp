// An inner product of the Concat [q, h, q - h, q * h] of a sample's row q, repeated, and the packed
// rows h of its history, as DIN's attention begins (ops/pair_product.h). The network puts it in the
// place of these layers (packing.h).
#include "hugectr_lite/ops/pair_product.h"

#include "hugectr_lite/network/layer_parts.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/ops/packed_rows.h"

namespace hlite::network {
namespace {

class PairProductLayer final : public Layer {
 public:
  using Layer::Layer;

  [[nodiscard]] LayerShape infer(const std::vector<Dims>&) const override { return {}; }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const PairPlace p = place_of(io);
    const bool train = phase == Phase::kTrain;
    add_typed_step(
        plan, io.type, {.name = name() + ".fold", .reads = {p.weight.value}, .writes = {io.fixed}},
        [=]<typename T>(const StepViews<T>& v) {
          ops::fold_pair_weights<T>(v.exec, matrix(v.buffers, p.weight.value, 4 * p.width, p.n),
                                    p.folded(v, 0, 3));
        });
    add_typed_step(plan, io.type,
                   {.name = name() + ".pairs",
                    .reads = {p.q.value, p.h.value, p.y.offsets},
                    .writes = {p.pairs}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::make_pairs<T>(v.exec, v.rows(p.q.value, p.width),
                                        v.packed(p.h.value, p.h), v.offsets(p.y.offsets),
                                        p.wide(v, p.pairs));
                   });
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop",
                    .reads = {p.q.value, p.pairs, io.fixed, p.bias.working, p.y.offsets},
                    .writes = {p.y.value, p.of_sample},
                    .flops_per_sample = 4.0 * static_cast<double>(elements(p.h.dims) * p.n)},
                   [=]<typename T>(const StepViews<T>& v) {
                     const auto product = [&](const Matrix<T>& x, const Matrix<T>& w,
                                              const Vector<T>& b, const Matrix<T>& y) {
                       if (train)
                         ops::fully_connected_forward<T, T>(v.exec, x, w, b, false, y);
                       else
                         ops::fully_connected_evaluate<T, T>(v.exec, x, w, b, false, y);
                     };
                     product(v.rows(p.q.value, p.width), p.folded(v, 2, 1),
                             vector<T>(v.buffers, p.bias.working, p.n), v.rows(p.of_sample, p.n));
                     product(p.wide(v, p.pairs), p.folded(v, 0, 2), {}, v.packed(p.y.value, p.y));
                     ops::add_sample_rows<T>(v.exec, v.rows(p.of_sample, p.n),
                                             v.offsets(p.y.offsets), v.packed(p.y.value, p.y));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const PairPlace p = place_of(io);
    add_typed_step(plan, io.type,
                   {.name = name() + ".wgrad",
                    .reads = {p.q.value, p.pairs, p.y.grad, p.y.offsets},
                    .writes = {p.of_sample, io.fixed, p.weight.grad, p.bias.grad}},
                   [=]<typename T>(const StepViews<T>& v) {
                     const Matrix<T> dy = v.packed(p.y.grad, p.y);
                     const Matrix<T> sums = v.rows(p.of_sample, p.n);
                     ops::sum_packed_rows<T>(v.exec, dy, v.offsets(p.y.offsets), false, sums);
                     if (p.bias.grad != kNoBuffer)
                       ops::bias_relu_backward<T>(v.exec, {}, sums,
                                                  vector(v.buffers, p.bias.grad, p.n));
                     ops::fully_connected_backward_weights<T>(v.exec, p.wide(v, p.pairs), dy,
                                                              p.gradients(v, 0, 2));
                     ops::fully_connected_backward_weights<T>(v.exec, v.rows(p.q.value, p.width),
                                                              sums, p.gradients(v, 2, 1));
                     ops::unfold_pair_gradients(v.exec, p.gradients(v, 0, 3),
                                                matrix(v.buffers, p.weight.grad, 4 * p.width, p.n));
                   });
    if (p.q.grad == kNoBuffer && p.h.grad == kNoBuffer) return;
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop",
                    .reads = {p.q.value, p.pairs, p.y.grad, p.of_sample, io.fixed, p.y.offsets},
                    .writes = {p.q.grad, p.h.grad, p.dpairs}},
                   [=]<typename T>(const StepViews<T>& v) {
                     const Matrix<T> dq = v.rows(p.q.grad, p.width), dpairs = p.wide(v, p.dpairs);
                     if (dq.data())
                       ops::fully_connected_backward_data<T>(v.exec, v.rows(p.of_sample, p.n),
                                                             p.folded(v, 2, 1), dq);
                     ops::fully_connected_backward_data<T>(v.exec, v.packed(p.y.grad, p.y),
                                                           p.folded(v, 0, 2), dpairs);
                     ops::make_pairs_backward<T>(v.exec, v.rows(p.q.value, p.width),
                                                 p.wide(v, p.pairs), dpairs, v.offsets(p.y.offsets),
                                                 dq, v.packed(p.h.grad, p.h));
                   });
  }

 private:
  struct PairPlace {
    LayerTensor q, h, y;
    LayerParameter weight, bias;
    BufferId pairs = kNoBuffer, dpairs = kNoBuffer, of_sample = kNoBuffer, fixed = kNoBuffer;
    int64_t width = 0, n = 0;
    template <typename T>
    [[nodiscard]] Matrix<T> wide(const StepViews<T>& v, BufferId id) const {
      return matrix<T>(v.buffers, id, v.count(rows_of(y)), 2 * width);
    }
    // Of the three parts of folded weights, and of their gradients, `count` from `first` on.
    template <typename T>
    [[nodiscard]] Matrix<float> gradients(const StepViews<T>& v, int64_t first,
                                          int64_t count) const {
      return {v.buffers.template data<float>(fixed) + first * width * n, count * width, n};
    }
    template <typename T>
    [[nodiscard]] Matrix<T> folded(const StepViews<T>& v, int64_t first, int64_t count) const {
      float* const end = v.buffers.template data<float>(fixed) + 3 * width * n;
      return {reinterpret_cast<T*>(end) + first * width * n, count * width, n};
    }
  };
  [[nodiscard]] static PairPlace place_of(const LayerIo& io) {
    return {io.bottoms[0],
            io.bottoms[1],
            io.tops[0],
            io.params[0],
            io.params.size() > 1 ? io.params[1] : LayerParameter{},
            io.kept[0],
            io.kept[1],
            io.kept[2],
            io.fixed,
            io.bottoms[1].dims.back(),
            io.tops[0].dims.back()};
  }
};

}  // namespace

std::unique_ptr<Layer> make_pair_product(const config::JsonNode& node, Wiring wiring) {
  return std::make_unique<PairProductLayer>(node, std::move(wiring));
}

LayerShape pair_product_shape(LayerShape of, const Dims& history) {
  const int64_t rows = rows_of_sample(history), width = history.back(), n = of.tops[0].back();
  of.kept = {rows * 2 * width, rows * 2 * width, n};
  of.fixed_bytes = 6 * width * n * kFloatBytes;
  of.by_sample = {0};
  return of;
}

}  // namespace hlite::network
