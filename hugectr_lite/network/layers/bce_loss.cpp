// BinaryCrossEntropyLoss: the mean of logits [B,1] against labels [B,1], plus an optional penalty
// on every dense parameter: L1: lambda sum |w|; L2: lambda/2 sum w^2, whatever the batch.
#include "hugectr_lite/ops/bce_loss.h"

#include <optional>

#include "hugectr_lite/config/regularizer_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/regularizer.h"

namespace hlite::network {
namespace {

class BceLossLayer : public Layer {
 public:
  explicit BceLossLayer(config::ObjectReader& reader) : Layer(reader) {
    traits_.is_loss = true;
    expect_bottoms(2);
    expect_tops(1);
    const config::RegularizerConfig penalty = config::parse_regularizer(reader);
    lambda_ = penalty.lambda;
    if (penalty.any())
      penalty_ = penalty.type == config::Regularizer::kL1 ? ops::Penalty::kL1 : ops::Penalty::kL2;
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    for (size_t i = 0; i < 2; ++i)
      if (dims[i] != Dims{1})
        config::fail_at(
            *node().find("bottom"),
            fmt::format("expected {} of shape [B,1], found \"{}\" of shape {}",
                        i == 0 ? "logits" : "labels", bottoms()[i], to_string(dims[i])));
    LayerShape shape = {.tops = {{1}},
                        .workspace_bytes = ops::kBlockSums * int64_t{sizeof(double)}};
    if (penalty_)
      shape.summary =
          fmt::format("{}, lambda {}", *penalty_ == ops::Penalty::kL1 ? "L1" : "L2", lambda_);
    return shape;
  }

  // Training: the loss and the gradient of the logits in one pass.
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const LayerTensor &z = io.bottoms[0], &y = io.bottoms[1], &loss = io.tops[0];
    const BufferId dz = phase == Phase::kTrain ? z.grad : kNoBuffer;
    add_typed_step(
        plan, io.type,
        {.name = name() + (dz != kNoBuffer ? ".fbprop" : ".fprop"),
         .reads = {z.value, y.value, io.loss_scale},
         .writes = {loss.value, io.workspace, dz}},
        [=, scale = io.loss_scale, workspace = io.workspace]<typename T>(const StepViews<T>& v) {
          ops::bce_loss<T>(v.exec, matrix(v.buffers, z.value, v.batch, 1),
                           matrix(v.buffers, y.value, v.batch, 1),
                           pointer<float>(v.buffers, loss.value), v.rows(dz, 1),
                           {.mean_over = v.context.mean_over(),
                            .scale = pointer<float>(v.buffers, scale),
                            .workspace = vector<double>(v.buffers, workspace, ops::kBlockSums)});
        });
  }

  void emit_backward(plan::Plan&, const LayerIo&) const override {}  // done by the forward step

  // Adds the penalty to the loss and its gradient to every dense gradient, once these are complete.
  void emit_after_backward(plan::Plan& plan, const LayerIo& io) const override {
    if (!penalty_) return;
    const BufferId loss = io.tops[0].value, w = io.dense_parameters, g = io.dense_gradients;
    add_step(plan,
             {.name = name() + ".regularizer",
              .reads = {loss, w, g, io.loss_scale},
              .writes = {loss, g, io.workspace},
              .run = [=, &buffers = plan.buffers(), penalty = *penalty_, lambda = lambda_,
                      scale = io.loss_scale, workspace = io.workspace](const plan::StepContext& c) {
                const int64_t n = buffers.bytes(w) / kFloatBytes;
                ops::add_penalty(
                    c.exec, vector(buffers, w, n), vector(buffers, g, n),
                    pointer<float>(buffers, loss),
                    {.penalty = penalty,
                     .lambda = lambda,
                     .scale = pointer<float>(buffers, scale),
                     .workspace = vector<double>(buffers, workspace, ops::kBlockSums)});
              }});
  }

 private:
  std::optional<ops::Penalty> penalty_;
  double lambda_ = 0;
};

}  // namespace

std::unique_ptr<Layer> make_bce_loss(config::ObjectReader& reader) {
  return std::make_unique<BceLossLayer>(reader);
}

}  // namespace hlite::network
