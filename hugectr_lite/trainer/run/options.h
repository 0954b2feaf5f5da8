// The options that `train` was given.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"

namespace hlite::trainer {

class RunRecord;

struct Options {
  std::string config = {};
  std::string solver = {};                          // a second file with the blocks of the solver
  std::vector<std::string> overrides = {};          // --set, in order
  std::optional<config::DeviceChoice> device = {};  // none: as the config says
  int threads = 0;                                  // 0: as the config says
  std::string init = {}, export_path = {}, save = {}, resume = {}, metrics = {};
  std::string save_delta = {};  // the folder of a chain of deltas
  std::string mllog = {}, tensorboard = {}, report = {};
  std::string estimate = {};                 // the system
  std::vector<std::string> submission = {};  // KEY=VALUE, of the MLPerf log
  bool without_data = false;  // the config's files are not opened: batches come by step(batch)
  // Goes on where the data are not as those that the model, or the training set, came from.
  bool allow_other_data = false;
  bool grow = false;              // with resume: on data that continue those of the checkpoint
  bool from_start = false;        // with grow: also where they are the same, from their start
  bool is_trial = false;          // nothing of it is kept, also when it is interrupted
  bool with_preparation = false;  // checkpoints hold the files that predict needs for text
  // A record of one's own, beside those of the files above. On rank 0.
  std::shared_ptr<RunRecord> record = {};
  int64_t tune = 0;  // trials; 0: trains
  bool check = false, plan = false, links = false, quiet = false, traffic = false;
};

}  // namespace hlite::trainer
