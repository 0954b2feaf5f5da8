// MultiCrossEntropyLoss: logits [B,T] of T tasks against labels [B,T], a weight for each task, mean
// over B T (ops/bce_loss.h). A label below -0.5 is absent.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/bce_loss.h"
#include "hugectr_lite/ops/block_sums.h"

namespace hlite::network {
namespace {

class MultiCrossEntropyLossLayer : public Layer {
 public:
  explicit MultiCrossEntropyLossLayer(config::ObjectReader& reader) : Layer(reader) {
    traits_.is_loss = true;
    expect_bottoms(2);
    expect_tops(1);
    const config::JsonNode& list = reader.member("target_weight");
    constexpr const char* kExpected = "a list of 1 to 64 numbers >= 0, a weight for each label";
    static_assert(ops::TaskWeights::kMost == 64);
    if (list.kind() != config::JsonNode::Kind::kArray || list.elements().empty() ||
        list.elements().size() > ops::TaskWeights::kMost)
      config::fail_expected(list, kExpected);
    for (const config::JsonNode& node : list.elements()) {
      if (!node.is_number() || !(node.number() >= 0 && node.number() < 1e30))
        config::fail_expected(node, kExpected);
      weights_.values[weights_.count++] = static_cast<float>(node.number());
    }
    traits_.task_weights.assign(weights_.values, weights_.values + weights_.count);
  }

  [[nodiscard]] LayerShape infer(const std::vector<Dims>& dims) const override {
    for (size_t i = 0; i < 2; ++i)
      if (dims[i] != Dims{weights_.count})
        config::fail_at(
            *node().find("bottom"),
            fmt::format("expected {} of shape [B,{}], as target_weight has {}, found \"{}\" of "
                        "shape {}",
                        i == 0 ? "logits" : "labels", weights_.count, weights_.count, bottoms()[i],
                        to_string(dims[i])));
    return {.tops = {{1}},
            .workspace_bytes = ops::kBlockSums * int64_t{sizeof(double)},
            .summary = fmt::format("{} tasks", weights_.count)};
  }

  // Training: the loss and the gradient of the logits in one pass.
  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase phase) const override {
    const LayerTensor &z = io.bottoms[0], &y = io.bottoms[1], &loss = io.tops[0];
    const BufferId dz = phase == Phase::kTrain ? z.grad : kNoBuffer;
    add_typed_step(plan, io.type,
                   {.name = name() + (dz != kNoBuffer ? ".fbprop" : ".fprop"),
                    .reads = {z.value, y.value, io.loss_scale},
                    .writes = {loss.value, io.workspace, dz}},
                   [=, tasks = weights_, scale = io.loss_scale,
                    workspace = io.workspace]<typename T>(const StepViews<T>& v) {
                     ops::bce_loss<T>(
                         v.exec, matrix(v.buffers, z.value, v.batch, tasks.count),
                         matrix(v.buffers, y.value, v.batch, tasks.count),
                         pointer<float>(v.buffers, loss.value), v.rows(dz, tasks.count),
                         {.mean_over = v.context.mean_over(),
                          .scale = pointer<float>(v.buffers, scale),
                          .workspace = vector<double>(v.buffers, workspace, ops::kBlockSums),
                          .tasks = tasks});
                   });
  }

  void emit_backward(plan::Plan&, const LayerIo&) const override {}  // done by the forward step

 private:
  ops::TaskWeights weights_;
};

}  // namespace

std::unique_ptr<Layer> make_multi_cross_entropy_loss(config::ObjectReader& reader) {
  return std::make_unique<MultiCrossEntropyLossLayer>(reader);
}

}  // namespace hlite::network
