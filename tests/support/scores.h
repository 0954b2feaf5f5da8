// Scores of predictions, row by row in double precision: what estimates of them are held to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "hugectr_lite/core/error.h"

namespace hlite::test {

// Area under the ROC curve of scores p against labels y (0 or 1), ties counted half. Sizes must
// agree. Returns 0.5 when one of the classes is empty.
inline double area_under_curve(const std::vector<uint8_t>& y, const std::vector<double>& p) {
  HLITE_CHECK(y.size() == p.size(), "{} labels, {} scores", y.size(), p.size());
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  double below = 0, wins = 0, positives = 0;  // below: negatives of strictly smaller score
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    double tied[2] = {0, 0};
    for (; j < order.size() && p[order[j]] == p[order[i]]; ++j) tied[y[order[j]] != 0] += 1;
    wins += tied[1] * (below + tied[0] / 2);
    below += tied[0];
    positives += tied[1];
    i = j;
  }
  return positives > 0 && below > 0 ? wins / (positives * below) : 0.5;
}

// Mean of -log of the probability given to the label.
inline double log_loss(const std::vector<uint8_t>& y, const std::vector<double>& p) {
  HLITE_CHECK(y.size() == p.size(), "{} labels, {} scores", y.size(), p.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double q = std::clamp(p[i], 1e-12, 1 - 1e-12);
    sum -= std::log(y[i] != 0 ? q : 1 - q);
  }
  return p.empty() ? 0.0 : sum / static_cast<double>(p.size());
}

}  // namespace hlite::test
