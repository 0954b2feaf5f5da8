// MultiCross: `num_layers` cross layers on [B,n] (ops/cross.h), of one kind:
//
//   vector      DCN, x' = (x w) x0 + b + x with w [n]
//   low rank    DCN V2, x' = x0 * (x u v + b) + x with u [n,k] and v [k,n], k = `projection_dim`
//   full rank   DCN V2, x' = x0 * (x w + b) + x with w [n,n]
//
// Parameters of layer l: weight_<l>, or u_<l> and v_<l>, and bias_<l>.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/cross.h"
#include "hugectr_lite/ops/fully_connected.h"

namespace hlite::network {
namespace {

class MultiCrossLayer : public Layer {
 public:
  explicit MultiCrossLayer(Block& s) : Layer(s) {
    s.about("Cross layers of DCN or DCN V2 on [B,n].");
    if (auto param = s.object("mc_param", "Its parameters.", kRequired)) {
      param->integer("num_layers", &layers_, {.min = 1, .max = 1000}, "Number of cross layers.",
                     kRequired);
      param->integer("projection_dim", &rank_, {.min = 0, .max = int64_t{1} << 24},
                     "Rank k of DCN V2's low-rank products; 0 means the vectors of DCN.");
      param->boolean("full_rank", &full_rank_,
                     "Extension: DCN V2 with a whole matrix W [n,n] in each layer.");
      if (full_rank_ && low_rank())
        param->refuse("full_rank", "expected projection_dim or full_rank, found both");
      named_ = param->choice("weight_init", &weight_init_, named_initializers(),
                             "Initializer of the weights.");
      param->choice("bias_init", &bias_init_, named_initializers(), "Initializer of the biases.");
    }
    expect_one_each(s);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    expect_rank(dims[0], 1, 0);
    const int64_t n = dims[0][0];
    LayerShape shape = {.tops = {Dims{n}},
                        .summary = low_rank() ? fmt::format("{} layers of rank {}", layers_, rank_)
                                   : full_rank_ ? fmt::format("{} layers of full rank", layers_)
                                                : fmt::format("{} layers", layers_)};
    for (int64_t l = 0; l < layers_; ++l) {
      const auto add = [&](const char* what, const Dims& of, const Initializer& initializer) {
        shape.parameters.push_back({fmt::format("{}_{}", what, l), of, initializer});
      };
      if (low_rank()) {
        add("u", {n, rank_}, {weight_init_, n, rank_});
        add("v", {rank_, n}, {weight_init_, rank_, n});
      } else if (full_rank_) {
        add("weight", {n, n}, {weight_init_, n, n});
      } else {
        add("weight", {n}, {weight_init_, n, named_ ? 1 : n});
      }
      add("bias", {n}, {bias_init_, 0, n});
      const int64_t inner = low_rank() ? rank_ : full_rank_ ? 0 : 1;
      shape.kept.push_back(inner);                             // c: x u, or the vector's x w
      shape.kept.push_back(inner);                             // t: the gradient of c
      shape.kept.push_back(low_rank() || full_rank_ ? n : 0);  // h, then its gradient s
      shape.kept.push_back(l + 1 < layers_ ? n : 0);           // the output of all but the last
    }
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    for (int64_t l = 0; l < layers_; ++l) {
      const CrossStep s = step_of(io, l);
      plan::Step step = {.name = fmt::format("{}.fprop{}", name(), l),
                         .reads = {s.x0, s.x, s.u.working, s.v.working, s.bias.working},
                         .writes = {s.c, s.h, s.y},
                         .flops_per_sample = flops(s)};
      add_typed_step(plan, io.type, std::move(step), [=]<typename T>(const StepViews<T>& v) {
        const CrossViews<T> of{v, s};
        const auto multiply = [&](Matrix<T> x, Matrix<T> w, Vector<T> bias, Matrix<T> y) {
          if (phase == Phase::kTrain)
            ops::fully_connected_forward<T>(v.exec, x, w, bias, false, y);
          else
            ops::fully_connected_evaluate<T>(v.exec, x, w, bias, false, y);
        };
        if (s.c != kNoBuffer) multiply(of.wide(s.x), of.u(), {}, of.narrow(s.c));
        if (s.h == kNoBuffer)
          return ops::vector_cross_forward<T>(v.exec, of.wide(s.x0), of.narrow(s.c), of.bias(),
                                              of.wide(s.x), of.wide(s.y));
        multiply(of.into_v(), of.v(), of.bias(), of.wide(s.h));
        ops::cross_forward<T>(v.exec, of.wide(s.x0), of.wide(s.h), of.wide(s.x), of.wide(s.y));
      });
    }
  }

  // The gradient g of a layer's output lies in that of the top, and becomes that of its input
  // there; of the first layer's, in that of the bottom.
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    for (int64_t l = layers_; l-- > 0;) {
      const CrossStep s = step_of(io, l);
      emit_data_gradient(plan, io, s, l);
      plan::Step weights = {.name = fmt::format("{}.wgrad{}", name(), l),
                            .lane = io.weight_gradient_lane,
                            .reads = {s.x, s.c, s.t, s.h},
                            .writes = {s.u.grad, s.v.grad},
                            .flops_per_sample = flops(s)};
      add_typed_step(plan, io.type, std::move(weights), [=]<typename T>(const StepViews<T>& v) {
        const CrossViews<T> of{v, s};
        if (s.t != kNoBuffer)
          ops::fully_connected_backward_weights<T>(v.exec, of.wide(s.x), of.narrow(s.t),
                                                   matrix(v.buffers, s.u.grad, s.n, s.k));
        if (s.h != kNoBuffer)
          ops::fully_connected_backward_weights<T>(v.exec, of.into_v(), of.wide(s.h),
                                                   matrix(v.buffers, s.v.grad, s.k, s.n));
      });
    }
  }

