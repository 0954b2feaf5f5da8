// GRU: gated recurrent units over the valid rows of a history [B,T,w], by its lengths, to [B,T,n];
// a third bottom [B,T] of attention scores makes them AUGRU (ops/gru.h). Parameters weight [w,3n],
// recurrent [n,3n] and bias [3n], of the gates r, z and n in turn. HugeCTR's takes no lengths and
// cannot train.
#include "hugectr_lite/ops/gru.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/fully_connected.h"

namespace hlite::network {
namespace {

class GruLayer : public Layer {
 public:
  explicit GruLayer(Block& s) : Layer(s) {
    s.about(
        "Gated recurrent units over the valid rows of a history: [B,T,w] and its lengths, and "
        "optionally attention scores [B,T] (AUGRU), to [B,T,`num_output`].");
    if (auto param = s.object("gru_param", "Its parameters.", kRequired)) {
      param->integer("num_output", &out_, {.min = 1, .max = ops::kWidestGru},
                     "Width of the states.", kRequired);
      param->integer("SeqLength", &positions_, {.min = 1}, "Must be the T of the bottom.",
                     otherwise("T"));
      param->integer("vector_size", &in_, {.min = 1}, "Must be the w of the bottom.",
                     otherwise("w"));
      param->accept("batchsize", "HugeCTR's. No effect: the layer takes any batch.");
      param->choice("weight_init", &weight_init_, named_initializers(),
                    "Initializer of the weights, of the states too.");
      param->choice("bias_init", &bias_init_, named_initializers(), "Initializer of the biases.");
    }
    if (s.node() && bottoms().size() != 2 && bottoms().size() != 3)
      s.expected("bottom", "a history and its lengths, or these and attention scores");
    expect_tops(s, 1);
    traits_.takes_lengths = true;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    const Dims& x = dims[0];
    expect_rank(x, 2, 0);
    expect_lengths(dims, 1, 0);
    expect_fit("SeqLength", positions_, x, 0);
    expect_fit("vector_size", in_, x, 1);
    if (dims.size() == 3 && dims[2] != Dims{x[0]})
      config::fail_at(*node().find("bottom"),
                      fmt::format("expected attention of shape {} for \"{}\" {}, found \"{}\" {}",
                                  to_string(Dims{x[0]}), bottoms()[0], to_string(x), bottoms()[2],
                                  to_string(dims[2])));
    Dims top = {x[0], out_};
    top.lengths = dims[1].lengths;
    return {
        .tops = {top},
        .rows = Rows::kCounted,
        .parameters = {{"weight", {x[1], 3 * out_}, {weight_init_, x[1], out_}},
                       {"recurrent", {out_, 3 * out_}, {weight_init_, out_, out_}},
                       {"bias", {3 * out_}, {bias_init_, 0, out_}}},
        .workspace_bytes = 3 * out_ * out_ * kFloatBytes,
        .kept = {3 * out_ * x[0], 3 * out_ * x[0]},
        .summary = fmt::format("{} -> {}{}", x[1], out_, dims.size() == 3 ? ", attention" : "")};
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const GruPlace p = place_of(io);
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop",
                    .reads = {p.x.value, p.lengths, p.attention.value, p.weight.working,
                              p.recurrent.value, p.bias.working},
                    .writes = {p.gates, p.products, p.y.value},
                    .flops_per_sample = p.flops()},
                   [=]<typename T>(const StepViews<T>& v) {
                     const Matrix<T> x = p.rows(v, p.x.value, p.w), w = p.weights(v),
                                     gates = p.rows(v, p.gates, 3 * p.n);
                     const Vector<T> bias = vector<T>(v.buffers, p.bias.working, 3 * p.n);
                     if (phase == Phase::kTrain)
                       ops::fully_connected_forward<T>(v.exec, x, w, bias, false, gates);
                     else
                       ops::fully_connected_evaluate<T>(v.exec, x, w, bias, false, gates);
                     ops::gru_forward<T>(v.exec, p.tensors(v));
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const GruPlace p = place_of(io);
    add_typed_step(
        plan, io.type,
        {.name = name() + ".bprop",
         .reads = {p.y.grad, p.y.value, p.gates, p.products, p.lengths, p.attention.value,
                   p.weight.working, p.recurrent.value},
         .writes = {p.gates, p.products, io.workspace, p.attention.grad, p.bias.grad, p.x.grad},
         .flops_per_sample = p.flops()},
        [=, workspace = io.workspace]<typename T>(const StepViews<T>& v) {
          ops::gru_backward<T>(v.exec, p.tensors(v), v.cube(p.y.grad, p.y.dims),
                               matrix(v.buffers, workspace, 3 * p.n, p.n),
                               v.rows(p.attention.grad, p.positions));
          const Matrix<T> d = p.rows(v, p.gates, 3 * p.n);
          ops::bias_relu_backward<T>(v.exec, {}, d, vector(v.buffers, p.bias.grad, 3 * p.n));
          if (p.x.grad != kNoBuffer)
            ops::fully_connected_backward_data<T>(v.exec, d, p.weights(v),
                                                  p.rows(v, p.x.grad, p.w));
        });
    add_typed_step(plan, io.type,
                   {.name = name() + ".wgrad",
                    .lane = io.weight_gradient_lane,
                    .reads = {p.x.value, p.y.value, p.gates, p.products},
                    .writes = {p.weight.grad, p.recurrent.grad},
                    .flops_per_sample = p.flops()},
                   [=]<typename T>(const StepViews<T>& v) {
                     ops::fully_connected_backward_weights<T>(
                         v.exec, p.rows(v, p.x.value, p.w), p.rows(v, p.gates, 3 * p.n),
                         matrix(v.buffers, p.weight.grad, p.w, 3 * p.n));
                     // A state is multiplied one position after it is made; products of a first
                     // position, behind a state of the sample before, are 0.
                     const int64_t rows = v.batch * p.positions, shift = std::min<int64_t>(1, rows);
                     ops::fully_connected_backward_weights<T>(
                         v.exec, p.rows(v, p.y.value, p.n).rows(0, rows - shift),
                         p.rows(v, p.products, 3 * p.n).rows(shift, rows),
                         matrix(v.buffers, p.recurrent.grad, p.n, 3 * p.n));
                   });
  }

