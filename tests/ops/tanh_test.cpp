#include "hugectr_lite/ops/tanh.h"

#include "tests/ops/activation_case.h"

namespace hlite::test {

TEMPLATE_TEST_CASE("Tanh agrees with the definition, forward and backward, in place too", "", float,
                   bf16, fp16) {
  check_activation<TestType>(
      ops::Tanh{}, [](double x) { return std::tanh(x); }, [](double y) { return 1 - y * y; });
}

TEMPLATE_TEST_CASE("Tanh lets NaN through and ends at -1 and 1", "", float, bf16, fp16) {
  check_activation_limits<TestType>(ops::Tanh{}, {NAN, 1, -1, 0});
}

}  // namespace hlite::test
