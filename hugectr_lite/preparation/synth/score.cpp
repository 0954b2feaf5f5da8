#include "hugectr_lite/preparation/synth/score.h"

#include <algorithm>
#include <cmath>

namespace hlite::prep {

namespace {
constexpr int64_t kBins = 1 << 20;
constexpr double kRange = 16;
}  // namespace

double expected_area_under_curve(std::vector<double> p) {
  std::sort(p.begin(), p.end());
  double below = 0, wins = 0, positives = 0, same_row = 0;
  for (const double q : p) {
    wins += q * below;
    below += 1 - q;
    positives += q;
    same_row += q * (1 - q);  // a row is never paired with itself
  }
  const double pairs = positives * below - same_row;
  return pairs > 0 ? wins / pairs : 0.5;
}

double logit_loss(double logit, bool label) {
  const double z = label ? logit : -logit;
  return std::log1p(std::exp(-std::abs(z))) + std::max(-z, 0.0);
}

LogitHistogram::LogitHistogram() : bins_(new Bin[kBins]()) {}

void LogitHistogram::add(double logit, bool label) {
  const double at = (logit + kRange) * (kBins / (2 * kRange));
  const auto bin = static_cast<size_t>(std::clamp(at, 0.0, kBins - 1.0));
  bins_[bin].count[label ? 1 : 0].fetch_add(1, std::memory_order_relaxed);
}

int64_t LogitHistogram::positives() const {
  int64_t sum = 0;
  for (int64_t i = 0; i < kBins; ++i) sum += bins_[static_cast<size_t>(i)].count[1];
  return sum;
}

double LogitHistogram::area_under_curve() const {
  double below = 0, positives = 0, wins = 0;
  for (int64_t i = 0; i < kBins; ++i) {
    const auto negative = static_cast<double>(bins_[static_cast<size_t>(i)].count[0].load()),
               positive = static_cast<double>(bins_[static_cast<size_t>(i)].count[1].load());
    wins += positive * (below + negative / 2);
    below += negative;
    positives += positive;
  }
  return positives * below > 0 ? wins / (positives * below) : 0.5;
}

}  // namespace hlite::prep
