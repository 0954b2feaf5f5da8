#include "hugectr_lite/predict/predictor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/run/resources.h"

namespace hlite::predict {

Predictor::Predictor(const config::TrainConfig& config, const std::string& model,
                     const trainer::Options& options, const std::string& delta)
    : pool_(trainer::resolve_threads(config, options)),
      model_(config,
             checkpoint::is_checkpoint(model) ? checkpoint::read_manifest(model).seed
                                              : config.solver.seed,
             pool_.threads(), {}, trainer::choose_device(config, options)) {
  model_.compile({.device = Device::kCpu, .pool = &pool_});
  model_.allocate();
  if (delta.empty())
    trainer::load_trained_weights(model_, model);
  else
    load_joined(model, delta);
  trainer::weights_changed(model_);
}

// The joined weights go through a file of this process, which is gone when they are loaded.
void Predictor::load_joined(const std::string& model, const std::string& delta) {
  const ReadFile base(checkpoint::is_checkpoint(model) ? checkpoint::last_weights_file(model)
                                                       : model);
  const std::string joined =
      (std::filesystem::temp_directory_path() / fmt::format("predict.{}.safetensors", ::getpid()))
          .string();
  struct Removed {
    const std::string& path;
    ~Removed() { ::unlink(path.c_str()); }
  } const removed{joined};
  checkpoint::DeltaChain(delta).join(base, joined);
  trainer::load_trained_weights(model_, joined);
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
