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

void InnerProductBase::emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const {
  const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
  const LayerParameter &w = io.params[0], &b = io.params[1];
  const Buffers* buffers = io.buffers;
  plan.add({.name = name() + ".fprop",
            .lane = plan::Lane::kCompute,
            .reads = {x.value, w.value, b.value},
            .writes = {y.value},
            .run =
                [=, in = in_, out = out_, relu = relu_](const plan::StepContext& c) {
                  ops::fully_connected_forward(c.exec, matrix(*buffers, x.value, c.batch, in),
                                               matrix(*buffers, w.value, in, out),
                                               vector(*buffers, b.value, out), relu,
                                               matrix(*buffers, y.value, c.batch, out));
                },
            .flops_per_sample = 2.0 * static_cast<double>(in_ * out_)});
}

void InnerProductBase::emit_backward(plan::Plan& plan, const LayerIo& io) const {
  const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
  const LayerParameter &w = io.params[0], &b = io.params[1];
  const Buffers* buffers = io.buffers;
  const double flops = 2.0 * static_cast<double>(in_ * out_);
  if (!io.dz_ready) {
    plan.add({.name = name() + ".dbias",
              .lane = plan::Lane::kCompute,
              .reads = relu_ ? std::vector{y.value, y.grad} : std::vector{y.grad},
              .writes = {y.grad, b.grad},
              .run = [=, out = out_, relu = relu_](const plan::StepContext& c) {
                ops::bias_relu_backward(
                    c.exec, relu ? matrix(*buffers, y.value, c.batch, out) : Matrix<float>(),
                    matrix(*buffers, y.grad, c.batch, out), vector(*buffers, b.grad, out));
              }});
  }
  if (x.grad != kNoBuffer) {
    const bool fused = io.below.bias_grad != kNoBuffer;
    plan.add({.name = name() + ".bprop",
              .lane = plan::Lane::kCompute,
              .reads = fused && io.below.relu ? std::vector{y.grad, w.value, x.value}
                                              : std::vector{y.grad, w.value},
              .writes = fused ? std::vector{x.grad, io.below.bias_grad} : std::vector{x.grad},
              .run =
                  [=, in = in_, out = out_, under = io.below](const plan::StepContext& c) {
                    ops::ReluBelow below;
                    if (fused) {
                      if (under.relu) below.y = matrix(*buffers, x.value, c.batch, in);
                      below.dbias = vector(*buffers, under.bias_grad, in);
                    }
                    ops::fully_connected_backward_data(
                        c.exec, matrix(*buffers, y.grad, c.batch, out),
                        matrix(*buffers, w.value, in, out), matrix(*buffers, x.grad, c.batch, in),
                        fused ? &below : nullptr);
                  },
              .flops_per_sample = flops});
  }
  plan.add({.name = name() + ".wgrad",
            .lane = plan::Lane::kCompute,
            .reads = {x.value, y.grad},
            .writes = {w.grad},
            .run =
                [=, in = in_, out = out_](const plan::StepContext& c) {
                  ops::fully_connected_backward_weights(
                      c.exec, matrix(*buffers, x.value, c.batch, in),
                      matrix(*buffers, y.grad, c.batch, out), matrix(*buffers, w.grad, in, out));
                },
            .flops_per_sample = flops});
}

}  // namespace hlite::network
