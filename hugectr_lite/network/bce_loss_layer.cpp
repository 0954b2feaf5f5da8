#include "hugectr_lite/network/bce_loss_layer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/bce_loss.h"
#include "hugectr_lite/ops/block_sums.h"

namespace hlite::network {

BceLossLayer::BceLossLayer(config::ObjectReader& reader) : Layer(reader) {
  expect_bottoms(2);
  expect_tops(1);
  if (reader.has("regularizer")) {
    penalty_ =
        reader.choice("regularizer", {"L1", "L2"}) == "L1" ? ops::Penalty::kL1 : ops::Penalty::kL2;
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
  if (!penalty_) return "";
  return fmt::format("{}, lambda {}", *penalty_ == ops::Penalty::kL1 ? "L1" : "L2", lambda_);
}

int64_t BceLossLayer::workspace_bytes() const {
  return ops::kBlockSums * static_cast<int64_t>(sizeof(double));
}

namespace {
Vector<double> workspace(const LayerIo& io) {
  return {io.buffers->data<double>(io.workspace), ops::kBlockSums};
}
const float* scale(const LayerIo& io) {
  return io.loss_scale == kNoBuffer ? nullptr : io.buffers->data<float>(io.loss_scale);
}
std::vector<BufferId> with_scale(const LayerIo& io, std::vector<BufferId> reads) {
  if (io.loss_scale != kNoBuffer) reads.push_back(io.loss_scale);
  return reads;
}
}  // namespace

void BceLossLayer::emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const {
  const LayerTensor &z = io.bottoms[0], &y = io.bottoms[1], &loss = io.tops[0];
  const bool gradient = phase == Phase::kTrain && z.grad != kNoBuffer;
  std::vector<BufferId> writes = {loss.value, io.workspace};
  if (gradient) writes.push_back(z.grad);
  with_float_type(io.type, [&]<typename T>() {
    plan.add({.name = name() + (gradient ? ".fbprop" : ".fprop"),
              .lane = plan::Lane::kCompute,
              .reads = with_scale(io, {z.value, y.value}),
              .writes = writes,
              .run = [=](const plan::StepContext& c) {
                const Buffers& buffers = *io.buffers;
                ops::bce_loss<T>(
                    c.exec, matrix(buffers, z.value, c.batch, 1),
                    matrix(buffers, y.value, c.batch, 1), buffers.data<float>(loss.value),
                    gradient ? matrix<T>(buffers, z.grad, c.batch, 1) : Matrix<T>(),
                    {.mean_over = c.mean_over(), .scale = scale(io), .workspace = workspace(io)});
              }});
  });
}

void BceLossLayer::emit_backward(plan::Plan&, const LayerIo&) const {}  // done by the forward step

void BceLossLayer::emit_after_backward(plan::Plan& plan, const LayerIo& io) const {
  if (!penalty_) return;
  const BufferId loss = io.tops[0].value, w = io.dense_parameters, g = io.dense_gradients;
  plan.add({.name = name() + ".regularizer",
            .lane = plan::Lane::kCompute,
            .reads = with_scale(io, {loss, w, g}),
            .writes = {loss, g, io.workspace},
            .run = [=, penalty = *penalty_, lambda = lambda_](const plan::StepContext& c) {
              const Buffers& buffers = *io.buffers;
              const int64_t n = buffers.bytes(w) / static_cast<int64_t>(sizeof(float));
              ops::add_penalty(c.exec, vector(buffers, w, n), vector(buffers, g, n),
                               buffers.data<float>(loss),
                               {.penalty = penalty,
                                .lambda = lambda / static_cast<double>(c.mean_over()),
                                .scale = scale(io),
                                .workspace = workspace(io)});
            }});
}

}  // namespace hlite::network
