#include "hugectr_lite/network/bce_loss_layer.h"

#include <cmath>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/bce_loss.h"

namespace hlite::network {

BceLossLayer::BceLossLayer(config::ObjectReader& reader) : Layer(reader) {
  expect_bottoms(2);
  expect_tops(1);
  if (reader.has("regularizer")) {
    regularizer_ =
        reader.choice("regularizer", {"L1", "L2"}) == "L1" ? Regularizer::kL1 : Regularizer::kL2;
    lambda_ = reader.number("lambda", {.min = 0});
  } else if (reader.has("lambda")) {
    config::fail_at(reader.member("lambda"),
                    "expected a `regularizer` (L1 or L2) with it, found none");
  }
}

std::vector<Dims> BceLossLayer::infer(const std::vector<Dims>& bottoms) {
  for (size_t i = 0; i < 2; ++i)
    if (bottoms[i] != Dims{1})
      config::fail_at(
          *node().find("bottom"),
          fmt::format("expected {} of shape [B,1], found \"{}\" of shape {}",
                      i == 0 ? "logits" : "labels", bottoms_[i], to_string(bottoms[i])));
  return {{1}};
}

std::string BceLossLayer::describe() const {
  if (regularizer_ == Regularizer::kNone) return "";
  return fmt::format("{}, lambda {}", regularizer_ == Regularizer::kL1 ? "L1" : "L2", lambda_);
}

void BceLossLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const {
  const LayerTensor &z = io.bottoms[0], &y = io.bottoms[1], &loss = io.tops[0];
  const Buffers* buffers = io.buffers;
  const bool gradient = phase == Phase::kTrain && z.grad != kNoBuffer;
  plan.add({.name = name() + (gradient ? ".fbprop" : ".fprop"),
            .lane = plan::Lane::kCompute,
            .reads = {z.value, y.value},
            .writes = gradient ? std::vector{loss.value, z.grad} : std::vector{loss.value},
            .run = [=](const plan::StepContext& c) {
              ops::bce_loss(c.exec, matrix(*buffers, z.value, c.batch, 1),
                            matrix(*buffers, y.value, c.batch, 1), buffers->data<float>(loss.value),
                            gradient ? matrix(*buffers, z.grad, c.batch, 1) : Matrix<float>(),
                            c.mean_over());
            }});
}

void BceLossLayer::emit_backward(plan::Plan&, const LayerIo&) const {}  // done by the forward step

void BceLossLayer::emit_after_backward(plan::Plan& plan, const LayerIo& io) const {
  if (regularizer_ == Regularizer::kNone) return;
  const Buffers* buffers = io.buffers;
  const BufferId loss = io.tops[0].value, w = io.dense_parameters, g = io.dense_gradients;
  const int64_t n = buffers->bytes(w) / static_cast<int64_t>(sizeof(float));
  plan.add({.name = name() + ".regularizer",
            .lane = plan::Lane::kCompute,
            .reads = {loss, w, g},
            .writes = {loss, g},
            .run = [=, l1 = regularizer_ == Regularizer::kL1,
                    lambda = lambda_](const plan::StepContext& c) {
              const float* weight = buffers->data<float>(w);
              float* gradient = buffers->data<float>(g);
              const auto scale = static_cast<float>(lambda / static_cast<double>(c.mean_over()));
              double penalty = 0;
              for (int64_t i = 0; i < n; ++i) {
                const float v = weight[i];
                penalty += l1 ? std::abs(v) : 0.5 * v * v;
                gradient[i] += scale * (l1 ? static_cast<float>((v > 0) - (v < 0)) : v);
              }
              float* total = buffers->data<float>(loss);
              *total = static_cast<float>(*total +
                                          lambda / static_cast<double>(c.mean_over()) * penalty);
            }});
}

}  // namespace hlite::network
