// LayerSumsGather: layers whose numbers are those of the whole batch (BatchNorm) hand the sums of
// their ranks' samples to all ranks by it.
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/trainer/model/step_communicator.h"

namespace hlite::trainer {

class LayerSumsGather final : public network::RankGather {
 public:
  explicit LayerSumsGather(comm::RankContext ranks) : ranks_(std::move(ranks)) {}

  [[nodiscard]] int ranks() const override { return ranks_.ranks(); }
  void add_gather_step(plan::Plan& plan, const std::string& name, plan::BufferId mine,
                       plan::BufferId all) override;
  // "dense_layer_sums": of all steps; empty where there is none.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic(int64_t runs) const;

 private:
  const comm::RankContext ranks_;
  std::vector<std::unique_ptr<StepCommunicator>> steps_;
};

}  // namespace hlite::trainer
