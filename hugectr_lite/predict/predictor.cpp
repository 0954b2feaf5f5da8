#include "hugectr_lite/predict/predictor.h"

#include <cmath>
#include <filesystem>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/run/resources.h"

namespace hlite::predict {

namespace {
bool is_checkpoint(const std::string& model) {
  std::error_code error;
  return std::filesystem::is_directory(model, error);
}

// Without states.
constexpr const char* kSgd = R"(optimizer={"type": "SGD", "sgd_hparam": {"learning_rate": 0}})";

std::unique_ptr<config::TrainConfig> load(const std::string& path, const std::string& model,
                                          const std::vector<std::string>& changes) {
  if (!path.empty()) return config::load_train_config(path, changes);
  if (!is_checkpoint(model))
    raise<ConfigError>("--config: expected the model's config, as {} has none in it", model);
  return config::parse_train_config(checkpoint::read_manifest(model).config,
                                    model + "/manifest.json", changes);
}
}  // namespace

std::unique_ptr<config::TrainConfig> prediction_config(const trainer::Options& options,
                                                       const std::string& model, int64_t batch) {
  std::vector<std::string> changes = options.overrides;
  const auto config = load(options.config, model, changes);
  const int gpu = config->solver.gpu[0][0];
  changes.insert(changes.end(), {fmt::format("solver.gpu=[[{}]]", gpu), "solver.batchsize=1",
                                 fmt::format("solver.batchsize_eval={}", batch), kSgd});
  for (size_t i = 0; i < config->layers.size(); ++i)  // layers[0] of the file is the data
    if (config->layers[i]->find("optimizer"))
      changes.push_back(fmt::format("layers[{}].{}", i + 1, kSgd));
  return load(options.config, model, changes);
}

Predictor::Predictor(const config::TrainConfig& config, const std::string& model,
                     const trainer::Options& options)
    : pool_(trainer::resolve_threads(config, options)),
      model_(config,
             is_checkpoint(model) ? checkpoint::read_manifest(model).seed : config.solver.seed,
             pool_.threads(), {}, trainer::choose_device(config, options)) {
  model_.compile({.device = Device::kCpu, .pool = &pool_});
  model_.allocate();
  load(model);
}

void Predictor::load(const std::string& model) {
  if (is_checkpoint(model)) {
    const auto weights = trainer::weights_to_read(model_, checkpoint::weights_file(model));
    checkpoint::load_checkpoint_weights(model, checkpoint::read_manifest(model), weights);
  } else {
    checkpoint::load_weights(model, trainer::weights_to_read(model_, model));
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
