#include "hugectr_lite/trainer/model/gradient_clip.h"

#include "hugectr_lite/comm/expected_traffic.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/gradient_norm.h"

namespace hlite::trainer {
namespace {

constexpr int64_t kDoubleBytes = sizeof(double);

}  // namespace

GradientClip::GradientClip(const config::SolverConfig& solver, comm::RankContext ranks,
                           const ModelLayers& layers, const LossScaling& loss_scaling,
                           const DenseShard* shard)
    : max_(solver.gradient_clip_norm),
      tables_(solver.clips_tables()),
      ranks_(std::move(ranks)),
      layers_(layers),
      loss_scaling_(loss_scaling),
      shard_(shard) {}

void GradientClip::declare(plan::Buffers& buffers) {
  factors_ = buffers.add("solver.clip", plan::BufferKind::kGradient, sizeof(ops::ClipFactors));
  dense_factor_ = buffers.slice("solver.clip.dense", factors_, offsetof(ops::ClipFactors, scaled),
                                sizeof(float));
  table_factor_ = buffers.slice("solver.clip.tables", factors_,
                                offsetof(ops::ClipFactors, unscaled), sizeof(float));
  // Squares come from all ranks: the dense ones; a table layer has own rows and perhaps replicated
  // ones.
  const auto layers = static_cast<int64_t>(layers_.embeddings.size());
  squares_ = buffers.add("solver.squares", plan::BufferKind::kGradient,
                         (1 + layers) * (1 + ranks_.ranks()) * kDoubleBytes);
  workspace_ = buffers.add("solver.square_sums", plan::BufferKind::kGradient,
                           ops::kBlockSums * kDoubleBytes);
}

GradientClip::All GradientClip::gradients() const {
  const network::Network& network = *layers_.network;
  All all;
  const int64_t parameters = network.parameter_bytes() / kFloatBytes;
  if (shard_)
    all.own.push_back({shard_->gradients(), static_cast<int64_t>(shard_->own().size())});
  else
    all.shared.push_back({network.gradient_buffer(), parameters});
  for (size_t i = 0; tables_ && i < layers_.embeddings.size(); ++i) {
    if (layers_.vector_gradients(i) == plan::kNoBuffer) continue;
    for (const auto& of : layers_.embeddings[i]->tables().steps().whole_gradients())
      (of.replicated ? all.shared : all.own).push_back({of.gradients, of.count});
  }
  return all;
}

// Gathers in place: own sums lie where this rank's go.
void GradientClip::emit_gather(plan::Plan& plan, int64_t first) {
  communicator_ = ranks_.make_communicator(comm::Route::kFlat);
  const auto own = static_cast<size_t>(gradients().own.size());
  const auto sent =
      all_gather_bytes(*ranks_.topology, ranks_.rank, static_cast<int64_t>(own) * kDoubleBytes);
  plan.add({.name = "gradient_norm.all_gather",
            .lane = plan::Lane::kComm,
            .reads = {squares_},
            .writes = {squares_},
            .run =
                [this, own, first, buffers = &plan.buffers()](const plan::StepContext& c) {
                  const auto ranks = static_cast<size_t>(ranks_.ranks());
                  const std::span all(buffers->data<double>(squares_) + first, own * ranks);
                  const auto mine = all.subspan(own * static_cast<size_t>(ranks_.rank), own);
                  communicator_->all_gather(c.exec, std::as_bytes(mine),
                                            std::as_writable_bytes(all));
                },
            .sends = {.in_node = sent.intra, .between = sent.inter}});
}

void GradientClip::emit(plan::Plan& plan) {
  const All all = gradients();
  const auto shared = static_cast<int64_t>(all.shared.size()),
             own = static_cast<int64_t>(all.own.size());
  std::vector<ClippedGradients> list = all.shared;
  list.insert(list.end(), all.own.begin(), all.own.end());
  std::vector<plan::BufferId> reads;
  for (const ClippedGradients& g : list) reads.push_back(g.id);
  plan.add(
      {.name = "gradient_norm",
       .lane = plan::Lane::kCompute,
       .reads = reads,
       .writes = {squares_, workspace_},
       .run = [this, list, shared, own, buffers = &plan.buffers()](const plan::StepContext& c) {
         const Vector<double> workspace(buffers->data<double>(workspace_), ops::kBlockSums);
         double* const sums = buffers->data<double>(squares_);
         for (int64_t i = 0; i < std::ssize(list); ++i) {
           const ClippedGradients& g = list[static_cast<size_t>(i)];
           const int64_t before = i < shared ? 0 : own * ranks_.rank;  // other ranks'
           ops::square_sum(c.exec, {buffers->data<float>(g.id), g.count}, workspace,
                           sums + before + i);
         }
       }});
  if (ranks_.ranks() > 1 && own > 0) emit_gather(plan, shared);
  // Those of the network are the first ones that are shared, or each rank's own; tables' are
  // unscaled.
  const ops::ScaledSums dense =
      shard_ ? ops::ScaledSums{shared, own, ranks_.ranks()} : ops::ScaledSums{0, 1, 1};
  plan.add({.name = "gradient_clip",
            .lane = plan::Lane::kCompute,
            .reads = plan::present({squares_, loss_scaling_.state()}),
            .writes = {factors_},
            .run = [this, dense, count = shared + own * ranks_.ranks(),
                    buffers = &plan.buffers()](const plan::StepContext& c) {
              ops::ScaledSums scaled = dense;
              if (loss_scaling_.used())
                scaled.inverse =
                    &buffers->data<optimizer::LossScale>(loss_scaling_.state())->inverse;
              ops::clip_gradients(c.exec, {buffers->data<double>(squares_), count}, max_, scaled,
                                  buffers->data<ops::ClipFactors>(factors_));
            }});
}

}  // namespace hlite::trainer
