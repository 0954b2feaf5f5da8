// Scores of samples by a model that was trained here: what an evaluation would give them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/predict/mapped_weights.h"
#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/model/model_results.h"

namespace hlite::predict {

// Says if tables are read into memory, with their checksum, or mapped where that can be done
// (mapped_weights.h).
enum class WeightsIn { kMemory, kFile };

struct ModelWeights {
  std::string model;       // a checkpoint's directory or a file of weights
  std::string delta = {};  // a chain of deltas that the model's weights are in, or none
  // Iteration of the last link that is used.
  int64_t until = std::numeric_limits<int64_t>::max();
  WeightsIn in = WeightsIn::kMemory;
};

// What a user says of how samples are scored: the model's config, if not the checkpoint's, with
// changes (--set); the device and threads, if not (nullopt, 0) as the config says.
struct ScoringOptions {
  std::string config = {};
  std::vector<std::string> overrides = {};
  std::optional<config::DeviceChoice> device = {};
  int threads = 0;
};

// The samples of a batch on a GPU, which has a graph and plans of products for each size: 1, 2, 4,
// ... 64, then multiples of 64, at most `most`. The rows after a batch's samples are zero.
int64_t filled_up(int64_t samples, int64_t most);

class Predictor {
 public:
  // `weights` of any number of ranks on any device. `config`, a prediction_config(), must outlive
  // it. Throws ConfigError, DataError (DeviceError on a GPU) when the weights are not those of the
  // config or do not fit.
  Predictor(const config::TrainConfig& config, const ModelWeights& weights,
            const ScoringOptions& options);

  // Appends the outputs of a batch of at most batch_size() samples. Throws FileError where the file
  // of mapped weights has changed, and appends none.
  void run(const data::HostBatch& batch, trainer::SampleOutputs& outputs);
  // Maps the pages of weights in a file before a sample needs them, where they take less than half
  // of the memory that is available. May run while run() does; returns early once `stop`.
  void populate(const std::function<bool()>& stop) const;
  // Throws FileError where run() would. Any thread may call it.
  void expect_unchanged() const;
  // Reads the file of mapped weights and throws DataError where its checksum is not that of the
  // checkpoint's manifest; others were checked when they were read. May run while run() does.
  void verify() const;
  // trainer::score_of()
  [[nodiscard]] float score_of(float logit) const { return trainer::score_of(model_, logit); }
  // Scores are values, not probabilities (MSELoss).
  [[nodiscard]] bool predicts_values() const { return model_.layers().network->predicts_values(); }

  [[nodiscard]] int64_t batch_size() const { return model_.max_batch(); }
  [[nodiscard]] int64_t tasks() const { return model_.layers().network->tasks(); }
  [[nodiscard]] std::span<const int64_t> slot_rows() const { return model_.layers().slot_rows; }
  [[nodiscard]] ThreadPool& pool() { return pool_; }
  [[nodiscard]] const trainer::Model& model() const { return model_; }

 private:
  // `source`: a file of weights, those of the chain of deltas, or the model itself.
  Predictor(const config::TrainConfig& config, const ModelWeights& weights,
            const std::string& source, const ScoringOptions& options);
  void run_largest();

  ThreadPool pool_;
  std::optional<MappedWeights> mapped_;
  trainer::Model model_;
};

}  // namespace hlite::predict
