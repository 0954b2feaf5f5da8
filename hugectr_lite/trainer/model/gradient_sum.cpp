#include "hugectr_lite/trainer/model/gradient_sum.h"

#include "hugectr_lite/comm/expected_traffic.h"
#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {

using plan::BufferId;
using plan::BufferKind;

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

GradientSum::GradientSum(comm::RankContext ranks, const config::AllReduceConfig& config,
                         const ModelLayers& layers, std::function<bool()> wants_to_stop)
    : ranks_(std::move(ranks)),
      config_(config),
      algo_(config.oneshot ? comm::AllReduce::kOneShot : comm::AllReduce::kTwoPhase),
      route_(ranks_.topology->rails_pay() ? comm::Route::kHierarchical : comm::Route::kFlat),
      layers_(layers),
      wants_to_stop_(std::move(wants_to_stop)) {
  for (const auto& e : layers.embeddings) copied_.push_back({e->name(), e->tables().sharded()});
}

void GradientSum::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  overflow_ = buffers.add("solver.overflow", plan::BufferKind::kState, sizeof(int32_t));
  const int64_t dense_bytes = layers_.network->parameter_bytes();
  int64_t bytes = aligned(dense_bytes) + aligned(kScalars * kFloatBytes);
  int64_t at = bytes;
  if (config_.grouped)
    for (const Copied& c : copied_) bytes += aligned(c.tables->copied_gradient_bytes());
  const BufferId all = buffers.add("reduced", BufferKind::kGradient, bytes);
  reduced_.push_back({.id = all});
  scalars_ =
      buffers.slice("reduced.scalars", all, aligned(dense_bytes), aligned(kScalars * kFloatBytes));
  for (const Copied& c : copied_) {
    const std::string name = c.layer + ".copied_gradients";
    const int64_t size = aligned(c.tables->copied_gradient_bytes());
    BufferId id = plan::kNoBuffer;
    if (config_.grouped) {
      id = buffers.slice(name, all, at, size);
      at += size;
    } else {
      id = buffers.add(name, BufferKind::kGradient, size);
      if (size > 0) reduced_.push_back({.id = id});
    }
    c.tables->set_copied_gradients(id);
  }
  dense_gradients_ = buffers.slice("dense.gradients", all, 0, dense_bytes);
}

void GradientSum::all_reduce(const Exec& exec, const Reduced& reduced) const {
  const std::span<float> values(buffers_->data<float>(reduced.id),
                                static_cast<size_t>(buffers_->bytes(reduced.id) / kFloatBytes));
  reduced.communicator->all_reduce(exec, values, algo_);
}

plan::SentBytes GradientSum::sends(const Reduced& reduced) const {
  const auto sent = all_reduce_bytes(*ranks_.topology, ranks_.rank, route_, algo_,
                                     buffers_->bytes(reduced.id) / kFloatBytes);
  return {.in_node = sent.intra, .between = sent.inter};
}

void GradientSum::emit(plan::Plan& plan, Stage stage, network::Phase) {
  if (stage != Stage::kSum) return;
  const BufferId loss = layers_.network->loss();
  for (Reduced& reduced : reduced_) reduced.communicator = ranks_.make_communicator(route_);
  plan.add({.name = "all_reduce",
            .lane = plan::Lane::kComm,
            .reads = {reduced_[0].id, loss},
            .writes = {reduced_[0].id, loss},
            .run =
                [this, loss](const plan::StepContext& c) {
                  float* scalars = buffers_->data<float>(scalars_);
                  scalars[0] = *buffers_->data<float>(loss);
                  scalars[1] = wants_to_stop_ && wants_to_stop_() ? 1.0f : 0.0f;
                  all_reduce(c.exec, reduced_[0]);
                  *buffers_->data<float>(loss) = scalars[0];
                },
            .sends = sends(reduced_[0])});
  for (size_t i = 1; i < reduced_.size(); ++i)
    plan.add({.name = buffers_->name(reduced_[i].id) + ".all_reduce",
              .lane = plan::Lane::kComm,
              .reads = {reduced_[i].id},
              .writes = {reduced_[i].id},
              .run = [this, i](const plan::StepContext& c) { all_reduce(c.exec, reduced_[i]); },
              .sends = sends(reduced_[i])});
}

void GradientSum::add_gather_step(plan::Plan& plan, const std::string& name, BufferId mine,
                                  BufferId all) {
  gathers_.push_back(ranks_.make_communicator(comm::Route::kFlat));
  const auto bytes = [this](BufferId id) {
    return std::span(buffers_->data<std::byte>(id), static_cast<size_t>(buffers_->bytes(id)));
  };
  const auto sent = all_gather_bytes(*ranks_.topology, ranks_.rank, buffers_->bytes(mine));
  plan.add({.name = name,
            .lane = plan::Lane::kComm,
            .reads = {mine},
            .writes = {all},
            .run =
                [=, communicator = gathers_.back().get()](const plan::StepContext& c) {
                  communicator->all_gather(c.exec, bytes(mine), bytes(all));
                },
            .sends = {.in_node = sent.intra, .between = sent.inter}});
}

std::vector<comm::StepTraffic> GradientSum::traffic() const {
  std::vector<comm::StepTraffic> list;
  const auto share = [&](const Reduced& reduced, int64_t bytes) {
    const double part =
        static_cast<double>(bytes) / static_cast<double>(buffers_->bytes(reduced.id));
    comm::TrafficTotals t = reduced.communicator->traffic();
    for (int64_t* n : {&t.intra_bytes, &t.inter_bytes, &t.intra_received, &t.inter_received})
      *n = static_cast<int64_t>(static_cast<double>(*n) * part);
    return t;
  };
  int64_t dense = buffers_->bytes(reduced_[0].id);
  size_t own = 1;
  for (const Copied& c : copied_) {
    const int64_t bytes = aligned(c.tables->copied_gradient_bytes());
    if (bytes == 0) continue;
    list.push_back(
        {c.layer + ".copies_all_reduce", share(reduced_[config_.grouped ? 0 : own++], bytes)});
    if (config_.grouped) dense -= bytes;
  }
  list.push_back({"dense_all_reduce", share(reduced_[0], dense)});
  comm::TrafficTotals gathered;
  for (const auto& g : gathers_) gathered += g->traffic();
  if (!gathers_.empty()) list.push_back({"dense_layer_sums", gathered});
  return list;
}

}  // namespace hlite::trainer
