// A file of samples to a file of scores: what `predict` does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data_reader/data_identity.h"
#include "hugectr_lite/predict/predictor.h"
#include "hugectr_lite/preparation/apply/preparation.h"
#include "hugectr_lite/trainer/evaluation/evaluator.h"

namespace hlite::predict {

struct PredictionOptions {
  ScoringOptions run = {};
  std::string model = {};  // checkpoint's directory or FILE.safetensors
  // The folder of a chain of deltas from the model's last weights; empty: none.
  std::string delta = {};
  std::string input = {}, out = {};
  // The folder of the preparation that the training data came from, for lines of text. If it is
  // empty, text is prepared as the checkpoint says if that has a preparation; else the input has
  // the config's own format.
  std::string prepared = {};
  // Names of columns of the text that are written next to the scores; empty: those that its schema
  // names.
  std::vector<std::string> carry = {};
  double max_unknown =
      1;  // share of a column's values without an id, above which scores are refused
  data::OtherData other_data = data::OtherData::kRefuse;
  prep::Labels labels = prep::Labels::kThere;
  // Small models' values of a batch stay in the processor's caches.
  int64_t batch = 4096;
};

struct PredictionResult {
  int64_t samples = 0, keys = 0, replaced_keys = 0;
  [[nodiscard]] double replaced_share() const {
    return keys > 0 ? static_cast<double>(replaced_keys) / static_cast<double>(keys) : 0;
  }
  // Metrics of the scores if there are labels, as in an evaluation; the loss of values is the mean
  // squared error.
  std::optional<trainer::EvalResult> metrics = {};
  bool values = false;
  double seconds = 0;  // reading and scoring, without loading the model
};

// Throws ConfigError, DataError, FileError, DeviceError; when it throws, `out` is as it was.
PredictionResult predict(const PredictionOptions& options);

}  // namespace hlite::predict
