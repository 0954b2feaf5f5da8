#include "hugectr_lite/trainer/model/keys_gather.h"

#include "hugectr_lite/comm/expected_traffic.h"

namespace hlite::trainer {

void KeysGather::declare(plan::Buffers& buffers) {
  all_keys_ = buffers.add("batch.all_keys", plan::BufferKind::kActivation,
                          ranks_.ranks() * capacity_.most * columns_ * int64_t{sizeof(uint32_t)});
}

void KeysGather::emit(plan::Plan& plan, network::Phase phase) {
  const bool training = phase == network::Phase::kTrain;
  Gather* const gather = training ? &train_ : &eval_;
  gather->communicator = std::make_unique<StepCommunicator>(ranks_, comm::Route::kFlat);
  const int64_t samples = training ? capacity_.train : capacity_.most,
                sample_bytes = columns_ * int64_t{sizeof(uint32_t)};
  const auto mine = static_cast<size_t>(samples * sample_bytes);
  const auto sent = comm::all_gather_bytes(*ranks_.topology, ranks_.rank, sample_bytes);
  const auto capacity = static_cast<double>(samples);
  plan.add({.name = "keys_gather",
            .lane = plan::Lane::kComm,
            .reads = {batch_.keys()},
            .writes = {all_keys_},
            .run =
                [this, gather, mine, buffers = &plan.buffers()](const plan::StepContext& c) {
                  const comm::Bytes all(buffers->data<std::byte>(all_keys_),
                                        mine * static_cast<size_t>(ranks_.ranks()));
                  gather->communicator->call().all_gather(
                      c.exec, {buffers->data<std::byte>(batch_.keys()), mine}, all);
                },
            .sends = {.in_node = capacity * sent.intra, .between = capacity * sent.inter}});
}

comm::StepTraffic KeysGather::traffic() const {
  comm::TrafficTotals sum;
  for (const Gather* of : {&train_, &eval_})
    if (of->communicator) sum += of->communicator->traffic(of->runs);
  return {"keys_gather", sum};
}

}  // namespace hlite::trainer
