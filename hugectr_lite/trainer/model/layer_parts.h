// The parts of a model that its config lists: embedding layers, and the dense network.
#pragma once

#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/copy_in.h"
#include "hugectr_lite/trainer/model/gradient_clip.h"
#include "hugectr_lite/trainer/model/gradient_sum.h"
#include "hugectr_lite/trainer/model/keys_gather.h"
#include "hugectr_lite/trainer/model/learning_rates.h"
#include "hugectr_lite/trainer/model/loss_scaling.h"
#include "hugectr_lite/trainer/model/plan_part.h"

namespace hlite::trainer {

// The parts that both work with; all must outlive them.
struct LayerParts {
  const ModelLayers& layers;
  const CopyIn& batch;
  const LearningRates& rates;
  const LossScaling& loss_scaling;
  GradientSum* gradient_sum;      // null on one rank
  const GradientClip* clip;       // null where the config has no norm
  const KeysGather* keys_gather;  // null where ranks do not get each other's keys
};

class EmbeddingPart final : public PlanPart {
 public:
  EmbeddingPart(const LayerParts& parts, int64_t max_batch)
      : parts_(parts), max_batch_(max_batch) {}
  void declare(plan::Buffers& buffers) override;
  void emit(plan::Plan& plan, Stage stage, network::Phase phase) override;

 private:
  const LayerParts parts_;
  const int64_t max_batch_;
};

class NetworkPart final : public PlanPart {
 public:
  struct Options {
    int64_t max_batch = 0;
    uint64_t seed = 0;
    FloatType type = FloatType::kFloat;  // of activations
    bool on_gpu = false;
  };
  NetworkPart(const LayerParts& parts, const Options& options) : parts_(parts), options_(options) {}
  void declare(plan::Buffers& buffers) override;
  void emit(plan::Plan& plan, Stage stage, network::Phase phase) override;

 private:
  const LayerParts parts_;
  const Options options_;
};

}  // namespace hlite::trainer
