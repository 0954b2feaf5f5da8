// An inner product of the Concat [q, h, q - h, q * h] of a sample's row q, repeated, and the packed
// rows h of its history, as DIN's attention begins (ops/pair_product.h). The network puts it in the
// place of these layers (packing.h).
#include "hugectr_lite/ops/pair_product.h"

#include <algorithm>

#include "hugectr_lite/network/layer_parts.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/ops/packed_rows.h"

namespace hlite::network {
namespace {

constexpr int64_t kChunk = 4096;  // rows

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
                   {.name = name() + ".fprop",
                    .reads = {p.q.value, p.h.value, io.fixed, p.bias.working, p.y.offsets},
                    .writes = {p.y.value, p.of_sample, p.workspace},
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
                     for_chunks(v, p, [&](const Chunk<T>& c) {
                       const Matrix<T> y = c.of(v.packed(p.y.value, p.y));
                       ops::make_pairs<T>(v.exec, c.q, c.h, c.offsets, c.pairs);
                       product(c.pairs, p.folded(v, 0, 2), {}, y);
                       ops::add_sample_rows<T>(v.exec, c.of_samples(v.rows(p.of_sample, p.n)),
                                               c.offsets, y);
                     });
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const PairPlace p = place_of(io);
    add_typed_step(
        plan, io.type,
        {.name = name() + ".bprop",
         .reads = {p.q.value, p.h.value, p.y.grad, p.y.offsets},
         .writes = {p.of_sample, io.fixed, p.weight.grad, p.bias.grad, p.q.grad, p.h.grad,
                    p.workspace},
         .flops_per_sample = 8.0 * static_cast<double>(elements(p.h.dims) * p.n)},
        [=]<typename T>(const StepViews<T>& v) {
          const Matrix<T> sums = v.rows(p.of_sample, p.n), dq = v.rows(p.q.grad, p.width);
          ops::sum_packed_rows<T>(v.exec, v.packed(p.y.grad, p.y), v.offsets(p.y.offsets), false,
                                  sums);
          if (p.bias.grad != kNoBuffer)
            ops::bias_relu_backward<T>(v.exec, {}, sums, vector(v.buffers, p.bias.grad, p.n));
          ops::fully_connected_backward_weights<T>(v.exec, v.rows(p.q.value, p.width), sums,
                                                   p.gradients(v, 2, 1));
          if (dq.data()) ops::fully_connected_backward_data<T>(v.exec, sums, p.folded(v, 2, 1), dq);
          const Matrix<float> dw = p.gradients(v, 0, 2), of_chunk = p.chunk_gradients(v);
          std::fill_n(dw.data(), dw.size(), 0.0f);
          for_chunks(v, p, [&](const Chunk<T>& c) {
            const Matrix<T> dy = c.of(v.packed(p.y.grad, p.y));
            ops::make_pairs<T>(v.exec, c.q, c.h, c.offsets, c.pairs);
            ops::fully_connected_backward_weights<T>(v.exec, c.pairs, dy, of_chunk);
            for (int64_t i = 0; i < dw.size(); ++i) dw.data()[i] += of_chunk.data()[i];
            if (!dq.data() && p.h.grad == kNoBuffer) return;
            ops::fully_connected_backward_data<T>(v.exec, dy, p.folded(v, 0, 2), c.dpairs);
            ops::make_pairs_backward<T>(
                v.exec, c.q, c.pairs, c.dpairs, c.offsets, dq.data() ? c.of_samples(dq) : dq,
                p.h.grad != kNoBuffer ? c.of(v.packed(p.h.grad, p.h)) : Matrix<T>());
          });
          ops::unfold_pair_gradients(v.exec, p.gradients(v, 0, 3),
                                     matrix(v.buffers, p.weight.grad, 4 * p.width, p.n));
        });
  }

 private:
  struct PairPlace {
    LayerTensor q, h, y;
    LayerParameter weight, bias;
    BufferId workspace = kNoBuffer, of_sample = kNoBuffer, fixed = kNoBuffer;
    int64_t width = 0, n = 0;
    // That of the first two, of a part of the samples.
    template <typename T>
    [[nodiscard]] Matrix<float> chunk_gradients(const StepViews<T>& v) const {
      return {v.buffers.template data<float>(fixed) + 6 * width * n, 2 * width, n};
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
  // Some samples: as many as have kChunk rows, so that what is made of them stays in L2.
  template <typename T>
  struct Chunk {
    Matrix<T> q, h, pairs, dpairs;
    Vector<const int64_t> offsets;
    int64_t first, last;  // samples
    [[nodiscard]] Matrix<T> of(const Matrix<T>& rows) const {
      return rows.rows(offsets.data()[0], offsets.data()[last - first]);
    }
    [[nodiscard]] Matrix<T> of_samples(const Matrix<T>& rows) const {
      return rows.rows(first, last);
    }
  };
  template <typename T, typename Body>
  static void for_chunks(const StepViews<T>& v, const PairPlace& p, const Body& body) {
    const int64_t* const at = v.offsets(p.y.offsets).data();
    const int64_t most = std::max(kChunk, rows_of_sample(p.h.dims));
    for (int64_t first = 0, last = 0; first < v.batch; first = last) {
      while (last < v.batch && at[last + 1] - at[first] <= most) ++last;
      const int64_t rows = at[last] - at[first];
      Chunk<T> c{.q = v.rows(p.q.value, p.width).rows(first, last),
                 .h = v.packed(p.h.value, p.h).rows(at[first], at[last]),
                 .pairs = matrix<T>(v.buffers, p.workspace, rows, 2 * p.width),
                 .dpairs = {},
                 .offsets = {at + first, last - first + 1},
                 .first = first,
                 .last = last};
      c.dpairs = {c.pairs.data() + most * 2 * p.width, rows, 2 * p.width};
      body(c);
    }
  }
  [[nodiscard]] static PairPlace place_of(const LayerIo& io) {
    return {io.bottoms[0],
            io.bottoms[1],
            io.tops[0],
            io.params[0],
            io.params.size() > 1 ? io.params[1] : LayerParameter{},
            io.workspace,
            io.kept[0],
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
  of.kept = {n};
  of.fixed_bytes = 8 * width * n * kFloatBytes;
  of.workspace_bytes = 4 * std::max(kChunk, rows) * width * kFloatBytes;
  of.by_sample = {0};
  return of;
}

}  // namespace hlite::network
