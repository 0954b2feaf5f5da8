// Losses of logits against labels (ops/mean_loss.h), mean over the batch:
//
//   BinaryCrossEntropyLoss   of one task, [B,1], plus an optional penalty on every dense parameter:
//                            L1: lambda sum |w|; L2: lambda/2 sum w^2, whatever the batch; with
//                            `pos_weight` for labels of 1
//   MultiCrossEntropyLoss    of T tasks, [B,T], a weight for each, mean over B T. A label below
//                            -0.5 is absent
//   MSELoss                  squared error of values, [B,1]
//
// `base_score` and `score_scale` are the network's part (LayerTraits::link): a logit here is
// offset + scale x of what the layer below says.
//
// If the Data layer has weights of samples, each sample's part of the loss is multiplied by its
// own: labels then lie in rows of T + 1 numbers.
#include "hugectr_lite/ops/mean_loss.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "hugectr_lite/config/regularizer_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/loss_head.h"
#include "hugectr_lite/ops/regularizer.h"

namespace hlite::network {
namespace {

// What a step knows of the loss's options before it runs: all but the workspace.
struct StepOptions {
  ops::LossOptions options;
  BufferId scale;

  template <typename T>
  [[nodiscard]] ops::LossOptions in(const StepViews<T>& v) const {
    ops::LossOptions now = options;
    now.mean_over = v.context.mean_over();
    now.scale = pointer<float>(v.buffers, scale);
    return now;
  }
};

class MeanLossLayer : public Layer {
 public:
  explicit MeanLossLayer(Block& s, ops::LossKind kind = ops::LossKind::kBinaryCrossEntropy)
      : Layer(s), kind_(kind) {
    traits_.is_loss = true;
    traits_.predicts_values = kind == ops::LossKind::kSquaredError;
    expect_bottoms(s, 2);
    expect_tops(s, 1);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    for (size_t i = 0; i < 2; ++i)
      if (dims[i] != Dims{tasks()})
        config::fail_at(
            *node().find("bottom"),
            fmt::format("expected {} of shape [B,{}]{}, found \"{}\" of shape {}{}",
                        i == 0 ? "logits" : "labels", tasks(),
                        weights_.count > 0 ? fmt::format(", as target_weight has {}", tasks()) : "",
                        bottoms()[i], to_string(dims[i]),
                        dims[i].folded ? "; a Reshape below cuts samples into rows: give it the "
                                         "whole width of a sample as leading_dim"
                                       : ""));
    return {.tops = {{1}},
            .workspace_bytes = ops::kBlockSums * int64_t{sizeof(double)},
            .summary = summary()};
  }

  // Training: the loss and the gradient of the logits in one pass.
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    if (phase == Phase::kTrain && io.head) return emit_head(plan, io);
    const LayerTensor &z = io.bottoms[0], &y = io.bottoms[1], &loss = io.tops[0];
    const BufferId dz = phase == Phase::kTrain ? z.grad : kNoBuffer;
    add_typed_step(plan, io.type,
                   {.name = name() + (dz != kNoBuffer ? ".fbprop" : ".fprop"),
                    .reads = {z.value, y.value, io.loss_scale},
                    .writes = {loss.value, io.workspace, dz}},
                   [=, n = tasks(), options = step_options(io),
                    workspace = io.workspace]<typename T>(const StepViews<T>& v) {
                     ops::LossOptions with = options.in(v);
                     with.workspace = vector<double>(v.buffers, workspace, ops::kBlockSums);
                     ops::mean_loss<T>(v.exec, matrix(v.buffers, z.value, v.batch, n),
                                       matrix(v.buffers, y.value, v.batch, y.columns),
                                       pointer<float>(v.buffers, loss.value), v.rows(dz, n), with);
                   });
  }
  void emit_backward(plan::Plan&, const LayerIo&) const override {}  // done by the forward step

 protected:
  ops::TaskWeights weights_;    // of one task: none
  double positive_weight_ = 1;  // of one task

 private:
  [[nodiscard]] virtual std::string summary() const { return ""; }
  [[nodiscard]] int64_t tasks() const { return std::max(weights_.count, 1); }

  [[nodiscard]] StepOptions step_options(const LayerIo& io) const {
    return {{.kind = kind_,
             .gradient_factor = 1 / static_cast<double>(traits_.link.scale),
             .tasks = weights_,
             .positive_weight = positive_weight_},
            io.loss_scale};
  }

  // The loss, and all of the inner product below.
  void emit_head(plan::Plan& plan, const LayerIo& io) const {
    const LayerTensor &z = io.bottoms[0], &labels = io.bottoms[1];
    const LayerIo::Head& head = *io.head;
    const LayerTensor& x = head.x;
    const BufferId loss = io.tops[0].value;
    add_typed_step(
        plan, io.type,
        {.name = name() + ".fbprop",
         .reads = {x.value, head.weight.working, head.bias.value, labels.value, io.loss_scale},
         .writes = {z.value, loss, z.grad, x.grad, head.weight.grad, head.bias.grad},
         .flops_per_sample = 6.0 * static_cast<double>(x.columns)},
        [=, options = step_options(io)]<typename T>(const StepViews<T>& v) {
          const int64_t in = x.columns;
          ops::loss_head<T>(v.exec,
                            {.x = v.rows(x.value, in),
                             .w = vector<T>(v.buffers, head.weight.working, in),
                             .bias = pointer<float>(v.buffers, head.bias.value),
                             .relu = head.relu,
                             .labels = matrix(v.buffers, labels.value, v.batch, labels.columns),
                             .logits = vector(v.buffers, z.value, v.batch),
                             .loss = pointer<float>(v.buffers, loss),
                             .dlogits = vector<T>(v.buffers, z.grad, v.batch),
                             .dx = v.rows(x.grad, in),
                             .dw = vector(v.buffers, head.weight.grad, in),
                             .dbias = pointer<float>(v.buffers, head.bias.grad)},
                            options.in(v));
        });
  }

