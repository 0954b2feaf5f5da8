#include "hugectr_lite/predict/predictor.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/model/resources.h"

namespace hlite::predict {

namespace {

// The weights that a chain of deltas makes of a model's, in a file that is gone when this is.
class JoinedWeights {
 public:
  explicit JoinedWeights(const ModelWeights& weights)
      : folder_((std::filesystem::temp_directory_path() / "predict.XXXXXX").string()) {
    // A folder that only this user can enter (mode 0700), under a name that nobody can guess.
    if (::mkdtemp(folder_.data()) == nullptr)
      raise<FileError>("{}: cannot create the folder: {}", folder_,
                       std::generic_category().message(errno));
    const auto remove = [](const std::string* folder) { remove_folder(*folder); };
    std::unique_ptr<const std::string, decltype(remove)> unless_done(&folder_, remove);
    const checkpoint::WeightsFile from = checkpoint::weights_in(weights.model);
    const ReadFile base(from.path);
    const checkpoint::DeltaChain chain(weights.delta, weights.until);
    // The manifest is enough to refuse another model's chain, before all weights are read.
    if (from.sum) static_cast<void>(chain.first_after(*from.sum, base.name()));
    chain.join(base, path());
    static_cast<void>(unless_done.release());
  }
  ~JoinedWeights() { remove_folder(folder_); }
  JoinedWeights(const JoinedWeights&) = delete;
  JoinedWeights& operator=(const JoinedWeights&) = delete;
  [[nodiscard]] std::string path() const { return folder_ + "/weights.safetensors"; }

 private:
  static void remove_folder(const std::string& folder) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  }
  std::string folder_;
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
                     const ScoringOptions& options)
    : Predictor(config, weights,
                weights.delta.empty() ? weights.model : JoinedWeights(weights).path(), options) {}

Predictor::Predictor(const config::TrainConfig& config, const ModelWeights& weights,
                     const std::string& source, const ScoringOptions& options)
    : pool_(trainer::resolve_threads(config, options.threads)),
      model_(model_for(config, weights.model, source, pool_.threads(),
                       trainer::choose_device(config, options.device))) {
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
  if (model_.gpu()) run_largest();
}

int64_t filled_up(int64_t samples, int64_t most) {
  constexpr uint64_t kStep = 64;
  const auto n = static_cast<uint64_t>(samples);
  const uint64_t filled = n <= kStep ? std::bit_ceil(n) : (n + kStep - 1) / kStep * kStep;
  return std::min(static_cast<int64_t>(filled), most);
}

// Smaller batches take the algorithms that matrix products of the largest one take. Dense features
// are 1: products of zeros would not show if an algorithm is right.
void Predictor::run_largest() {
  const config::DataConfig& data = model_.config().data;
  data::BatchBuffer buffer(batch_size(), data.label_width(), data.dense_width(),
                           data.key_layout().columns);
  buffer.set_size(batch_size());
  data::HostBatch& batch = buffer.batch();
  std::fill_n(batch.dense.data(), batch.dense.size(), 1.0f);
  trainer::SampleOutputs unused;
  run(batch, unused);
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
  const int64_t size =
      model_.gpu() ? filled_up(batch.size, std::min(batch_size(), batch.keys.dim(0))) : batch.size;
  model_.evaluate({.batch = size, .input = trainer::input_of(batch)});
  expect_unchanged();
  trainer::append_outputs(model_, batch.size, outputs);
  trainer::check_keys(model_);
}

}  // namespace hlite::predict
