#include "hugectr_lite/network/inner_product_layer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/fully_connected.h"

namespace hlite::network {

InnerProductBase::InnerProductBase(config::ObjectReader& reader) : Layer(reader) {
  auto fc = reader.object("fc_param");
  out_ = fc.integer("num_output", {.min = 1, .max = int64_t{1} << 24});
  if (fc.has("weight_init"))
    weight_init_ = initializer_from_name(fc.choice("weight_init", initializer_names()));
  if (fc.has("bias_init"))
    bias_init_ = initializer_from_name(fc.choice("bias_init", initializer_names()));
  fc.finish();
}

InnerProductLayer::InnerProductLayer(config::ObjectReader& reader) : InnerProductBase(reader) {
  expect_bottoms(1);
  expect_tops(1);
}

FusedInnerProductLayer::FusedInnerProductLayer(config::ObjectReader& reader)
    : InnerProductBase(reader) {
  const std::string position =
      reader.choice_or("position", "None", {"Head", "Body", "Tail", "Isolated", "None"});
  const bool chained_below = position == "Body" || position == "Tail";
  const bool chained_above = position == "Head" || position == "Body";
  relu_ = reader.choice_or("activation", "Relu", {"Relu", "None"}) == "Relu";
  if (chained_above && !relu_)
    config::fail_at(reader.member("activation"),
                    fmt::format("expected \"Relu\" in position {}, found \"None\"", position));
  expect_bottoms(chained_below ? 4 : 1);
  expect_tops(chained_above ? 4 : 1);
}

std::vector<Dims> InnerProductBase::infer(const std::vector<Dims>& bottoms) {
  expect_rank(bottoms[0], 1, 0);
  in_ = bottoms[0][0];
  return {{out_}};
}

std::vector<ParameterSpec> InnerProductBase::parameters() const {
  return {{"weight", {in_, out_}, {weight_init_, in_, out_}},
          {"bias", {out_}, {bias_init_, 0, out_}}};
}

std::string InnerProductBase::describe() const {
  return fmt::format("{} -> {}{}", in_, out_, relu_ ? ", ReLU" : "");
}

int64_t InnerProductBase::relu_mask_bytes() const { return relu_ ? ops::relu_mask_bytes(out_) : 0; }

namespace {
// x w + b, activated, as X -> Y: they differ where the result is logits, in float whatever x is.
template <typename X, typename Y>
auto forward(const LayerIo& io, BufferId bias, BufferId mask, int64_t in, int64_t out, bool relu) {
  return [=, buffers = io.buffers, x = io.bottoms[0].value, w = io.params[0].working,
          y = io.tops[0].value](const plan::StepContext& c) {
    ops::fully_connected_forward<X, Y>(
        c.exec, matrix<X>(*buffers, x, c.batch, in), matrix<X>(*buffers, w, in, out),
        vector<Y>(*buffers, bias, out), relu, matrix<Y>(*buffers, y, c.batch, out),
        mask == kNoBuffer ? Matrix<uint8_t>()
                          : matrix<uint8_t>(*buffers, mask, c.batch, ops::relu_mask_bytes(out)));
  };
}

// The mask of `width` outputs, or none.
Matrix<const uint8_t> mask_of(const Buffers& buffers, BufferId mask, int64_t batch, int64_t width) {
  if (mask == kNoBuffer) return {};
  return matrix<uint8_t>(buffers, mask, batch, ops::relu_mask_bytes(width));
}
}  // namespace

void InnerProductBase::emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const {
  const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
  const bool logits = y.type != io.type;
  const BufferId bias = logits ? io.params[1].value : io.params[1].working;
  const BufferId mask = phase == Phase::kTrain ? io.relu_mask : kNoBuffer;
  std::vector<BufferId> writes = {y.value};
  if (mask != kNoBuffer) writes.push_back(mask);
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + ".fprop",
              .lane = plan::Lane::kCompute,
              .reads = {x.value, io.params[0].working, bias},
              .writes = writes,
              .run = logits ? std::function<void(const plan::StepContext&)>(
                                  forward<T, float>(io, bias, mask, x.columns, out_, relu_))
                            : forward<T, T>(io, bias, mask, x.columns, out_, relu_),
              .flops_per_sample = 2.0 * static_cast<double>(in_ * out_)});
  });
}

