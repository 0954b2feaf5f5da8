// A file of samples to a file of scores: what `predict` does.
#pragma once

#include <optional>
#include <string>

#include "hugectr_lite/trainer/run/options.h"
#include "tools/apply/preparation.h"

namespace hlite::predict {

struct PredictionOptions {
  trainer::Options run = {};  // config, overrides, device, threads, quiet
  std::string model = {};     // checkpoint's directory or FILE.safetensors
  std::string input = {}, out = {};
  // Of lines of text: the folder of the preparation that the training data came from. Empty: the
  // input is of the config's own format.
  std::string prepared = {};
  tools::Labels labels = tools::Labels::kThere;
  int64_t batch = 8192;
};

struct PredictionResult {
  int64_t samples = 0, replaced_keys = 0;
  // With labels: of the scores, as an evaluation has them; no AUC where one class is absent.
  std::optional<double> auc, loss;
  double seconds = 0;  // reading and scoring, without loading the model
};

// Throws ConfigError, DataError, FileError, DeviceError; when it throws, `out` is as it was.
PredictionResult predict(const PredictionOptions& options);

}  // namespace hlite::predict
