#include "hugectr_lite/predict/predictor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/run/resources.h"

namespace hlite::predict {

namespace {

// The weights that a chain of deltas makes of a model's, in a file that is gone when this is.
class JoinedWeights {
 public:
  explicit JoinedWeights(const ModelWeights& weights)
      : path_((std::filesystem::temp_directory_path() /
               fmt::format("predict.{}.{}.safetensors", ::getpid(), next_++))
                  .string()) {
    const checkpoint::WeightsFile from = checkpoint::weights_in(weights.model);
    const ReadFile base(from.path);
    const checkpoint::DeltaChain chain(weights.delta, weights.until);
    // The manifest is enough to refuse another model's chain, before all weights are read.
    if (from.sum) static_cast<void>(chain.first_after(*from.sum, base.name()));
    chain.join(base, path_);
  }
  ~JoinedWeights() { ::unlink(path_.c_str()); }
  JoinedWeights(const JoinedWeights&) = delete;
  JoinedWeights& operator=(const JoinedWeights&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static inline std::atomic<int> next_ = 0;
  const std::string path_;
};

// The model of a config with hash tables as large as those in `source`, weights of `model`.
trainer::Model model_for(const config::TrainConfig& config, const std::string& model,
                         const std::string& source, int threads, const cuda::Backend* gpu) {
  const ReadFile file(checkpoint::weights_in(source).path);
  const checkpoint::SafetensorsReader weights(file);
  trainer::ModelRanks alone;
  alone.weights = &weights;
  const uint64_t seed =
      checkpoint::is_checkpoint(model) ? checkpoint::read_manifest(model).seed : config.solver.seed;
  return {config, seed, threads, std::move(alone), gpu};
}

}  // namespace

Predictor::Predictor(const config::TrainConfig& config, const ModelWeights& weights,
                     const trainer::Options& options)
    : Predictor(config, weights,
                weights.delta.empty() ? weights.model : JoinedWeights(weights).path(), options) {}

Predictor::Predictor(const config::TrainConfig& config, const ModelWeights& weights,
                     const std::string& source, const trainer::Options& options)
    : pool_(trainer::resolve_threads(config, options)),
      model_(model_for(config, weights.model, source, pool_.threads(),
                       trainer::choose_device(config, options))) {
  model_.compile({.device = Device::kCpu, .pool = &pool_});
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

void Predictor::expect_unchanged() const {
  if (mapped_) mapped_->expect_unchanged();
}

void Predictor::verify() const {
  if (mapped_) mapped_->verify();
}

void Predictor::populate(const std::function<bool()>& stop) const {
  if (!mapped_) return;
  const MappedFile& memory = mapped_->memory();
  if (static_cast<int64_t>(memory.bytes().size()) < available_memory_bytes() / 2)
    memory.populate(stop);
}

void Predictor::run(const data::HostBatch& batch, trainer::SampleOutputs& outputs) {
  model_.evaluate({.batch = batch.size, .input = trainer::input_of(batch)});
  expect_unchanged();
  trainer::append_outputs(model_, batch.size, outputs);
  trainer::check_keys(model_);
}

}  // namespace hlite::predict
