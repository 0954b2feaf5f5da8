#include "hugectr_lite/ops/sigmoid.h"

#include "tests/ops/activation_case.h"

namespace hlite::test {

TEMPLATE_TEST_CASE("Sigmoid agrees with the definition, forward and backward, in place too", "",
                   float, bf16, fp16) {
  check_activation<TestType>(
      ops::Sigmoid{}, [](double x) { return 1 / (1 + std::exp(-x)); },
      [](double y) { return y * (1 - y); });
}

TEMPLATE_TEST_CASE("Sigmoid lets NaN through and ends at 0 and 1", "", float, bf16, fp16) {
  check_activation_limits<TestType>(ops::Sigmoid{}, {NAN, 1, 0, 0.5f});
}

}  // namespace hlite::test
