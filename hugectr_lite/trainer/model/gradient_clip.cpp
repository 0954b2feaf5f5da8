#include "hugectr_lite/trainer/model/gradient_clip.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/gradient_norm.h"

namespace hlite::trainer {
namespace {

constexpr int64_t kDoubleBytes = sizeof(double);

}  // namespace

GradientClip::GradientClip(double most, comm::RankContext ranks, const ModelLayers& layers,
                           const LossScaling& loss_scaling)
    : most_(most), ranks_(std::move(ranks)), layers_(layers), loss_scaling_(loss_scaling) {}

void GradientClip::declare(plan::Buffers& buffers) {
  factors_ = buffers.add("solver.clip", plan::BufferKind::kGradient, sizeof(ops::ClipFactors));
  dense_factor_ = buffers.slice("solver.clip.dense", factors_, offsetof(ops::ClipFactors, scaled),
                                sizeof(float));
  table_factor_ = buffers.slice("solver.clip.tables", factors_,
                                offsetof(ops::ClipFactors, unscaled), sizeof(float));
  // A table layer has own rows and perhaps copied ones.
  const auto layers = static_cast<int64_t>(layers_.embeddings.size());
  squares_ = buffers.add("solver.squares", plan::BufferKind::kGradient,
                         (1 + layers * (1 + ranks_.ranks())) * kDoubleBytes);
  workspace_ = buffers.add("solver.square_sums", plan::BufferKind::kGradient,
                           ops::kBlockSums * kDoubleBytes);
}

GradientClip::All GradientClip::gradients() const {
  const network::Network& network = *layers_.network;
  All all;
  const int64_t parameters = network.parameter_bytes() / kFloatBytes;
  all.shared.push_back({parameters > 0 ? network.gradient_buffer() : plan::kNoBuffer, parameters});
  for (size_t i = 0; i < layers_.embeddings.size(); ++i) {
    if (network.input_grad(ModelLayers::kFirstEmbedding + i) == plan::kNoBuffer) continue;
    for (const auto& of : layers_.embeddings[i]->tables().steps().whole_gradients())
      (of.copied ? all.shared : all.own).push_back({of.gradients, of.count});
  }
  return all;
}

// Own sums lie where rank 0's go; in turn of ranks then.
void GradientClip::emit_gather(plan::Plan& plan, int64_t first) {
  communicator_ = ranks_.make_communicator(comm::Route::kFlat);
  const auto own = static_cast<int64_t>(gradients().own.size());
  const double others = ranks_.ranks() - 1;
  plan.add({.name = "gradient_norm.all_gather",
            .lane = plan::Lane::kComm,
            .reads = {squares_},
            .writes = {squares_},
            .run =
                [this, own, first, mine = std::vector<double>(static_cast<size_t>(own)),
                 buffers = &plan.buffers()](const plan::StepContext& c) mutable {
                  double* const all = buffers->data<double>(squares_) + first;
                  std::copy_n(all, own, mine.begin());
                  communicator_->all_gather(c.exec, std::as_bytes(std::span(mine)),
                                            std::as_writable_bytes(std::span(
                                                all, static_cast<size_t>(own * ranks_.ranks()))));
                },
            .sends = {.in_node = others * static_cast<double>(own * kDoubleBytes)}});
}

void GradientClip::emit(plan::Plan& plan, Stage stage, network::Phase) {
  if (stage != Stage::kLossScale) return;
  const All all = gradients();
  const auto shared = static_cast<int64_t>(all.shared.size()),
             own = static_cast<int64_t>(all.own.size());
  std::vector<Gradients> list = all.shared;
  list.insert(list.end(), all.own.begin(), all.own.end());
  std::vector<plan::BufferId> reads;
  for (const Gradients& g : list)
    if (g.id != plan::kNoBuffer) reads.push_back(g.id);
  plan.add({.name = "gradient_norm",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = {squares_, workspace_},
            .run = [this, list, buffers = &plan.buffers()](const plan::StepContext& c) {
              double* sum = buffers->data<double>(squares_);
              for (const Gradients& g : list)
                ops::square_sum(c.exec, {network::pointer<float>(*buffers, g.id), g.count},
                                {buffers->data<double>(workspace_), ops::kBlockSums}, sum++);
            }});
  if (ranks_.ranks() > 1 && own > 0) emit_gather(plan, shared);
  reads = {squares_};
  if (loss_scaling_.used()) reads.push_back(loss_scaling_.state());
  plan.add({.name = "gradient_clip",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = {factors_},
            .run = [this, count = shared + own * ranks_.ranks(),
                    buffers = &plan.buffers()](const plan::StepContext& c) {
              const float* const inverse =
                  loss_scaling_.used()
                      ? &buffers->data<optimizer::LossScale>(loss_scaling_.state())->inverse
                      : nullptr;
              ops::clip_gradients(c.exec, {buffers->data<double>(squares_), count}, most_, inverse,
                                  buffers->data<ops::ClipFactors>(factors_));
            }});
}

}  // namespace hlite::trainer
