#include "hugectr_lite/predict/predictor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/run/resources.h"

namespace hlite::predict {

namespace {

// The weights that a chain of deltas makes of a model's, in a file that is gone when this is.
class JoinedWeights {
 public:
  JoinedWeights(const std::string& model, const std::string& delta)
      : path_((std::filesystem::temp_directory_path() /
               fmt::format("predict.{}.{}.safetensors", ::getpid(), next_++))
                  .string()) {
    const ReadFile base(checkpoint::is_checkpoint(model) ? checkpoint::last_weights_file(model)
                                                         : model);
    checkpoint::DeltaChain(delta).join(base, path_);
  }
  ~JoinedWeights() { ::unlink(path_.c_str()); }
  JoinedWeights(const JoinedWeights&) = delete;
  JoinedWeights& operator=(const JoinedWeights&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static inline std::atomic<int> next_ = 0;
  const std::string path_;
};

}  // namespace

Predictor::Predictor(const config::TrainConfig& config, const ModelWeights& weights,
                     const trainer::Options& options)
    : pool_(trainer::resolve_threads(config, options)),
      model_(config,
             checkpoint::is_checkpoint(weights.model)
                 ? checkpoint::read_manifest(weights.model).seed
                 : config.solver.seed,
             pool_.threads(), {}, trainer::choose_device(config, options)) {
  model_.compile({.device = Device::kCpu, .pool = &pool_});
  std::optional<JoinedWeights> joined;
  if (!weights.delta.empty()) joined.emplace(weights.model, weights.delta);
  const std::string& source = joined ? joined->path() : weights.model;
  if (weights.in == WeightsIn::kFile) {
    mapped_.emplace(source);
    model_.allocate(mapped_->lend(model_));
    mapped_->read_others(model_);
  } else {
    model_.allocate();
    trainer::load_trained_weights(model_, source);
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
