// --tune: finds values of a config that give a better model, by trials on its own evaluation set.
//
// The config itself is trained first, to its end, then with its own values and a learning rate that
// decays over 0.6 of its iterations, then N - 2 other settings for 0.2 of them, and the best two of
// these for 0.6: successive halving (Jamieson & Talwalkar, "Non-stochastic Best Arm Identification
// and Hyperparameter Optimization", AISTATS 2016). Each setting has a schedule of its own length,
// at whose end rates are near 0: what a run comes to at high rates says little of where it ends.
// N of 16 take less than six times as long as the config.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

struct Trial {
  std::string changes = {};    // "learning_rate 0.0013, lambda 0.02", or "the config itself"
  double value = 0;            // the best one of the metric; NaN: training diverged
  int64_t best_iteration = 0;  // after which it was measured
};

struct Tuning {
  std::string metric = {};  // what early_stop monitors
  std::vector<Trial> trials = {};
  std::optional<size_t> best = {};
  std::string config = {};  // JSON text of the best one's
  bool interrupted = false;
};

// Runs options.tune trials with its device, threads and first weights; files that it asks for are
// not written. A config without early_stop gets one on AverageLoss with patience 4, and one without
// a seed a drawn one: both are part of the result. `line` takes a line for the user after each
// trial. Throws ConfigError where the config has no evaluations, follows a folder or has no learning
// rate, and what the config's own training throws.
Tuning tune(const config::TrainConfig& config, const Options& options,
            const std::function<void(const std::string&)>& line);

// `train --tune`: writes the result next to the config, as "<name>.tuned.json", and trains with it
// where the options ask for a model, metrics or a report. Returns the exit code.
int run_tuning(const config::TrainConfig& config, const Options& options);

}  // namespace hlite::trainer