 private:
  // The tensors of one cross layer. Vector: k is 1, u is w, and there is no v and no h. Full rank:
  // k is n, v is w, which takes x in place of c, and there is no u, c and t.
  struct CrossStep {
    int64_t n = 0, k = 0;
    bool first_backward = false, last_backward = false;
    LayerParameter u, v, bias;
    BufferId x0 = kNoBuffer, x = kNoBuffer, y = kNoBuffer;
    BufferId c = kNoBuffer, t = kNoBuffer, h = kNoBuffer;
    BufferId g = kNoBuffer, dx0 = kNoBuffer;
  };
  template <typename T>
  struct CrossViews {
    const StepViews<T>& views;
    const CrossStep& s;
    [[nodiscard]] Matrix<T> wide(BufferId id) const { return views.rows(id, s.n); }
    [[nodiscard]] Matrix<T> narrow(BufferId id) const { return views.rows(id, s.k); }
    // Returns the tensor that v multiplies.
    [[nodiscard]] Matrix<T> into_v() const { return s.c == kNoBuffer ? wide(s.x) : narrow(s.c); }
    [[nodiscard]] Matrix<T> u() const { return matrix<T>(views.buffers, s.u.working, s.n, s.k); }
    [[nodiscard]] Matrix<T> v() const { return matrix<T>(views.buffers, s.v.working, s.k, s.n); }
    [[nodiscard]] Vector<T> bias() const { return vector<T>(views.buffers, s.bias.working, s.n); }
  };

  [[nodiscard]] CrossStep step_of(const LayerIo& io, int64_t l) const {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const auto params = static_cast<size_t>(l) * (low_rank() ? 3 : 2);
    const auto kept = [&](int64_t layer, size_t i) {
      return io.kept[static_cast<size_t>(layer) * 4 + i];
    };
    const LayerParameter first = io.params[params];
    return {.n = x.dims[0],
            .k = low_rank()   ? rank_
                 : full_rank_ ? x.dims[0]
                              : 1,
            .first_backward = l + 1 == layers_,
            .last_backward = l == 0,
            .u = full_rank_ ? LayerParameter{} : first,
            .v = full_rank_   ? first
                 : low_rank() ? io.params[params + 1]
                              : LayerParameter{},
            .bias = io.params[params + (low_rank() ? 2 : 1)],
            .x0 = x.value,
            .x = l == 0 ? x.value : kept(l - 1, 3),
            .y = l + 1 == layers_ ? y.value : kept(l, 3),
            .c = kept(l, 0),
            .t = kept(l, 1),
            .h = kept(l, 2),
            .g = y.grad,
            .dx0 = x.grad};
  }

  void emit_data_gradient(plan::Plan& plan, const LayerIo& io, const CrossStep& s,
                          int64_t l) const {
    const BufferId dx = s.last_backward ? s.dx0 : s.g;  // gets the product with u
    plan::Step step = {.name = fmt::format("{}.bprop{}", name(), l),
                       .reads = {s.g, s.x0, s.c, s.h, s.u.working, s.v.working},
                       .writes = {s.h, s.t, dx, s.bias.grad},
                       .flops_per_sample = flops(s)};
    if (!s.first_backward) step.reads.push_back(s.dx0);
    if (dx != s.dx0) step.writes.push_back(s.dx0);
    add_typed_step(plan, io.type, std::move(step), [=]<typename T>(const StepViews<T>& v) {
      const CrossViews<T> of{v, s};
      const ops::CrossInput<T> input = {of.wide(s.dx0), s.first_backward, s.last_backward};
      const Vector<float> db = vector(v.buffers, s.bias.grad, s.n);
      if (s.h == kNoBuffer) {
        ops::bias_relu_backward<T>(v.exec, {}, of.wide(s.g), db);
        ops::vector_cross_backward<T>(v.exec, of.wide(s.g), of.wide(s.x0), of.narrow(s.c), input,
                                      of.narrow(s.t));
      } else {
        ops::cross_backward<T>(v.exec, of.wide(s.g), of.wide(s.x0), of.wide(s.h), input, db);
        if (s.t != kNoBuffer)
          ops::fully_connected_backward_data<T>(v.exec, of.wide(s.h), of.v(), of.narrow(s.t));
      }
      if (dx == kNoBuffer) return;
      const bool has_u = s.t != kNoBuffer;
      ops::fully_connected_add_backward_data<T>(v.exec, has_u ? of.narrow(s.t) : of.wide(s.h),
                                                has_u ? of.u() : of.v(), of.wide(dx));
    });
  }

  [[nodiscard]] bool low_rank() const { return rank_ > 0; }
  [[nodiscard]] double flops(const CrossStep& s) const {
    return (low_rank() ? 4.0 : 2.0) * static_cast<double>(s.n * s.k);
  }

  int64_t layers_ = 0, rank_ = 0;
  bool full_rank_ = false;
  bool named_ = false;  // weight_init: then by the fans of w as a matrix [n,1], else n and n
  InitializerType weight_init_ = InitializerType::kNormal, bias_init_ = InitializerType::kZero;
};

}  // namespace

std::unique_ptr<Layer> make_multi_cross(Block& s) { return std::make_unique<MultiCrossLayer>(s); }

}  // namespace hlite::network
