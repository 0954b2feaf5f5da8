// Exact scores of predictions, in double precision: what a generator knows about its own labels.
#pragma once

#include <cstdint>
#include <vector>

namespace hlite::tools {

// Area under the ROC curve of scores p against labels y (0 or 1), ties counted half. Sizes must
// agree. Returns 0.5 when one of the classes is empty.
double area_under_curve(const std::vector<uint8_t>& y, const std::vector<double>& p);

// The expected AUC of the scores p when row i's label is 1 with probability p[i]; sorts p.
double expected_area_under_curve(std::vector<double> p);

// Mean of -log of the probability given to the label.
double log_loss(const std::vector<uint8_t>& y, const std::vector<double>& p);

}  // namespace hlite::tools
