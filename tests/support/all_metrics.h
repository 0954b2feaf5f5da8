// What makes a run take every further metric of a model of classes.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/metrics/metric.h"

namespace hlite::test {

inline std::vector<std::string> all_metrics() {
  std::vector<std::string> names;
  for (const metrics::Rule& rule : metrics::rules()) {
    if (rule.of_values) continue;
    names.emplace_back(rule.name);
    if (names.back().ends_with("@k")) names.back().back() = '2';
  }
  return names;
}

inline std::vector<std::string> with_all_metrics() {
  std::string list = R"("AUC")";
  for (const std::string& name : all_metrics()) list += ",\"" + name + "\"";
  return {"solver.eval_metrics=[" + list + "]", "solver.eval_group_slot=0"};
}

}  // namespace hlite::test
