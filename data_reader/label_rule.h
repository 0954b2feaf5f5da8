// The numbers of a sample before its dense features: its labels, and its weight if samples have
// one.
#pragma once

#include <cstdint>

#include "data_reader/record_issue.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

struct LabelRule {
  int64_t label_dim = 1;
  bool real = false;      // labels are any finite numbers, for regression
  bool weighted = false;  // the last number is the weight of the sample

  static LabelRule from(const config::DataConfig& config) {
    return {config.label_dim, config.real_label, config.sample_weight};
  }
  [[nodiscard]] int64_t width() const { return label_dim + (weighted ? 1 : 0); }
  [[nodiscard]] bool is_weight(int64_t column) const { return column == label_dim; }
  // A label is a probability, or -1 if it is one of several and absent. A real label is finite, a
  // weight finite and not negative.
  [[nodiscard]] bool allows(int64_t column, float value) const {
    const bool finite = value - value == 0;
    if (is_weight(column)) return finite && value >= 0;
    if (real) return finite;
    return (value >= 0 && value <= 1) || (label_dim > 1 && value == -1);
  }
  // The kind of issue that a forbidden value is reported as.
  [[nodiscard]] IssueKind issue(int64_t column) const {
    if (is_weight(column)) return IssueKind::kWeight;
    return real ? IssueKind::kRealLabel : IssueKind::kLabel;
  }
};

}  // namespace hlite::data
