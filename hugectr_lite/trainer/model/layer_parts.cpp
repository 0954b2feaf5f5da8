#include "hugectr_lite/trainer/model/layer_parts.h"

namespace hlite::trainer {

void EmbeddingPart::declare(plan::Buffers& buffers) {
  for (const auto& layer : parts_.layers.embeddings) layer->declare(buffers, max_batch_);
}

void EmbeddingPart::emit(plan::Plan& plan, Stage stage, network::Phase phase) {
  const auto& layers = parts_.layers.embeddings;
  for (size_t i = 0; i < layers.size(); ++i) {
    embedding::TableSteps& steps = layers[i]->tables().steps();
    const embedding::TablesIo io{
        .keys = parts_.batch.keys(),
        .all_keys = parts_.keys_gather ? parts_.keys_gather->all_keys() : plan::kNoBuffer,
        .output = layers[i]->output(),
        .grad = parts_.layers.network->input_grad(ModelLayers::kFirstEmbedding + i),
        .rate = parts_.rates.embedding_rate(i),
        .step = parts_.rates.step(),
        .loss_scale = parts_.loss_scaling.state(),
        .overflow = parts_.gradient_sum ? parts_.gradient_sum->overflow() : plan::kNoBuffer,
        .clip = parts_.clip ? parts_.clip->table_factor() : plan::kNoBuffer,
        .training = phase == network::Phase::kTrain};
    const bool trained = io.grad != plan::kNoBuffer;
    if (stage == Stage::kLookup) steps.emit_forward(plan, io);
    if (stage == Stage::kRowGradients && trained) steps.emit_backward(plan, io);
    if (stage == Stage::kRowUpdate && trained) steps.emit_update(plan, io);
  }
}

void NetworkPart::declare(plan::Buffers& buffers) {
  std::vector<plan::BufferId> inputs = {parts_.batch.labels(), parts_.batch.dense()};
  for (const auto& layer : parts_.layers.embeddings) inputs.push_back(layer->output());
  parts_.layers.network->declare(
      buffers,
      {.max_batch = options_.max_batch,
       .inputs = inputs,
       .step = parts_.rates.step(),
       .seed = options_.seed,
       .gradients = parts_.gradient_sum ? parts_.gradient_sum->dense_gradients() : plan::kNoBuffer,
       .type = options_.type,
       .loss_scale = parts_.loss_scaling.scale(),
       .overflow = parts_.loss_scaling.found(),
       .pad_inputs = options_.on_gpu,
       .relu_masks = options_.on_gpu,
       .weight_gradient_lane = options_.on_gpu ? plan::Lane::kWeights : plan::Lane::kCompute,
       .gather = parts_.gradient_sum,
       .void_run = parts_.gradient_sum ? parts_.gradient_sum->overflow() : plan::kNoBuffer});
}

void NetworkPart::emit(plan::Plan& plan, Stage stage, network::Phase phase) {
  const network::Network& network = *parts_.layers.network;
  if (stage == Stage::kForward) network.emit_forward(plan, phase);
  if (stage == Stage::kBackward) network.emit_backward(plan);
  if (stage == Stage::kRegularize) network.emit_after_backward(plan);
}

}  // namespace hlite::trainer
