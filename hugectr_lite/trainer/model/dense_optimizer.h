// DenseOptimizer: the states of the dense parameters, and the one pass that updates them all.
#pragma once

#include <vector>

#include "hugectr_lite/network/network.h"
#include "hugectr_lite/optimizer/update_rules.h"
#include "hugectr_lite/trainer/model/layer_parts.h"

namespace hlite::trainer {

class DenseOptimizer final : public PlanPart {
 public:
  // `type`: of the parameters' working copies. What `parts` names must outlive it.
  DenseOptimizer(const config::OptimizerConfig& config, FloatType type, const LayerParts& parts);

  void declare(plan::Buffers& buffers) override;
  void emit(plan::Plan& plan, Stage stage, network::Phase phase) override;

  [[nodiscard]] const optimizer::UpdateRule& rule() const { return rule_; }
  // Each as large as all parameters, laid out like them; of a sharded optimizer as this rank's
  // part.
  [[nodiscard]] const std::vector<plan::BufferId>& states() const { return states_; }
  // Null where every rank updates all.
  [[nodiscard]] const DenseShard* shard() const { return shard_; }
  // Makes the weights that the layers read from those that are updated, where they are others.
  void round_weights(const plan::Buffers& buffers, const Exec& exec) const;

 private:
  // The parameters that this rank updates.
  [[nodiscard]] comm::Slice updated() const;
  [[nodiscard]] plan::BufferId gradients() const;
  void update(const plan::Buffers& buffers, const Exec& exec) const;
  void emit_gather(plan::Plan& plan) const;

  const optimizer::UpdateRule rule_;
  const FloatType type_;
  const network::Network& network_;
  const LearningRates& rates_;
  const LossScaling& loss_scaling_;
  const GradientSum* const gradient_sum_;
  DenseShard* const shard_;
  const GradientClip* const clip_;
  std::vector<plan::BufferId> states_;
};

}  // namespace hlite::trainer