  const ops::LossKind kind_;
};

class MseLossLayer : public MeanLossLayer {
 public:
  explicit MseLossLayer(Block& s) : MeanLossLayer(s, ops::LossKind::kSquaredError) {
    s.about(
        "Extension: mean squared error of values [B,1] and labels, which are any numbers if the "
        "label has `\"real\": true`. Scores are the values themselves.");
    constexpr double kLeast = 1e-30, kMost = 1e30;
    s.number("base_score", &traits_.link.offset, {.min = -kMost, .max = kMost},
             "Extension: score where the layer below says 0; first configs have the mean label.");
    s.number(
        "score_scale", &traits_.link.scale, {.min = kLeast, .max = kMost},
        "Extension: a score is `base_score` + `score_scale` x, where x is what the layer below "
        "says; first configs have the standard deviation of labels. Gradients are those of "
        "the error in units of `score_scale`.");
  }

 private:
  [[nodiscard]] std::string summary() const override {
    const auto& [offset, scale] = traits_.link;
    return traits_.link == ops::Affine() ? "" : fmt::format("{} + {} x", offset, scale);
  }
};

class BceLossLayer : public MeanLossLayer {
 public:
  explicit BceLossLayer(Block& s) : MeanLossLayer(s) {
    s.about("Mean binary cross-entropy of logits [B,1] and labels.");
    s.number(
        "pos_weight", &positive_weight_, {.min = 0, .max = 1e6, .without_min = true},
        "Extension: weight of labels of 1 in the loss, as PyTorch's `pos_weight`. The loss of an "
        "evaluation has no weights.");
    double base = 0.5;
    if (s.number("base_score", &base,
                 {.min = 0, .max = 1, .without_min = true, .without_max = true},
                 "Extension: score where the layer below says 0, a probability: its log odds are "
                 "added to what that layer says. First configs have the share of labels of 1."))
      traits_.link.offset = static_cast<float>(std::log(base / (1 - base)));
    config::RegularizerConfig penalty;
    declare(s, penalty, "Penalty on all dense parameters: `lambda` Σ|w|, or `lambda`/2 Σ w².");
    lambda_ = penalty.lambda;
    if (penalty.any())
      penalty_ = penalty.type == config::Regularizer::kL1 ? ops::Penalty::kL1 : ops::Penalty::kL2;
  }

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
                ops::add_penalty<float>(
                    c.exec, vector(buffers, w, n), vector(buffers, g, n),
                    pointer<float>(buffers, loss),
                    {.penalty = penalty,
                     .lambda = lambda,
                     .scale = pointer<float>(buffers, scale),
                     .workspace = vector<double>(buffers, workspace, ops::kBlockSums)});
              }});
  }

 private:
  [[nodiscard]] std::string summary() const override {
    std::vector<std::string> parts;
    if (traits_.link.offset != 0) parts.push_back(fmt::format("x {:+.4g}", traits_.link.offset));
    if (positive_weight_ != 1) parts.push_back(fmt::format("pos_weight {}", positive_weight_));
    if (penalty_)
      parts.push_back(
          fmt::format("{}, lambda {}", *penalty_ == ops::Penalty::kL1 ? "L1" : "L2", lambda_));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  std::optional<ops::Penalty> penalty_;
  double lambda_ = 0;
};

class MultiCrossEntropyLossLayer : public MeanLossLayer {
 public:
  explicit MultiCrossEntropyLossLayer(Block& s) : MeanLossLayer(s) {
    s.about(
        "Mean binary cross-entropy of several tasks, logits and labels [B,T]. A label below -0.5 "
        "is absent.");
    constexpr const char* kExpected = "a list of 1 to 64 numbers >= 0, a weight for each label";
    static_assert(ops::TaskWeights::kMax == 64);
    s.value("target_weight",
            {kExpected,
             R"("type":"array","minItems":1,"maxItems":64,"items":{"type":"number","minimum":0})"},
            "Weight of each task.", kRequired, [&](const config::JsonNode& list) {
              if (list.kind() != config::JsonNode::Kind::kArray || list.elements().empty() ||
                  list.elements().size() > ops::TaskWeights::kMax)
                config::fail_expected(list, kExpected);
              for (const config::JsonNode& node : list.elements()) {
                if (!node.is_number() || !(node.number() >= 0 && node.number() < 1e30))
                  config::fail_expected(node, kExpected);
                weights_.values[weights_.count++] = static_cast<float>(node.number());
              }
            });
    traits_.task_weights.assign(weights_.values, weights_.values + weights_.count);
  }

 private:
  [[nodiscard]] std::string summary() const override {
    return fmt::format("{} tasks", weights_.count);
  }
};

}  // namespace

std::unique_ptr<Layer> make_bce_loss(Block& s) { return std::make_unique<BceLossLayer>(s); }

std::unique_ptr<Layer> make_mse_loss(Block& s) { return std::make_unique<MseLossLayer>(s); }

std::unique_ptr<Layer> make_multi_cross_entropy_loss(Block& s) {
  return std::make_unique<MultiCrossEntropyLossLayer>(s);
}

}  // namespace hlite::network
