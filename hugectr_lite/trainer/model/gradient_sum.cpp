#include "hugectr_lite/trainer/model/gradient_sum.h"

#include "hugectr_lite/comm/expected_traffic.h"
#include "hugectr_lite/ops/cast.h"

namespace hlite::trainer {
namespace {

using plan::BufferId;
using plan::BufferKind;

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

GradientSum::GradientSum(comm::RankContext ranks, const config::TrainConfig& config,
                         const ModelLayers& layers, std::function<bool()> wants_to_stop,
                         const cuda::Backend* gpu)
    : ranks_(std::move(ranks)),
      config_(config.all_reduce),
      wire_(config.solver.wire_precision),
      algo_(!config_.ordered          ? comm::AllReduce::kUnordered
            : config_.oneshot && !gpu ? comm::AllReduce::kOneShot
                                      : comm::AllReduce::kTwoPhase),
      route_(ranks_.possible(
          ranks_.topology->rails_pay() ? comm::Route::kHierarchical : comm::Route::kFlat,
          gpu != nullptr)),
      layers_(layers),
      wants_to_stop_(std::move(wants_to_stop)),
      gpu_(gpu) {
  if (ranks_.devices) notices_ = std::make_unique<RunNotices>(ranks_, *gpu);
  for (const auto& e : layers.embeddings) copied_.push_back({e->name(), e->tables().sharded()});
  if (config.solver.shard_optimizer)
    shard_ = std::make_unique<DenseShard>(ranks_, route_, wire_, gpu != nullptr);
}

void GradientSum::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  overflow_ = buffers.add("solver.overflow", plan::BufferKind::kState, sizeof(int32_t));
  if (gpu_) wish_ = buffers.add("solver.wish_to_stop", BufferKind::kState, kFloatBytes);
  const int64_t dense_bytes = layers_.network->parameter_bytes();
  const int64_t copied_at = shard_ ? 0 : aligned(dense_bytes);
  summed_ = copied_at;
  for (const Copied& c : copied_)
    if (config_.grouped) summed_ += aligned(c.tables->copied_gradient_bytes());
  declare_first(buffers);
  declare_copied(buffers, copied_at);
  if (shard_) {
    dense_gradients_ = buffers.add("dense.gradients", BufferKind::kGradient, dense_bytes);
    shard_->declare(buffers, dense_gradients_, dense_bytes / kFloatBytes);
  } else {
    dense_gradients_ = buffers.slice("dense.gradients", reduced_[0].id, 0, dense_bytes);
  }
}

// Gradients, then loss and wish, which are with what travels.
void GradientSum::declare_first(plan::Buffers& buffers) {
  const bool narrow = wire_ != FloatType::kFloat;
  const int64_t scalar_bytes = aligned(kScalars * kFloatBytes), sent = wire_bytes(summed_);
  Reduced first{.id = buffers.add("reduced", BufferKind::kGradient,
                                  narrow ? summed_ : summed_ + scalar_bytes)};
  if (narrow) first.wire = buffers.add("reduced.wire", BufferKind::kGradient, sent + scalar_bytes);
  const BufferId travels = narrow ? first.wire : first.id;
  scalars_ = buffers.slice("reduced.scalars", travels, sent, scalar_bytes);
  found_ = buffers.slice("reduced.found", travels, sent + 2 * kFloatBytes, kFloatBytes);
  reduced_.push_back(std::move(first));
}

// `at`: where those grouped with others begin.
void GradientSum::declare_copied(plan::Buffers& buffers, int64_t at) {
  for (const Copied& c : copied_) {
    const std::string name = c.layer + ".copied_gradients";
    const int64_t size = aligned(c.tables->copied_gradient_bytes());
    BufferId id = plan::kNoBuffer;
    if (config_.grouped) {
      id = buffers.slice(name, reduced_[0].id, at, size);
      at += size;
    } else {
      id = buffers.add(name, BufferKind::kGradient, size);
      if (size > 0) reduced_.push_back({.id = id});
      if (size > 0 && wire_ != FloatType::kFloat)
        reduced_.back().wire = buffers.add(name + ".wire", BufferKind::kGradient, wire_bytes(size));
    }
    c.tables->set_copied_gradients(id);
  }
}

void GradientSum::all_reduce(const Exec& exec, const Reduced& reduced) const {
  const std::span<float> words(
      buffers_->data<float>(reduced.wire == plan::kNoBuffer ? reduced.id : reduced.wire),
      static_cast<size_t>(sent_bytes(reduced) / kFloatBytes));
  ++reduced.calls;
  if (reduced.wire == plan::kNoBuffer) return reduced.communicator->all_reduce(exec, words, algo_);
  const int64_t n = buffers_->bytes(reduced.id) / kFloatBytes;
  const auto values = network::vector(*buffers_, reduced.id, n);
  const auto narrow = network::vector<bf16>(*buffers_, reduced.wire, n);
  if (n > 0) ops::cast_from_float<bf16>(exec, values, narrow);
  reduced.communicator->all_reduce(exec, words, algo_, static_cast<size_t>(n / 2));
  if (n > 0) ops::cast_to_float<bf16>(exec, narrow, values);
}

// The host's numbers travel with the gradients. On a GPU the host does not see them, and its wish
// is taken when the copy runs.
void GradientSum::sum_dense(const Exec& exec) const {
  float* const scalars = buffers_->data<float>(scalars_);
  float* const loss = buffers_->data<float>(layers_.network->loss());
  if (!gpu_) {
    scalars[0] = *loss;
    scalars[1] = wants_to_stop_ && wants_to_stop_() ? 1.0f : 0.0f;
    all_reduce(exec, reduced_[0]);
    *loss = scalars[0];
    return;
  }
  const auto copy = [&](float* to, const float* from) {
    exec.cuda->copy(to, from, sizeof(float), exec.stream);
  };
  copy(&scalars[0], loss);
  copy(&scalars[1], notices_->wish());
  all_reduce(exec, reduced_[0]);
  copy(loss, &scalars[0]);
  copy(buffers_->data<float>(wish_), &scalars[1]);
}

void GradientSum::begin_run() {
  if (notices_) notices_->begin_run(wants_to_stop_ && wants_to_stop_());
}

bool GradientSum::overflowed(const Exec& exec, const std::function<void()>& look) {
  if (!notices_) {
    const bool overflow = buffers_->value<int32_t>(overflow_) != 0;
    if (overflow) look();
    return overflow;
  }
  const kernels::Notice& notice = notices_->wait(exec, look);
  stop_ = notice.wish > 0;
  return notice.overflow != 0;
}

bool GradientSum::stop_requested() const {
  return gpu_ ? stop_ : buffers_->data<float>(scalars_)[1] > 0;
}

// Behind the lookups' exchanges, which share its lane.
void GradientSum::emit_notice(plan::Plan& plan) {
  plan.add({.name = "notice",
            .lane = plan::Lane::kComm,
            .reads = {overflow_, wish_},
            .writes = {},
            .run = [this](const plan::StepContext& c) {
              notices_->notify(c.exec, buffers_->data<int32_t>(overflow_),
                               buffers_->data<float>(wish_));
            }});
}

plan::SentBytes GradientSum::sends(const Reduced& reduced) const {
  const auto sent = all_reduce_bytes(*ranks_.topology, ranks_.rank, route_, algo_,
                                     sent_bytes(reduced) / kFloatBytes);
  return {.in_node = sent.intra, .between = sent.inter};
}

void GradientSum::emit(plan::Plan& plan, Stage stage, network::Phase) {
  if (stage == Stage::kLookup && gpu_) emit_notice(plan);
  if (stage != Stage::kSum) return;
  const BufferId loss = layers_.network->loss();
  for (Reduced& reduced : reduced_) reduced.communicator = ranks_.make_communicator(route_);
  if (shard_) shard_->emit_sum(plan);
  plan.add({.name = "all_reduce",
            .lane = plan::Lane::kComm,
            .reads = plan::present({loss, summed_ > 0 ? reduced_[0].id : plan::kNoBuffer}),
            .writes = plan::present({reduced_[0].id, loss, wish_, reduced_[0].wire}),
            .run = [this](const plan::StepContext& c) { sum_dense(c.exec); },
            .sends = sends(reduced_[0])});
  for (size_t i = 1; i < reduced_.size(); ++i)
    plan.add({.name = buffers_->name(reduced_[i].id) + ".all_reduce",
              .lane = plan::Lane::kComm,
              .reads = {reduced_[i].id},
              .writes = plan::present({reduced_[i].id, reduced_[i].wire}),
              .run = [this, i](const plan::StepContext& c) { all_reduce(c.exec, reduced_[i]); },
              .sends = sends(reduced_[i])});
}

// A graph's launches are not counted by the communicator, and are all alike.
comm::TrafficTotals GradientSum::of_runs(const comm::TrafficTotals& t, int64_t calls) const {
  return gpu_ && calls > 0 ? comm::scaled(t, runs_, calls) : t;
}

void GradientSum::add_gather_step(plan::Plan& plan, const std::string& name, BufferId mine,
                                  BufferId all) {
  gathers_.push_back(std::make_unique<Gather>());
  gathers_.back()->communicator = ranks_.make_communicator(comm::Route::kFlat);
  const auto bytes = [this](BufferId id) {
    return std::span(buffers_->data<std::byte>(id), static_cast<size_t>(buffers_->bytes(id)));
  };
  const auto sent = all_gather_bytes(*ranks_.topology, ranks_.rank, buffers_->bytes(mine));
  plan.add({.name = name,
            .lane = plan::Lane::kComm,
            .reads = {mine},
            .writes = {all},
            .run =
                [=, gather = gathers_.back().get()](const plan::StepContext& c) {
                  ++gather->calls;
                  gather->communicator->all_gather(c.exec, bytes(mine), bytes(all));
                },
            .sends = {.in_node = sent.intra, .between = sent.inter}});
}

std::vector<comm::StepTraffic> GradientSum::traffic() const {
  std::vector<comm::StepTraffic> list;
  const auto share = [&](const Reduced& reduced, int64_t bytes) {
    const double part = static_cast<double>(bytes) / static_cast<double>(sent_bytes(reduced));
    comm::TrafficTotals t = of_runs(reduced.communicator->traffic(), reduced.calls);
    for (int64_t* n : {&t.intra_bytes, &t.inter_bytes, &t.intra_received, &t.inter_received})
      *n = static_cast<int64_t>(static_cast<double>(*n) * part);
    return t;
  };
  int64_t dense = sent_bytes(reduced_[0]);
  size_t own = 1;
  for (const Copied& c : copied_) {
    const int64_t bytes = wire_bytes(aligned(c.tables->copied_gradient_bytes()));
    if (bytes == 0) continue;
    list.push_back(
        {c.layer + ".copies_all_reduce", share(reduced_[config_.grouped ? 0 : own++], bytes)});
    if (config_.grouped) dense -= bytes;
  }
  list.push_back({"dense_all_reduce", share(reduced_[0], dense)});
  if (shard_)
    for (comm::StepTraffic& step : shard_->traffic(runs_)) list.push_back(std::move(step));
  comm::TrafficTotals gathered;
  for (const auto& g : gathers_) gathered += of_runs(g->communicator->traffic(), g->calls);
  if (!gathers_.empty()) list.push_back({"dense_layer_sums", gathered});
  return list;
}

}  // namespace hlite::trainer
