#include "hugectr_lite/trainer/model/layer_sums_gather.h"

#include "hugectr_lite/comm/expected_traffic.h"

namespace hlite::trainer {

void LayerSumsGather::add_gather_step(plan::Plan& plan, const std::string& name,
                                      plan::BufferId mine, plan::BufferId all) {
  steps_.push_back(std::make_unique<StepCommunicator>(ranks_, comm::Route::kFlat));
  const plan::Buffers* const buffers = &plan.buffers();
  const auto bytes = [buffers](plan::BufferId id) {
    return std::span(buffers->data<std::byte>(id), static_cast<size_t>(buffers->bytes(id)));
  };
  const auto sent = all_gather_bytes(*ranks_.topology, ranks_.rank, buffers->bytes(mine));
  plan.add({.name = name,
            .lane = plan::Lane::kComm,
            .reads = {mine},
            .writes = {all},
            .run =
                [=, step = steps_.back().get()](const plan::StepContext& c) {
                  step->call().all_gather(c.exec, bytes(mine), bytes(all));
                },
            .sends = {.in_node = sent.intra, .between = sent.inter}});
}

std::vector<comm::StepTraffic> LayerSumsGather::traffic(int64_t runs) const {
  if (steps_.empty()) return {};
  comm::TrafficTotals sum;
  for (const auto& step : steps_) sum += step->traffic(runs);
  return {{"dense_layer_sums", sum}};
}

}  // namespace hlite::trainer
