// When the steps of a plan begin and end, given how long each takes: what lanes hide of each other.
//
// A step begins when the steps of its `after` have ended and its lane is free. What it does on the
// device waits until no other step is at work there: lanes share one device. What it waits for in
// any case (a launch, a link) overlaps the others'.
#pragma once

#include <span>
#include <vector>

#include "hugectr_lite/plan/plan.h"

namespace hlite::plan {

struct StepCost {
  double wait = 0, device = 0;  // seconds
};

struct Schedule {
  struct Times {
    double begin = 0, end = 0;
    int held_up_by = -1;  // the step without which this one would have ended earlier
  };
  std::vector<Times> steps;
  double seconds = 0;
  // The steps that hold each other up, from the first to the one that ends last.
  [[nodiscard]] std::vector<int> critical_path() const;
};

// `costs`: one for each step. Without `lanes` one step runs after another.
Schedule schedule(const Plan& plan, std::span<const StepCost> costs, bool lanes);

}  // namespace hlite::plan
