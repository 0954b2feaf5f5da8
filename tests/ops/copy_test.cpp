#include "hugectr_lite/ops/copy.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {

TEMPLATE_TEST_CASE("copy gives the same values", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for_each_size<float>([](const OpDevice& on, int64_t n, int64_t offset) {
    const auto x = random_values<T>(n, 1);
    const DeviceTensor<T> from(on, x, offset), to(on, nans(n), offset);
    ops::copy<T>(on.exec(), from, to);
    CHECK(same_values(to.host(), x));
  });
}

TEST_CASE("copy refuses sizes that do not fit") {
  const OpDevice on(1);
  const DeviceTensor<float> four(on, nans(4)), five(on, nans(5));
  CHECK_THROWS_AS(ops::copy(on.exec(), four, five), Error);
}

}  // namespace hlite::test
