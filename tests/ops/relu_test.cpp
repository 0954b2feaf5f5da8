#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {

TEMPLATE_TEST_CASE("ReLU agrees with the definition, forward and backward, in place too", "", float,
                   bf16, fp16) {
  using T = TestType;
  for_each_size<T>([](const OpDevice& on, int64_t n, int64_t offset) {
    auto x = random_values<T>(n, 1);
    for (size_t i = 0; i < x.size(); i += 4) x[i] = i % 8 == 0 ? 0.0f : -0.0f;
    const auto dy = random_values<T>(n, 2);
    std::vector<float> want_y, want_dx;
    for (size_t i = 0; i < x.size(); ++i) {
      want_y.push_back(x[i] > 0 ? x[i] : 0.0f);
      want_dx.push_back(x[i] > 0 ? dy[i] : 0.0f);
    }
    const DeviceTensor<T> in(on, x, offset), gradient(on, dy, offset);
    const DeviceTensor<T> y(on, nans(n), offset), dx(on, nans(n), offset);
    ops::activation_forward<T>(on.exec(), ops::Relu{}, in, y);
    CHECK(same_values(y.host(), want_y));
    ops::activation_backward<T>(on.exec(), ops::Relu{}, y, gradient, dx);
    CHECK(same_values(dx.host(), want_dx));

    ops::activation_forward<T>(on.exec(), ops::Relu{}, in, in);
    CHECK(same_values(in.host(), want_y));
    ops::activation_backward<T>(on.exec(), ops::Relu{}, in, gradient, in);
    CHECK(same_values(in.host(), want_dx));
    ops::activation_backward<T>(on.exec(), ops::Relu{}, y, gradient, gradient);
    CHECK(same_values(gradient.host(), want_dx));
  });
}

TEMPLATE_TEST_CASE("ReLU lets NaN and infinity through and turns -0 into 0", "", float, bf16,
                   fp16) {
  for (const OpDevice& on : op_devices<TestType>()) {
    INFO(on.name());
    const DeviceTensor<TestType> x(on, {NAN, -0.0f, INFINITY, -INFINITY});
    ops::activation_forward<TestType>(on.exec(), ops::Relu{}, x, x);
    CHECK(same_values(x.host(), {NAN, 0.0f, INFINITY, 0.0f}));
  }
}

TEST_CASE("ReLU gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    const DeviceTensor<T> x(on, random_values<T>(4099, 1));
    ops::activation_forward<T>(on.exec(), ops::Relu{}, x, x);
    return x.host();
  });
}

TEST_CASE("ReLU refuses sizes that do not fit") {
  const OpDevice on(1);
  const DeviceTensor<float> four(on, nans(4)), five(on, nans(5));
  CHECK_THROWS_AS(ops::activation_forward(on.exec(), ops::Relu{}, four, five), Error);
  CHECK_THROWS_AS(ops::activation_backward(on.exec(), ops::Relu{}, four, five, five), Error);
  CHECK_THROWS_AS(ops::activation_backward(on.exec(), ops::Relu{}, five, five, four), Error);
}

}  // namespace hlite::test
