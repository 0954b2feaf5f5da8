// InnerProduct: y = x w + b, and its fused spelling FusedInnerProduct: y = relu(x w + b).
//   x [B,in], w [in,out], b [out], y [B,out]; x may have more dimensions, whose last is `in`
//
// FusedInnerProduct comes in chains: a Head and each Body name four tops (the output, then the
// names the original gives to mask, dReLU scratch and bias gradient), which the next Body or Tail
// takes as its four bottoms. Only the first carries data here; the others must match, so that a
// broken chain is an error and not a disconnected net.
#include "hugectr_lite/network/layer_parts.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/fully_connected.h"

namespace hlite::network {
namespace {

// Rows of the products: `x` is seen as a matrix along its last dimension.
template <typename T>
int64_t rows_of(const StepViews<T>& v, const LayerTensor& x) {
  return v.count(rows_of(x));
}
int64_t width_of(const LayerTensor& x) { return x.columns / rows_of_sample(x.dims); }

// The mask of `width` outputs; none for kNoBuffer.
template <typename T>
Matrix<uint8_t> relu_mask(const StepViews<T>& v, BufferId mask, int64_t rows, int64_t width) {
  return matrix<uint8_t>(v.buffers, mask, rows, ops::relu_mask_bytes(width));
}

// x w + b, activated, as X -> Y: they differ where the result is logits, in float whatever x is.
template <typename X, typename Y>
void inner_product(const StepViews<X>& v, Phase phase, const LayerTensor& x, BufferId weight,
                   BufferId bias, bool relu, const LayerTensor& y, BufferId mask) {
  const int64_t rows = rows_of(v, x), in = width_of(x), out = y.dims.back();
  const auto input = matrix<X>(v.buffers, x.value, rows, in);
  const auto weights = matrix<X>(v.buffers, weight, in, out);
  const auto biases = vector<Y>(v.buffers, bias, out);
  const auto output = matrix<Y>(v.buffers, y.value, rows, out);
  if (phase == Phase::kTrain)
    ops::fully_connected_forward<X, Y>(v.exec, input, weights, biases, relu, output,
                                       relu_mask(v, mask, rows, out));
  else
    ops::fully_connected_evaluate<X, Y>(v.exec, input, weights, biases, relu, output);
}

// The buffer that backward reads to know what a ReLU let pass: the mask, or without one the output.
BufferId relu_record(bool relu, BufferId mask, BufferId output) {
  return !relu ? kNoBuffer : mask != kNoBuffer ? mask : output;
}

class InnerProductLayer : public Layer {
 public:
  InnerProductLayer(Block& s, bool fused) : Layer(s) {
    s.about(fused ? "y = relu(x w + b)." : "y = x w + b, along the last dimension.");
    if (auto fc = s.object("fc_param", "Its parameters.", kRequired)) {
      fc->integer("num_output", &is_.outputs, {.min = 1, .max = int64_t{1} << 24},
                  "Width of the output.", kRequired);
      fc->boolean("use_bias", &is_.bias, "Extension: `false` omits b.");
      fc->choice("weight_init", &is_.weight_init, named_initializers(),
                 "Initializer of the weights.", otherwise("truncated normal, σ² = 2/(in + out)"));
      fc->choice("bias_init", &is_.bias_init, named_initializers(), "Initializer of the bias.",
                 otherwise("truncated normal, σ² = 1/out"));
    }
    traits_.is_inner_product = true;
    if (fused) {
      declare_chain(s);
    } else {
      expect_one_each(s);
    }
  }