 private:
  struct GruPlace {
    LayerTensor x, y, attention;
    LayerParameter weight, recurrent, bias;
    BufferId lengths = kNoBuffer, gates = kNoBuffer, products = kNoBuffer;
    int64_t positions = 0, w = 0, n = 0;
    // [batch positions, columns]
    template <typename T>
    [[nodiscard]] Matrix<T> rows(const StepViews<T>& v, BufferId id, int64_t columns) const {
      return matrix<T>(v.buffers, id, v.batch * positions, columns);
    }
    template <typename T>
    [[nodiscard]] Matrix<T> weights(const StepViews<T>& v) const {
      return matrix<T>(v.buffers, weight.working, w, 3 * n);
    }
    template <typename T>
    [[nodiscard]] ops::GruTensors<T> tensors(const StepViews<T>& v) const {
      const Dims wide = {positions, 3 * n};
      return {.lengths = vector(v.buffers, lengths, v.batch),
              .attention = v.rows(attention.value, positions),
              .recurrent = matrix(v.buffers, recurrent.value, n, 3 * n),
              .gates = v.cube(gates, wide),
              .products = v.cube(products, wide),
              .states = v.cube(y.value, y.dims)};
    }
    [[nodiscard]] double flops() const {
      return 6.0 * static_cast<double>(positions * n * (w + n));
    }
  };
  [[nodiscard]] static GruPlace place_of(const LayerIo& io) {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    return {.x = x,
            .y = y,
            .attention = io.bottoms.size() == 3 ? io.bottoms[2] : LayerTensor{},
            .weight = io.params[0],
            .recurrent = io.params[1],
            .bias = io.params[2],
            .lengths = io.bottoms[1].value,
            .gates = io.kept[0],
            .products = io.kept[1],
            .positions = x.dims[0],
            .w = x.dims[1],
            .n = y.dims[1]};
  }

  // ConfigError if `key` has another number than dimension i of x.
  void expect_fit(const char* key, int64_t value, const Dims& x, size_t i) const {
    if (value != 0 && value != x[i])
      config::fail_expected(*node().find("gru_param")->find(key),
                            fmt::format("{} of \"{}\" {}", x[i], bottoms()[0], to_string(x)));
  }

  int64_t out_ = 0, positions_ = 0, in_ = 0;
  InitializerType weight_init_ = InitializerType::kDefaultWeight,
                  bias_init_ = InitializerType::kDefaultBias;
};

}  // namespace

std::unique_ptr<Layer> make_gru(Block& s) { return std::make_unique<GruLayer>(s); }

}  // namespace hlite::network
