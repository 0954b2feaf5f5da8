// Metrics of samples, against their definitions.
#include <cmath>
#include <vector>

#include "tests/metrics/taken.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

using Floats = std::vector<float>;

TEST_CASE("calibration is predicted over found positives") {
  const Floats logits = {0.0f, 1.0f, -2.0f, 80.0f}, labels = {1, 0, 0, 1}, none(4);
  double predicted = 0;
  for (const float z : logits) predicted += 1 / (1 + std::exp(-static_cast<double>(z)));
  CHECK(*taken("Calibration", {logits, labels}) == Approx(predicted / 2).epsilon(1e-14));
  CHECK(!taken("Calibration", {logits, none}));
  CHECK(!taken("Calibration", {}));
  // Weighted: (0.5 * 2 + sigmoid(-2) * 3) / (1 * 2).
  const Floats weights = {2, 0, 3, 0}, of_negatives = {0, 1, 1, 0};
  CHECK(*taken("Calibration", {logits, labels, weights}) ==
        Approx((1 + 3 / (1 + std::exp(2.0))) / 2).epsilon(1e-14));
  CHECK(!taken("Calibration", {logits, labels, of_negatives}));
}

TEST_CASE("RMSE is the root of the mean squared error") {
  CHECK(*taken("RMSE", {{}, {}, {}, {}, 2.25}) == 1.5);
}

}  // namespace
}  // namespace hlite::test