  InnerProductLayer(const config::JsonNode& node, Wiring wiring, const InnerProductOptions& options)
      : Layer(node, std::move(wiring)), is_(options) {
    traits_.is_inner_product = true;
    traits_.has_relu = is_.relu;
    traits_.data_bottoms = 1;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    const int64_t in = dims[0].back();
    const int64_t out = is_.outputs;
    Dims top = dims[0];
    top.back() = out;
    LayerShape shape = {
        .tops = {top},
        .rows = Rows::kAlone,
        .parameters = {{"weight", {in, out}, {is_.weight_init, in, out}}},
        .relu_mask_bytes = has_relu() ? rows_of_sample(top) * ops::relu_mask_bytes(out) : 0,
        .summary = fmt::format("{} -> {}{}{}", in, out, is_.bias ? "" : ", no bias",
                               has_relu() ? ", ReLU" : "")};
    if (is_.bias)
      shape.parameters.push_back({"bias", {out}, {is_.bias_init, bias_fan_in(in), out}});
    return shape;
  }

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    if (phase == Phase::kTrain && io.in_head) return;
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const bool logits = y.type != io.type;
    const BufferId weight = io.params[0].working;
    const BufferId bias = logits ? bias_of(io).value : bias_of(io).working;
    const BufferId mask = phase == Phase::kTrain ? io.relu_mask : kNoBuffer;
    add_typed_step(plan, io.type,
                   {.name = name() + ".fprop",
                    .reads = {x.value, weight, bias, x.offsets},
                    .writes = {y.value, mask},
                    .flops_per_sample = flops(x)},
                   [=, relu = has_relu()]<typename T>(const StepViews<T>& v) {
                     if (logits)
                       inner_product<T, float>(v, phase, x, weight, bias, relu, y, mask);
                     else
                       inner_product<T, T>(v, phase, x, weight, bias, relu, y, mask);
                   });
  }

  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    if (io.in_head) return;
    if (!io.dz_ready && (has_relu() || (is_.bias && !sums_bias_with_weights(io))))
      emit_bias_gradient(plan, io);
    emit_data_gradient(plan, io);
    emit_weight_gradient(plan, io);
  }

 private:
  void declare_chain(Block& s) {
    struct Chained {
      bool below = false, above = false;
      bool operator==(const Chained&) const = default;
    };
    Chained chained;
    s.choice(
        "position", &chained,
        {{"Head", {false, true}},
         {"Body", {true, true}},
         {"Tail", {true, false}},
         {"Isolated", {}},
         {"None", {}}},
        "In a chain, `Head` and `Body` name four tops, which `Body` and `Tail` take as bottoms.");
    traits_.has_relu = true;
    s.choice("activation", &traits_.has_relu, {{"Relu", true}, {"None", false}},
             "`None` omits the ReLU, at the end of a chain.");
    if (chained.above && !has_relu())
      s.refuse("activation", fmt::format("expected \"Relu\" in position {}, found \"None\"",
                                         s.at("position").string()));
    if (chained.below || bottoms().size() != 2) expect_bottoms(s, chained.below ? 4 : 1);
    expect_tops(s, chained.above ? 4 : 1);
    traits_.data_bottoms = traits_.data_tops = 1;
  }

  // dz = dy masked, in place, and db. Without a ReLU the gradient stays as it is, and no step waits
  // for the sums.
  void emit_bias_gradient(plan::Plan& plan, const LayerIo& io) const {
    const LayerTensor& y = io.tops[0];
    const BufferId db = bias_of(io).grad;
    const bool relu = has_relu();
    add_typed_step(plan, io.type,
                   {.name = name() + ".dbias",
                    .lane = relu ? plan::Lane::kCompute : io.weight_gradient_lane,
                    .reads = {y.grad, relu_record(relu, io.relu_mask, y.value), y.offsets},
                    .writes = {relu ? y.grad : kNoBuffer, db}},
                   [=, out = is_.outputs, mask = io.relu_mask]<typename T>(const StepViews<T>& v) {
                     const int64_t rows = rows_of(v, y);
                     ops::bias_relu_backward<T>(
                         v.exec, matrix<T>(v.buffers, relu ? y.value : kNoBuffer, rows, out),
                         matrix<T>(v.buffers, y.grad, rows, out), vector(v.buffers, db, out),
                         relu_mask(v, mask, rows, out));
                   });
  }

