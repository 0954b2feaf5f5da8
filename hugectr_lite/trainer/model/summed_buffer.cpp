#include "hugectr_lite/trainer/model/summed_buffer.h"

#include "hugectr_lite/comm/expected_traffic.h"
#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/ops/cast.h"

namespace hlite::trainer {

using plan::BufferKind;

SumOptions::SumOptions(const comm::RankContext& ranks, const config::TrainConfig& config, bool gpu)
    : algorithm(!config.all_reduce.ordered          ? comm::AllReduce::kUnordered
                : config.all_reduce.oneshot && !gpu ? comm::AllReduce::kOneShot
                                                    : comm::AllReduce::kTwoPhase),
      route(ranks.possible(
          ranks.topology->rails_pay() ? comm::Route::kHierarchical : comm::Route::kFlat, gpu)),
      wire(config.solver.wire_precision) {}

void SummedBuffer::declare(plan::Buffers& buffers, const std::string& name, int64_t bytes,
                           int64_t words) {
  buffers_ = &buffers;
  const bool wide = options_.wire == FloatType::kFloat;
  const int64_t word_bytes = aligned(words * kFloatBytes);
  gradients_ = buffers.add(name, BufferKind::kGradient, wide ? bytes + word_bytes : bytes);
  if (!wide)
    wire_ = buffers.add(name + ".wire", BufferKind::kGradient, wire_bytes(bytes) + word_bytes);
  if (words > 0) words_ = buffers.slice(name + ".words", travels(), wire_bytes(bytes), word_bytes);
}

void SummedBuffer::emit(plan::Plan& plan, plan::Step step) {
  communicator_ = std::make_unique<StepCommunicator>(ranks_, options_.route);
  step.lane = plan::Lane::kComm;
  step.writes.insert(step.writes.end(), {gradients_, wire_});
  step.reads = plan::present(std::move(step.reads));
  step.writes = plan::present(std::move(step.writes));
  const auto sent = all_reduce_bytes(*ranks_.topology, ranks_.rank, options_.route,
                                     options_.algorithm, sent_bytes() / kFloatBytes);
  step.sends = {.in_node = sent.intra, .between = sent.inter};
  plan.add(std::move(step));
}

void SummedBuffer::sum(const Exec& exec) {
  const std::span<float> words(buffers_->data<float>(travels()),
                               static_cast<size_t>(sent_bytes() / kFloatBytes));
  comm::Communicator& communicator = communicator_->call();
  if (!narrow()) return communicator.all_reduce(exec, words, options_.algorithm);
  const int64_t n = buffers_->bytes(gradients_) / kFloatBytes;
  const auto values = network::vector(*buffers_, gradients_, n);
  const auto narrow = network::vector<bf16>(*buffers_, wire_, n);
  if (n > 0) ops::cast_from_float<bf16>(exec, values, narrow);
  communicator.all_reduce(exec, words, options_.algorithm, static_cast<size_t>(n / 2));
  if (n > 0) ops::cast_to_float<bf16>(exec, narrow, values);
}

comm::TrafficTotals SummedBuffer::traffic(int64_t runs, int64_t bytes) const {
  const double share = static_cast<double>(bytes) / static_cast<double>(sent_bytes());
  comm::TrafficTotals t = communicator_->traffic(runs);
  for (int64_t* n : {&t.intra_bytes, &t.inter_bytes, &t.intra_received, &t.inter_received})
    *n = static_cast<int64_t>(static_cast<double>(*n) * share);
  return t;
}

}  // namespace hlite::trainer
