#include "hugectr_lite/trainer/model/table_penalties.h"

#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/regularizer.h"

namespace hlite::trainer {
namespace {

constexpr int64_t kWorkspaceBytes = ops::kBlockSums * int64_t{sizeof(double)};

}  // namespace

void TablePenalties::declare(plan::Buffers& buffers) {
  for (const auto& layer : layers_.embeddings)
    if (layer->penalty().any() && workspace_ == plan::kNoBuffer)
      workspace_ = buffers.add("solver.penalty_sums", plan::BufferKind::kGradient, kWorkspaceBytes);
}

void TablePenalties::emit(plan::Plan& plan, bool replicated) {
  const plan::BufferId loss = layers_.network->loss();
  for (size_t i = 0; i < layers_.embeddings.size(); ++i) {
    const embedding::EmbeddingLayer& layer = *layers_.embeddings[i];
    const config::RegularizerConfig& penalty = layer.penalty();
    if (!penalty.any() || layers_.vector_gradients(i) == plan::kNoBuffer) continue;
    for (const embedding::WholeGradients& of : layer.tables().steps().whole_gradients()) {
      if (of.replicated != replicated) continue;
      const ops::RegularizerOptions options = {.penalty = penalty.type == config::Regularizer::kL1
                                                              ? ops::Penalty::kL1
                                                              : ops::Penalty::kL2,
                                               .lambda = penalty.lambda};
      plan.add(
          {.name = layer.name() + (of.replicated ? ".penalty_replicated" : ".penalty"),
           .lane = plan::Lane::kEmbedding,
           .reads = {of.weights, of.gradients, loss},
           .writes = {of.gradients, loss, workspace_},
           .run = [this, of, loss, options, buffers = &plan.buffers()](const plan::StepContext& c) {
             ops::RegularizerOptions with = options;
             with.workspace = {buffers->data<double>(workspace_), ops::kBlockSums};
             with_float_type(of.type, [&]<typename T>() {
               ops::add_penalty<T>(c.exec, {buffers->data<T>(of.weights), of.count},
                                   {buffers->data<float>(of.gradients), of.count},
                                   buffers->data<float>(loss), with);
             });
           }});
    }
  }
}

}  // namespace hlite::trainer
