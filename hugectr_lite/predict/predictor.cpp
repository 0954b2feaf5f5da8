#include "hugectr_lite/predict/predictor.h"

#include <cmath>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/run/resources.h"

namespace hlite::predict {

Predictor::Predictor(const config::TrainConfig& config, const std::string& model,
                     const trainer::Options& options, WeightsIn weights)
    : pool_(trainer::resolve_threads(config, options)),
      model_(config,
             checkpoint::is_checkpoint(model) ? checkpoint::read_manifest(model).seed
                                              : config.solver.seed,
             pool_.threads(), {}, trainer::choose_device(config, options)) {
  model_.compile({.device = Device::kCpu, .pool = &pool_});
  if (weights == WeightsIn::kFile) {
    mapped_.emplace(model);
    model_.allocate(mapped_->lend(model_));
    mapped_->read_others(model_);
  } else {
    model_.allocate();
    trainer::load_trained_weights(model_, model);
  }
  trainer::weights_changed(model_);
}

void Predictor::run(const data::HostBatch& batch, std::vector<float>& logits,
                    std::vector<float>& labels) {
  model_.evaluate({.batch = batch.size, .input = trainer::input_of(batch)});
  trainer::append_outputs(model_, batch.size, logits, labels);
  trainer::check_keys(model_);
}

float probability(float logit) {
  return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit))));
}

}  // namespace hlite::predict
