// The machine that a run was on, from how long its steps took: what --estimate reads.
#pragma once

#include <span>
#include <string>

#include "hugectr_lite/plan/step_work.h"
#include "hugectr_lite/trainer/estimate/machine.h"

namespace hlite::bench {

using trainer::Machine;
using trainer::MachineLink;

struct MeasuredStep {
  plan::StepWork work;
  double seconds = 0;
};

// Rates that all steps together reached: FLOPs of those that products bound over their seconds, and
// bytes of the others over theirs; step_seconds is the shortest step's. The rates of products in
// other types than the run's are taken to be the same, and links are left out. Throws ConfigError
// where no step is bound by products, or none by memory.
Machine measured_machine(std::string name, std::span<const MeasuredStep> steps);

struct MeasuredExchange {
  double bytes = 0;  // that a rank sent over the link
  int turns = 1;
  double seconds = 0;
};

// The link over which exchanges took so long: turns * seconds + bytes / bytes_per_s, fitted so that
// the squares of relative errors are least; a latency below 0 is 0. Throws ConfigError where the
// times do not grow with the bytes.
MachineLink measured_link(std::string kind, std::span<const MeasuredExchange> exchanges);

// As trainer::parse_machine() reads it.
std::string json_of(const Machine& machine);

}  // namespace hlite::bench
