#include "hugectr_lite/ops/batched_product.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using ops::Transpose;

struct ProductShape {
  int64_t batch, m, n, k;
};
// DIN's weighted sum and its gradients, and what neither vectors nor tiles divide.
constexpr ProductShape kProductShapes[] = {
    {0, 2, 3, 4},    {1, 1, 1, 1},   {9, 1, 32, 50},   {9, 1, 50, 32},  {5, 50, 32, 1},
    {3, 13, 17, 19}, {2, 2, 67, 31}, {2, 37, 3, 8},    {3, 7, 24, 40},  {1, 33, 35, 65},
    {2, 5, 4, 0},    {4, 12, 9, 24}, {1, 70, 100, 41}, {2, 26, 26, 16}, {1, 70, 61, 90}};
constexpr std::pair<Transpose, Transpose> kTurns[] = {{Transpose::kNo, Transpose::kNo},
                                                      {Transpose::kNo, Transpose::kYes},
                                                      {Transpose::kYes, Transpose::kNo}};

template <typename T>
std::vector<float> product_on(const OpDevice& on, const ProductShape& s, Transpose ta, Transpose tb,
                              int64_t offset = 0) {
  const DeviceTensor<T> a(on, random_values<T>(s.batch * s.m * s.k, 1), offset);
  const DeviceTensor<T> b(on, random_values<T>(s.batch * s.k * s.n, 2), offset);
  const DeviceTensor<T> c(on, nans(s.batch * s.m * s.n), offset);
  const bool a_turned = ta == Transpose::kYes, b_turned = tb == Transpose::kYes;
  ops::batched_product<T>(
      on.exec(), ta, tb, a.view(s.batch, a_turned ? s.k : s.m, a_turned ? s.m : s.k),
      b.view(s.batch, b_turned ? s.n : s.k, b_turned ? s.k : s.n), c.view(s.batch, s.m, s.n));
  return c.host();
}

}  // namespace

TEMPLATE_TEST_CASE("a product of each sample's matrices agrees with its definition", "[gpu]", float,
                   bf16, fp16) {
  using T = TestType;
  for (const ProductShape& s : kProductShapes)
    for (const auto& [ta, tb] : kTurns) {
      const auto a = random_values<T>(s.batch * s.m * s.k, 1);
      const auto b = random_values<T>(s.batch * s.k * s.n, 2);
      std::vector<double> want;
      for (int64_t i = 0; i < s.batch * s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j) {
          const int64_t sample = i / s.m, row = i % s.m;
          double sum = 0;
          for (int64_t p = 0; p < s.k; ++p) {
            const int64_t in_a = ta == Transpose::kYes ? p * s.m + row : row * s.k + p;
            const int64_t in_b = tb == Transpose::kYes ? j * s.k + p : p * s.n + j;
            sum += static_cast<double>(a[static_cast<size_t>(sample * s.m * s.k + in_a)]) *
                   static_cast<double>(b[static_cast<size_t>(sample * s.k * s.n + in_b)]);
          }
          want.push_back(sum);
        }
      for (const OpDevice& on : op_devices<T>())
        for (const int64_t offset : {0, 1}) {
          INFO(on.name() << ", " << s.batch << " of [" << s.m << "," << s.n << "] by " << s.k
                         << ", turned " << (ta == Transpose::kYes) << (tb == Transpose::kYes));
          check_close(product_on<T>(on, s, ta, tb, offset), want, {1e-5, kRounding<T>});
        }
    }
}

TEMPLATE_TEST_CASE("each sample's transpose has its numbers", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for (const ProductShape& s : kProductShapes) {
    const auto x = random_values<T>(s.batch * s.m * s.n, 1);
    std::vector<float> want;
    for (int64_t i = 0; i < s.batch * s.n; ++i)
      for (int64_t j = 0; j < s.m; ++j)
        want.push_back(x[static_cast<size_t>((i / s.n * s.m + j) * s.n + i % s.n)]);
    for (const OpDevice& on : op_devices<T>())
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", " << s.batch << " of [" << s.m << "," << s.n << "]");
        const DeviceTensor<T> from(on, x, offset), to(on, nans(from.size()), offset);
        ops::batched_transpose<T>(on.exec(), from.view(s.batch, s.m, s.n),
                                  to.view(s.batch, s.n, s.m));
        CHECK(same_values(to.host(), want));
      }
  }
}

TEST_CASE("products of each sample's matrices give the same bits on any threads and in any batch") {
  for (const auto& [ta, tb] : kTurns) {
    check_same_bits([&, ta = ta, tb = tb]<typename T>(const OpDevice& on) {
      return product_on<T>(on, {401, 3, 11, 23}, ta, tb);
    });
    const OpDevice on(2);
    for (const int64_t m : {1, 3, 80}) {
      const auto all = product_on<float>(on, {5, m, 70, 50}, ta, tb);
      const auto one = product_on<float>(on, {1, m, 70, 50}, ta, tb);
      CHECK(std::equal(one.begin(), one.end(), all.begin()));
    }
  }
}

TEST_CASE("a product of each sample's matrices refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(64);
  const View<float, 3> a(m.data(), 2, 3, 4), b(m.data(), 2, 4, 5), c(m.data(), 2, 3, 5);
  const auto product = [&](Transpose ta, Transpose tb, View<float, 3> x, View<float, 3> y,
                           View<float, 3> z) { ops::batched_product(on.exec(), ta, tb, x, y, z); };
  constexpr auto kNo = Transpose::kNo, kYes = Transpose::kYes;
  CHECK_THROWS_AS(product(kNo, kNo, a, a, c), Error);
  CHECK_THROWS_AS(product(kYes, kNo, a, b, c), Error);
  CHECK_THROWS_AS(product(kNo, kYes, a, b, c), Error);
  CHECK_THROWS_AS(product(kYes, kYes, a, b, c), Error);
  CHECK_THROWS_AS(product(kNo, kNo, a, b, {m.data(), 2, 3, 4}), Error);
  CHECK_THROWS_AS(product(kNo, kNo, a, b, {m.data(), 1, 3, 5}), Error);
  CHECK_THROWS_AS(ops::batched_transpose(on.exec(), a, a), Error);
}

}  // namespace hlite::test
