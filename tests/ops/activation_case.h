// What every activation without parameters must do, against its double-precision definition.
#pragma once

#include "hugectr_lite/ops/activation.h"
#include "tests/support/op_device.h"

namespace hlite::test {

// value(x); slope(y) is dy/dx from what T holds of y.
template <typename T, typename F, typename Value, typename Slope>
void check_activation(const F& f, Value&& value, Slope&& slope) {
  // A few roundings to float, then one to T.
  const Tolerance tolerance = {double{kLeast<T>} / 2, kRounding<T> + 8 * kRounding<float>};
  for_each_size<T>([&](const OpDevice& on, int64_t n, int64_t offset) {
    auto x = random_values(n, 1);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= i % 5 == 0 ? 1e-6f : i % 3 == 0 ? 20.0f : 1.0f;
    x = as<T>(x);
    const auto dy = random_values<T>(n, 2);
    const DeviceTensor<T> in(on, x, offset), gradient(on, dy, offset);
    const DeviceTensor<T> y(on, nans(n), offset), dx(on, nans(n), offset);
    ops::activation_forward<T>(on.exec(), f, in, y);
    const auto got_y = y.host();
    std::vector<double> want_y, want_dx;
    for (size_t i = 0; i < x.size(); ++i) {
      want_y.push_back(value(static_cast<double>(x[i])));
      want_dx.push_back(dy[i] * slope(static_cast<double>(got_y[i])));
    }
    check_close(got_y, want_y, tolerance, "y");
    ops::activation_backward<T>(on.exec(), f, y, gradient, dx);
    const auto got_dx = dx.host();
    check_close(got_dx, want_dx, tolerance, "dx");

    ops::activation_forward<T>(on.exec(), f, in, in);
    CHECK(same_values(in.host(), got_y));
    ops::activation_backward<T>(on.exec(), f, y, gradient, gradient);
    CHECK(same_values(gradient.host(), got_dx));
  });
}

// y at NaN, infinity, -infinity and 0.
template <typename T, typename F>
void check_activation_limits(const F& f, const std::vector<float>& want) {
  for (const OpDevice& on : op_devices<T>()) {
    INFO(on.name());
    const DeviceTensor<T> x(on, {NAN, INFINITY, -INFINITY, 0.0f});
    ops::activation_forward<T>(on.exec(), f, x, x);
    CHECK(same_values(x.host(), want));
  }
}

}  // namespace hlite::test
