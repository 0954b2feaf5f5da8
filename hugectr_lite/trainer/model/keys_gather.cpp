#include "hugectr_lite/trainer/model/keys_gather.h"

#include "hugectr_lite/comm/expected_traffic.h"

namespace hlite::trainer {

void KeysGather::declare(plan::Buffers& buffers) {
  all_keys_ = buffers.add("batch.all_keys", plan::BufferKind::kActivation,
                          ranks_.ranks() * room_.most * columns_ * int64_t{sizeof(uint32_t)});
}

void KeysGather::emit(plan::Plan& plan, Stage stage, network::Phase phase) {
  if (stage != Stage::kLookup) return;
  const bool training = phase == network::Phase::kTrain;
  Gather* const gather = training ? &train_ : &eval_;
  gather->communicator = ranks_.make_communicator(comm::Route::kFlat);
  const int64_t samples = training ? room_.train : room_.most,
                sample_bytes = columns_ * int64_t{sizeof(uint32_t)};
  const auto mine = static_cast<size_t>(samples * sample_bytes);
  const auto sent = comm::all_gather_bytes(*ranks_.topology, ranks_.rank, sample_bytes);
  const auto room = static_cast<double>(samples);
  plan.add({.name = "keys_gather",
            .lane = plan::Lane::kComm,
            .reads = {batch_.keys()},
            .writes = {all_keys_},
            .run =
                [this, gather, mine, buffers = &plan.buffers()](const plan::StepContext& c) {
                  ++gather->calls;
                  const comm::Bytes all(buffers->data<std::byte>(all_keys_),
                                        mine * static_cast<size_t>(ranks_.ranks()));
                  gather->communicator->all_gather(
                      c.exec, {buffers->data<std::byte>(batch_.keys()), mine}, all);
                },
            .sends = {.in_node = room * sent.intra, .between = room * sent.inter}});
}

// A graph's launches are not counted by the communicator, and are all alike.
comm::TrafficTotals KeysGather::traffic_of(const Gather& gather) const {
  if (!gather.communicator) return {};
  const comm::TrafficTotals t = gather.communicator->traffic();
  return on_gpu_ && gather.calls > 0 ? comm::scaled(t, gather.runs, gather.calls) : t;
}

comm::StepTraffic KeysGather::traffic() const {
  return {"keys_gather", traffic_of(train_) + traffic_of(eval_)};
}

}  // namespace hlite::trainer
