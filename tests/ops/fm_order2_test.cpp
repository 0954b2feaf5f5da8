#include "hugectr_lite/ops/fm_order2.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

struct FmShape {
  int64_t batch, slots, width;
  [[nodiscard]] int64_t size() const { return batch * slots * width; }
};
constexpr FmShape kFmShapes[] = {{0, 3, 2},   {1, 1, 1},  {3, 1, 5},   {5, 2, 1},
                                 {7, 14, 10}, {13, 3, 8}, {2, 5, 300}, {67, 4, 3}};

template <typename T>
std::vector<float> fm_order2_on(const OpDevice& on, const FmShape& s,
                                const std::vector<float>& values, int64_t offset = 0) {
  const DeviceTensor<T> x(on, values, offset), y(on, nans(s.batch * s.width), offset);
  ops::fm_order2_forward<T>(on.exec(), x.view(s.batch, s.slots, s.width), y.view(s.batch, s.width));
  return y.host();
}

TEMPLATE_TEST_CASE("FmOrder2 agrees with the definition, forward and backward", "[gpu]", float,
                   bf16, fp16) {
  using T = TestType;
  const auto devices = op_devices<T>();
  for (const FmShape& s : kFmShapes) {
    const auto values = random_values<T>(s.size(), 1);
    const auto dy_values = random_values<T>(s.batch * s.width, 2);
    std::vector<double> y(dy_values.size()), sums(dy_values.size()), dx;
    const auto width = static_cast<size_t>(s.width), sample = static_cast<size_t>(s.slots) * width;
    const auto column = [&](size_t i) { return i / sample * width + i % width; };
    for (size_t i = 0; i < values.size(); ++i) {
      const double z = values[i];
      sums[column(i)] += z;
      y[column(i)] -= z * z / 2;
    }
    for (size_t i = 0; i < y.size(); ++i) y[i] += sums[i] * sums[i] / 2;
    for (size_t i = 0; i < values.size(); ++i)
      dx.push_back(dy_values[column(i)] * (sums[column(i)] - values[i]));
    for (const OpDevice& on : devices)
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << s.batch << "," << s.slots << "," << s.width << "]");
        const Tolerance allowed = {3e-6, 1e-6 + kRounding<T>};
        check_close(fm_order2_on<T>(on, s, values, offset), y, allowed, "y");
        const DeviceTensor<T> x(on, values, offset), dy(on, dy_values, offset);
        const DeviceTensor<T> got(on, nans(s.size()), offset);
        ops::fm_order2_backward<T>(on.exec(), x.view(s.batch, s.slots, s.width),
                                   dy.view(s.batch, s.width), got.view(s.batch, s.slots, s.width));
        check_close(got.host(), dx, allowed, "dx");
      }
  }
}

TEST_CASE("FmOrder2 of large vectors that nearly cancel keeps its digits", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    // 1/2 ((1e4 + 1e-3)^2 - 1e8 - 1e-6) would be 0 or 8 in float.
    check_close(fm_order2_on<float>(on, {1, 2, 1}, {1e4f, 1e-3f}), std::vector<double>{10},
                {0, 2e-7});
  }
}

TEST_CASE("FmOrder2 gives the same bits on any threads") {
  const FmShape s = {131, 13, 11};
  check_same_bits([&]<typename T>(const OpDevice& on) {
    return fm_order2_on<T>(on, s, random_values<T>(s.size(), 3));
  });
}

TEST_CASE("FmOrder2 refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(24);
  const View<float, 3> x(m.data(), 2, 3, 4), other(m.data(), 2, 4, 3);
  const Matrix<float> y(m.data(), 2, 4), bad(m.data(), 2, 3);
  CHECK_THROWS_AS(ops::fm_order2_forward(on.exec(), x, bad), Error);
  CHECK_THROWS_AS(ops::fm_order2_backward(on.exec(), x, bad, x), Error);
  CHECK_THROWS_AS(ops::fm_order2_backward(on.exec(), x, y, other), Error);
}

}  // namespace
}  // namespace hlite::test
