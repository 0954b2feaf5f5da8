// Evaluation metrics over a whole evaluation set.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "hugectr_lite/core/exec.h"

namespace hlite::trainer {

// Exact area under the ROC curve: the share of (positive, negative) pairs in which the positive has
// the higher score, ties counting half. A label above 0.5 is positive. Nothing when one of the two
// classes is absent. Throws Error when sizes differ, DataError on a NaN score.
std::optional<double> auc(std::span<const float> scores, std::span<const float> labels);

// Mean binary cross-entropy of logits, summed in double in a fixed order. 0 for no samples.
double log_loss(const Exec& exec, std::span<const float> logits, std::span<const float> labels);

}  // namespace hlite::trainer