// How a layer reads what its, or the lower one's, ReLU let pass: of its mask, or of its output.
static void read_relu(std::vector<BufferId>& reads, BufferId mask, BufferId output) {
  reads.push_back(mask != kNoBuffer ? mask : output);
}

template <typename T>
void InnerProductBase::emit_backward_as(plan::Plan& plan, const LayerIo& io) const {
  const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
  const LayerParameter &w = io.params[0], &b = io.params[1];
  const Buffers* buffers = io.buffers;
  const int64_t in = x.columns, out = out_;
  const double flops = 2.0 * static_cast<double>(in_ * out_);
  if (!io.dz_ready) {
    std::vector<BufferId> reads = {y.grad};
    if (relu_) read_relu(reads, io.relu_mask, y.value);
    // Without a ReLU the gradient stays as it is, and nobody waits for the sums.
    plan.add({.name = name() + ".dbias",
              .lane = relu_ ? plan::Lane::kCompute : io.weight_gradient_lane,
              .reads = reads,
              .writes = relu_ ? std::vector{y.grad, b.grad} : std::vector{b.grad},
              .run = [=, relu = relu_, mask = io.relu_mask](const plan::StepContext& c) {
                ops::bias_relu_backward<T>(
                    c.exec, relu ? matrix<T>(*buffers, y.value, c.batch, out) : Matrix<T>(),
                    matrix<T>(*buffers, y.grad, c.batch, out), vector(*buffers, b.grad, out),
                    relu ? mask_of(*buffers, mask, c.batch, out) : Matrix<const uint8_t>());
              }});
  }
  if (x.grad != kNoBuffer) {
    const bool fused = io.below.bias_grad != kNoBuffer;
    std::vector<BufferId> reads = {y.grad, w.working};
    if (fused && io.below.relu) read_relu(reads, io.below.relu_mask, x.value);
    plan.add({.name = name() + ".bprop",
              .lane = plan::Lane::kCompute,
              .reads = reads,
              .writes = fused ? std::vector{x.grad, io.below.bias_grad} : std::vector{x.grad},
              .run =
                  [=, under = io.below](const plan::StepContext& c) {
                    ops::LayerBelow<T> below;
                    if (fused) {
                      if (under.relu) {
                        below.y = matrix<T>(*buffers, x.value, c.batch, in);
                        below.mask = mask_of(*buffers, under.relu_mask, c.batch, in);
                      }
                      below.dbias = vector(*buffers, under.bias_grad, in);
                    }
                    ops::fully_connected_backward_data<T>(
                        c.exec, matrix<T>(*buffers, y.grad, c.batch, out),
                        matrix<T>(*buffers, w.working, in, out),
                        matrix<T>(*buffers, x.grad, c.batch, in), fused ? &below : nullptr);
                  },
              .flops_per_sample = flops});
  }
  plan.add({.name = name() + ".wgrad",
            .lane = io.weight_gradient_lane,
            .reads = {x.value, y.grad},
            .writes = {w.grad},
            .run =
                [=](const plan::StepContext& c) {
                  ops::fully_connected_backward_weights<T>(
                      c.exec, matrix<T>(*buffers, x.value, c.batch, in),
                      matrix<T>(*buffers, y.grad, c.batch, out), matrix(*buffers, w.grad, in, out));
                },
            .flops_per_sample = flops});
}

void InnerProductBase::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  with_float_type(io.type, [&]<typename T>() { emit_backward_as<T>(plan, io); });
}

}  // namespace hlite::network
