// DenseOptimizer: the states of the dense parameters, and the one pass that updates them all.
#pragma once

#include <vector>

#include "hugectr_lite/network/network.h"
#include "hugectr_lite/optimizer/update_rules.h"
#include "hugectr_lite/trainer/model/gradient_clip.h"
#include "hugectr_lite/trainer/model/learning_rates.h"

namespace hlite::trainer {

// The objects it works with; all must outlive it.
struct DenseOptimizerParts {
  const network::Network& network;
  const LearningRates& rates;
  const LossScaling& loss_scaling;
  const RunStatus* status;   // null on one rank
  DenseShard* shard;         // set if the optimizer is sharded; else null
  const GradientClip* clip;  // null where the config has no norm
};

class DenseOptimizer {
 public:
  // `type`: of the parameters' working copies.
  DenseOptimizer(const config::OptimizerConfig& config, FloatType type,
                 const DenseOptimizerParts& parts);

  void declare(plan::Buffers& buffers);
  // Collective of a sharded optimizer.
  void emit(plan::Plan& plan);

  [[nodiscard]] const optimizer::UpdateRule& rule() const { return rule_; }
  // Each as large as all parameters, laid out like them; of a sharded optimizer as this rank's
  // part.
  [[nodiscard]] const std::vector<plan::BufferId>& states() const { return states_; }
  // Null where every rank updates all.
  [[nodiscard]] const DenseShard* shard() const { return with_.shard; }
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
  const DenseOptimizerParts with_;
  std::vector<plan::BufferId> states_;
};

}  // namespace hlite::trainer
