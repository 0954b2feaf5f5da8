// MultiHeadAttention: Q [B,f,h], K and V [B,t,h] and a mask [B,1,f,t] -> [B,f,h]; without
// projections of its own (ops/attention.h).
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/attention.h"

namespace hlite::network {
namespace {

class MultiHeadAttentionLayer final : public Layer {
 public:
  explicit MultiHeadAttentionLayer(Block& s) : Layer(s) {
    s.about(
        "softmax(Q K^T / sqrt(h / heads)) V in each head: Q [B,f,h], K and V [B,t,h] -> [B,f,h]. A "
        "fourth bottom [B,1,f,t] is a mask: which keys a row sees; one that sees none becomes 0.");
    s.integer("num_attention_heads", &heads_, {.min = 1},
              "Heads, which share the h columns; on a GPU at most 512 columns each.");
    bool transpose_b = false;
    s.boolean("transpose_b", &transpose_b, "No effect.");
    if (bottoms().size() != 4) expect_bottoms(s, 3);
    expect_tops(s, 1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    for (size_t i = 0; i < 3; ++i) expect_rank(dims[i], 2, i);
    const int64_t f = dims[0][0], h = dims[0][1], t = dims[1][0];
    expect_dims(dims, 1, {t, h});
    expect_dims(dims, 2, {t, h});
    if (dims.size() == 4) expect_dims(dims, 3, {1, f, t});
    for (size_t i = 1; i < 3 && dims.size() == 3; ++i)
      if (!dims[i].lengths.empty())
        config::fail_at(*node().find("bottom"),
                        fmt::format("expected a mask as bottom 3, as \"{}\" is a history of "
                                    "lengths \"{}\", found none; SequenceMask makes one",
                                    bottoms()[i], dims[i].lengths));
    if (h % heads_ != 0)
      config::fail_expected(*node().find("num_attention_heads"),
                            fmt::format("a divisor of {}, the width of \"{}\"", h, bottoms()[0]));
    LayerShape shape = {.tops = {dims[0]},
                        .rows = Rows::kCounted,
                        .kept = {2 * ops::kAttentionStatistics * heads_ * f},  // of 16 bits or more
                        .summary = fmt::format("{} head{} of {}{}", heads_, heads_ == 1 ? "" : "s",
                                               h / heads_, dims.size() == 4 ? ", masked" : "")};
    shape.heads = {h / heads_, ops::kWidestAttentionHead};
    if (dims.size() == 4) shape.masked = {.mask = 3, .by_columns = {1, 2}, .by_rows = {0}};
    shape.packs_with = {0};
    shape.takes_packed = {1, 2};
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const AttentionPlace p = place_of(io);
    add_typed_step(
        plan, io.type,
        {.name = name() + ".fprop",
         .reads = {p.q.value, p.k.value, p.v.value, p.mask, p.q.offsets, p.k.offsets, p.v.offsets},
         .writes = {p.y.value, p.kept}},
        [=]<typename T>(const StepViews<T>& v) {
          ops::attention_forward<T>(v.exec, p.inputs(v), p.statistics(v),
                                    v.cube(p.y.value, p.y.dims));
        });
  }

  // A mask that is computed learns nothing.
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const AttentionPlace p = place_of(io);
    add_typed_step(plan, io.type,
                   {.name = name() + ".bprop",
                    .reads = {p.q.value, p.k.value, p.v.value, p.mask, p.kept, p.y.value, p.y.grad,
                              p.q.offsets, p.k.offsets, p.v.offsets},
                    .writes = {p.q.grad, p.k.grad, p.v.grad}},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::attention_backward<T>(v.exec, p.inputs(v), p.statistics(v),
                                                v.cube(p.y.value, p.y.dims),
                                                v.cube(p.y.grad, p.y.dims), p.gradient(v, p.q),
                                                p.gradient(v, p.k), p.gradient(v, p.v));
                   });
    if (io.bottoms.size() == 4)
      add_columns_step(plan, io.type, name() + ".no_gradient", {}, io.bottoms[3].grad,
                       elements(io.bottoms[3].dims));
  }

 private:
  void expect_dims(const std::vector<Dims>& dims, size_t i, const Dims& expected) const {
    if (dims[i] != expected)
      config::fail_at(*node().find("bottom"),
                      fmt::format("expected {} as bottom {}, found \"{}\" of shape {}",
                                  to_string(expected), i, bottoms()[i], to_string(dims[i])));
  }

  struct AttentionPlace {
    LayerTensor q, k, v, y;
    BufferId mask = kNoBuffer, kept = kNoBuffer;
    int64_t heads = 1;
    template <typename T>
    [[nodiscard]] ops::AttentionInputs<T> inputs(const StepViews<T>& views) const {
      ops::AttentionInputs<T> in{views.cube(q.value, q.dims),
                                 views.cube(k.value, k.dims),
                                 views.cube(v.value, v.dims),
                                 {},
                                 heads,
                                 views.rows(q),
                                 views.rows(k),
                                 views.rows(v)};
      if (mask != kNoBuffer) in.mask = views.cube(mask, {q.dims[0], k.dims[0]});
      return in;
    }
    template <typename T>
    [[nodiscard]] View<float, 3> statistics(const StepViews<T>& views) const {
      return {views.buffers.template data<float>(kept), views.batch, heads * q.dims[0],
              ops::kAttentionStatistics};
    }
    template <typename T>
    [[nodiscard]] View<T, 3> gradient(const StepViews<T>& views, const LayerTensor& x) const {
      return x.grad == kNoBuffer ? View<T, 3>() : views.cube(x.grad, x.dims);
    }
  };
  [[nodiscard]] AttentionPlace place_of(const LayerIo& io) const {
    return {io.bottoms[0],
            io.bottoms[1],
            io.bottoms[2],
            io.tops[0],
            io.bottoms.size() == 4 ? io.bottoms[3].value : kNoBuffer,
            io.kept[0],
            heads_};
  }

  int64_t heads_ = 1;
};

}  // namespace

std::unique_ptr<Layer> make_multi_head_attention(Block& s) {
  return std::make_unique<MultiHeadAttentionLayer>(s);
}

}  // namespace hlite::network
