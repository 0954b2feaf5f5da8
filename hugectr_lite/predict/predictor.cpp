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

using Changes = std::vector<std::string>;

// What load(changes) gives, with those changes that take from it what training alone needs.
template <typename Load>
std::unique_ptr<config::TrainConfig> without_training(Load&& load, Changes changes, int64_t batch) {
  const std::unique_ptr<config::TrainConfig> config = load(changes);
  const int gpu = config->solver.gpu[0][0];
  changes.insert(changes.end(), {fmt::format("solver.gpu=[[{}]]", gpu), "solver.batchsize=1",
                                 fmt::format("solver.batchsize_eval={}", batch), kSgd});
  for (size_t i = 0; i < config->layers.size(); ++i)  // layers[0] of the file is the data
    if (config->layers[i]->find("optimizer"))
      changes.push_back(fmt::format("layers[{}].{}", i + 1, kSgd));
  return load(changes);
}
}  // namespace

std::unique_ptr<config::TrainConfig> prediction_config(const trainer::Options& options,
                                                       const std::string& model, int64_t batch) {
  if (options.config.empty() && !is_checkpoint(model))
    raise<ConfigError>("--config: expected the model's config, as {} has none in it", model);
  const auto load = [&](const Changes& changes) {
    if (!options.config.empty()) return config::load_train_config(options.config, changes);
    return config::parse_train_config(checkpoint::read_manifest(model).config,
                                      model + "/manifest.json", changes);
  };
  return without_training(load, options.overrides, batch);
}

std::unique_ptr<config::TrainConfig> prediction_config_of(const std::string& text,
                                                          const Changes& changes, int64_t batch) {
  const auto load = [&](const Changes& all) {
    return config::parse_train_config(text, "config", all);
  };
  return without_training(load, changes, batch);
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
