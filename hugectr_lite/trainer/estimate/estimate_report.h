// `train --estimate SYSTEM`: what an iteration would take there, as text for people.
#pragma once

#include <string>

#include "hugectr_lite/trainer/estimate/iteration_estimate.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// Loads options.config with its --set values for the topology that options.estimate names. Steps,
// what the critical path goes to, what bounds it, warnings, and what other settings would give; the
// last line is "estimate: 1.23 ms per iteration, 45.6 M samples/s". Throws ConfigError.
std::string estimate_report(const Options& options);

// The --set values that give a config the system's topology, and its all-reduce the kind that GPUs
// have.
std::vector<std::string> overrides_for(const System& system,
                                       const std::vector<std::string>& overrides);
// Names what makes iterations on a machine and a topology much slower than they need to be; one a
// line.
std::vector<std::string> cliffs_of(const Machine& machine, const IterationEstimate& estimate,
                                   int nodes);

}  // namespace hlite::trainer