  // dx = dz w^T, and for an inner product below: its ReLU's mask and, on the CPU, its bias gradient.
  void emit_data_gradient(plan::Plan& plan, const LayerIo& io) const {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const LayerIo::Below under = io.below;
    add_typed_step(
        plan, io.type,
        {.name = name() + ".bprop",
         .reads = {y.grad, io.params[0].working, relu_record(under.relu, under.relu_mask, x.value),
                   x.offsets},
         .writes = {x.grad, under.bias_grad},
         .flops_per_sample = flops(x)},
        [=, out = is_.outputs, weight = io.params[0].working]<typename T>(const StepViews<T>& v) {
          const int64_t rows = rows_of(v, x), in = width_of(x);
          ops::LayerBelow<T> below;
          below.dbias = vector(v.buffers, under.bias_grad, in);
          if (under.relu) {
            below.y = matrix<T>(v.buffers, x.value, rows, in);
            below.mask = relu_mask(v, under.relu_mask, rows, in);
          }
          ops::fully_connected_backward_data<T>(v.exec, matrix<T>(v.buffers, y.grad, rows, out),
                                                matrix<T>(v.buffers, weight, in, out),
                                                matrix<T>(v.buffers, x.grad, rows, in), below);
        });
  }

  // Whether .wgrad makes the bias gradient too: on a GPU, unless a step of this layer masks dz, which
  // sums it on the way.
  [[nodiscard]] bool sums_bias_with_weights(const LayerIo& io) const {
    return io.weight_gradient_lane != plan::Lane::kCompute && (io.dz_ready || !has_relu());
  }
  // dw = x^T dz, and db
  void emit_weight_gradient(plan::Plan& plan, const LayerIo& io) const {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    const BufferId db = sums_bias_with_weights(io) ? bias_of(io).grad : kNoBuffer;
    add_typed_step(
        plan, io.type,
        {.name = name() + ".wgrad",
         .lane = io.weight_gradient_lane,
         .reads = {x.value, y.grad, x.offsets},
         .writes = {io.params[0].grad, db},
         .flops_per_sample = flops(x)},
        [=, out = is_.outputs, dw = io.params[0].grad]<typename T>(const StepViews<T>& v) {
          const int64_t rows = rows_of(v, x), in = width_of(x);
          ops::fully_connected_backward_weights<T>(v.exec, matrix<T>(v.buffers, x.value, rows, in),
                                                   matrix<T>(v.buffers, y.grad, rows, out),
                                                   matrix(v.buffers, dw, in, out),
                                                   vector(v.buffers, db, out));
        });
  }

  [[nodiscard]] bool has_relu() const { return traits_.has_relu; }
  [[nodiscard]] double flops(const LayerTensor& x) const {
    return 2.0 * static_cast<double>(elements(x.dims) * is_.outputs);
  }
  [[nodiscard]] static LayerParameter bias_of(const LayerIo& io) {
    return io.params.size() > 1 ? io.params[1] : LayerParameter{};
  }
  // A bias has none, unless its initial values depend on the layer's.
  [[nodiscard]] int64_t bias_fan_in(int64_t in) const {
    return is_.bias_init == InitializerType::kFanInUniform ? in : 0;
  }

  InnerProductOptions is_;
};

}  // namespace

std::unique_ptr<Layer> make_inner_product(Block& s) {
  return std::make_unique<InnerProductLayer>(s, false);
}

std::unique_ptr<Layer> make_fused_inner_product(Block& s) {
  return std::make_unique<InnerProductLayer>(s, true);
}

std::unique_ptr<Layer> make_inner_product_part(const config::JsonNode& node, Wiring wiring,
                                               const InnerProductOptions& options) {
  return std::make_unique<InnerProductLayer>(node, std::move(wiring), options);
}

}  // namespace hlite::network
