#include "hugectr_lite/ops/softmax.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

struct SoftmaxShape {
  int64_t rows, n;
};
constexpr SoftmaxShape kSoftmaxShapes[] = {{0, 3}, {1, 1}, {5, 2}, {7, 31}, {33, 67}, {3, 301}};

template <typename T>
struct SoftmaxInputs {
  explicit SoftmaxInputs(const SoftmaxShape& s)
      : x(random_values<T>(s.rows * s.n, 1)),
        mask(random_values<T>(s.rows * s.n, 2)),
        dy(random_values<T>(s.rows * s.n, 3)) {
    for (float& m : mask) m = m > 0 ? 1.0f : 0.0f;
    for (size_t i = 0; i < x.size(); i += 5) x[i] = as<T>({200 * x[i]})[0];
    // Of the first row nothing counts.
    if (s.rows > 0) std::fill_n(mask.begin(), s.n, 0.0f);
  }
  std::vector<float> x, mask, dy;
};

// y and dx one after another.
template <typename T>
std::vector<std::vector<float>> softmax_on(const OpDevice& on, const SoftmaxShape& s, bool masked,
                                           float factor, int64_t offset = 0) {
  const SoftmaxInputs<T> in(s);
  const DeviceTensor<T> x(on, in.x, offset), mask(on, in.mask, offset), dy(on, in.dy, offset);
  const DeviceTensor<T> y(on, nans(x.size()), offset), dx(on, nans(x.size()), offset);
  ops::softmax_forward<T>(on.exec(), x.view(s.rows, s.n),
                          masked ? Matrix<const T>(mask.view(s.rows, s.n)) : Matrix<const T>(),
                          factor, y.view(s.rows, s.n));
  ops::softmax_backward<T>(on.exec(), y.view(s.rows, s.n), dy.view(s.rows, s.n), factor,
                           dx.view(s.rows, s.n));
  return {y.host(), dx.host()};
}

}  // namespace

TEMPLATE_TEST_CASE("softmax agrees with its definition, forward and backward", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const SoftmaxShape& s : kSoftmaxShapes)
      for (const bool masked : {false, true}) {
        INFO(on.name() << ", [" << s.rows << "," << s.n << "], masked " << masked);
        const float factor = masked ? 0.5f : 1.0f;
        const SoftmaxInputs<T> in(s);
        const auto got = softmax_on<T>(on, s, masked, factor, masked ? 1 : 0);
        std::vector<double> y(in.x.size()), dx(in.x.size());
        const auto n = static_cast<size_t>(s.n);
        for (size_t r = 0; r < static_cast<size_t>(s.rows); ++r) {
          double most = -1e300, sum = 0, inner = 0;
          bool counts = !masked;
          for (size_t i = r * n; i < (r + 1) * n; ++i) {
            y[i] =
                static_cast<double>(factor) * in.x[i] - (masked && in.mask[i] == 0 ? 10000.0 : 0.0);
            most = std::max(most, y[i]);
            counts |= in.mask[i] != 0;
          }
          if (!counts) {
            std::fill_n(y.begin() + static_cast<std::ptrdiff_t>(r * n), n, 0.0);
            continue;
          }
          for (size_t i = r * n; i < (r + 1) * n; ++i) sum += y[i] = std::exp(y[i] - most);
          for (size_t i = r * n; i < (r + 1) * n; ++i) inner += (y[i] /= sum) * in.dy[i];
          for (size_t i = r * n; i < (r + 1) * n; ++i)
            dx[i] = static_cast<double>(factor) * y[i] * (in.dy[i] - inner);
        }
        check_close(got[0], y, {kRounding<T> * 1e-2 + 1e-6, 2e-6 + kRounding<T>}, "y");
        check_close(got[1], dx, {4e-6 + 2 * kRounding<T>, 2e-6 + kRounding<T>}, "dx");
      }
}

TEST_CASE("softmax gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    auto r = softmax_on<T>(on, {211, 37}, true, 0.3f);
    r[0].insert(r[0].end(), r[1].begin(), r[1].end());
    return r[0];
  });
}

TEST_CASE("softmax refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(24);
  const Matrix<float> x(m.data(), 2, 3), bad(m.data(), 3, 2);
  CHECK_THROWS_AS(ops::softmax_forward(on.exec(), x, {}, 1, bad), Error);
  CHECK_THROWS_AS(ops::softmax_forward(on.exec(), x, bad, 1, x), Error);
  CHECK_THROWS_AS(ops::softmax_backward(on.exec(), x, bad, 1, x), Error);
  CHECK_THROWS_AS(ops::softmax_backward(on.exec(), x, x, 1, bad), Error);
}

}  // namespace hlite::test
