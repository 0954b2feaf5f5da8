#include "hugectr_lite/ops/weight_multiply.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

const MatmulOptions kNoOptions;

struct WeightShape {
  int64_t batch, slots, width;
};
constexpr WeightShape kWeightShapes[] = {{0, 3, 2},   {1, 1, 1},   {3, 1, 5},
                                         {131, 6, 1}, {33, 6, 10}, {7, 13, 8},
                                         {2, 3, 100}, {67, 4, 3},  {5, 0, 3}};

// y, dx and dw one after another.
template <typename T>
std::vector<std::vector<float>> weight_multiply_on(const OpDevice& on, const WeightShape& s,
                                                   int64_t offset = 0) {
  const int64_t out = s.slots * s.width;
  const DeviceTensor<T> x(on, random_values<T>(s.batch * s.slots, 1), offset);
  const DeviceTensor<T> w(on, random_values<T>(out, 2), offset);
  const DeviceTensor<T> dy(on, random_values<T>(s.batch * out, 3), offset);
  const DeviceTensor<T> y(on, nans(dy.size()), offset), dx(on, nans(x.size()), offset);
  const DeviceTensor<float> dw(on, nans(out), offset);
  const auto x_view = x.view(s.batch, s.slots), w_view = w.view(s.slots, s.width);
  const auto dy_view = dy.view(s.batch, out);
  ops::weight_multiply_forward<T>(on.exec(), x_view, w_view, y.view(s.batch, out));
  ops::weight_multiply_backward_data<T>(on.exec(), dy_view, w_view, dx.view(s.batch, s.slots));
  ops::weight_multiply_backward_weights<T>(on.exec(), x_view, dy_view, dw.view(s.slots, s.width));
  return {y.host(), dx.host(), dw.host()};
}

TEMPLATE_TEST_CASE("WeightMultiply agrees with the definition, forward and backward", "[gpu]",
                   float, bf16, fp16) {
  using T = TestType;
  const auto devices = op_devices<T>(&kNoOptions);
  for (const WeightShape& s : kWeightShapes) {
    const int64_t out = s.slots * s.width;
    const auto x = random_values<T>(s.batch * s.slots, 1), w = random_values<T>(out, 2);
    const auto dy = random_values<T>(s.batch * out, 3);
    std::vector<float> y;
    std::vector<double> dx(x.size()), dw(w.size());
    for (size_t i = 0; i < dy.size(); ++i) {
      const size_t from = i / static_cast<size_t>(s.width), column = i % w.size();
      y.push_back(x[from] * w[column]);
      dx[from] += static_cast<double>(dy[i]) * static_cast<double>(w[column]);
      dw[column] += static_cast<double>(dy[i]) * static_cast<double>(x[from]);
    }
    for (const OpDevice& on : devices)
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << s.batch << "," << s.slots << "] x " << s.width);
        const auto got = weight_multiply_on<T>(on, s, offset);
        CHECK(same_values(got[0], as<T>(y)));
        check_close(got[1], dx, {2e-6, 1e-6 + kRounding<T>}, "dx");
        check_close(got[2], dw, {2e-6, 1e-6}, "dw");
      }
  }
}

TEST_CASE("WeightMultiply gives the same bits on any threads") {
  check_same_bits(
      []<typename T>(const OpDevice& on) {
        return weight_multiply_on<T>(on, {301, 5, 7})[2];
      },
      &kNoOptions);
}

TEST_CASE("WeightMultiply refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(24);
  const Matrix<float> x(m.data(), 2, 3), w(m.data(), 3, 4), y(m.data(), 2, 12), bad(m.data(), 2, 6);
  CHECK_THROWS_AS(ops::weight_multiply_forward(on.exec(), x, w, bad), Error);
  CHECK_THROWS_AS(ops::weight_multiply_forward(on.exec(), bad, w, y), Error);
  CHECK_THROWS_AS(ops::weight_multiply_backward_data(on.exec(), y, w, bad), Error);
  CHECK_THROWS_AS(ops::weight_multiply_backward_weights(on.exec(), x, bad, w), Error);
}

}  // namespace
}  // namespace hlite::test
