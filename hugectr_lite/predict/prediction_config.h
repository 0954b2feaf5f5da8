// The config of a trained model, made one of a model that only predicts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"

namespace hlite::predict {

// The place of a config: in a file, or (path empty) in memory, or (both empty) in a checkpoint.
struct ConfigText {
  std::string path = {}, text = {};
  std::string name = "config";  // what messages call a text
};
// Loads a config from a file or from memory, with `changes` (--set). Throws ConfigError.
std::unique_ptr<config::TrainConfig> load_config(const ConfigText& config,
                                                 const std::vector<std::string>& changes);

// The config with `changes` (--set), for one rank on one device, without optimizers, and with
// batches of `batch` samples. Sizes of tables that it takes from a manifest are read off the
// model's own tables, so that a checkpoint is enough. Throws ConfigError, DataError, FileError.
std::unique_ptr<config::TrainConfig> prediction_config(ConfigText config, const std::string& model,
                                                       std::vector<std::string> changes,
                                                       int64_t batch);

}  // namespace hlite::predict
