#include "hugectr_lite/ops/gemm.h"

#include <limits>

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::ops {
namespace {
using test::random_values;

struct ProductShape {
  int64_t m, n, k;
};

// C = alpha op(A) op(B) + beta C in double. For entries in [-1, 1) the sums deviate by sqrt(k) / 3;
// float rounding stays below 5e-6 of that.
std::vector<double> oracle(const ProductShape& s, Transpose ta, Transpose tb, float alpha,
                           const std::vector<float>& a, const std::vector<float>& b, float beta,
                           const std::vector<float>& c) {
  std::vector<double> out(c.size());
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < s.k; ++l) {
        const double x = a[static_cast<size_t>(ta == Transpose::kYes ? l * s.m + i : i * s.k + l)];
        const double y = b[static_cast<size_t>(tb == Transpose::kYes ? j * s.k + l : l * s.n + j)];
        sum += x * y;
      }
      const auto at = static_cast<size_t>(i * s.n + j);
      out[at] = alpha * sum + (beta == 0 ? 0.0 : static_cast<double>(beta) * c[at]);
    }
  }
  return out;
}

void check(const Exec& exec, const ProductShape& s, Transpose ta, Transpose tb, float alpha,
           float beta) {
  const bool at = ta == Transpose::kYes, bt = tb == Transpose::kYes;
  const auto a = random_values(s.m * s.k, 1), b = random_values(s.k * s.n, 2);
  auto c = random_values(s.m * s.n, 3);
  if (beta == 0) std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
  const auto want = oracle(s, ta, tb, alpha, a, b, beta, c);
  gemm(exec, ta, tb, alpha, {a.data(), at ? s.k : s.m, at ? s.m : s.k},
       {b.data(), bt ? s.n : s.k, bt ? s.k : s.n}, beta, {c.data(), s.m, s.n});
  CAPTURE(s.m, s.n, s.k, at, bt, alpha, beta);
  const double magnitude = std::sqrt(static_cast<double>(s.k) / 9) + 1;  // deviation of the sums
  test::check_close(c, want, {5e-6 * magnitude, 1e-6}, "c");
}

TEST_CASE("gemm agrees with the definition for every transpose, size and thread count") {
  const ProductShape shapes[] = {{1, 1, 1},      {1, 7, 33},    {7, 1, 33},    {33, 7, 1},
                                 {13, 16, 29},   {16, 13, 64},  {67, 31, 13},  {129, 65, 37},
                                 {37, 257, 70},  {1031, 5, 3},  {3, 1031, 5},  {5, 3, 2053},
                                 {13, 512, 100}, {256, 1, 300}, {512, 40, 300}};
  for (const int threads : {1, 2, 3}) {
    const test::OpDevice on(threads);
    for (const ProductShape& shape : shapes)
      for (const Transpose ta : {Transpose::kNo, Transpose::kYes})
        for (const Transpose tb : {Transpose::kNo, Transpose::kYes})
          check(on.exec(), shape, ta, tb, 1, 0);
  }
}

TEST_CASE("gemm scales by alpha and beta and ignores c where beta is 0") {
  for (const int threads : {1, 2, 3}) {
    const test::OpDevice on(threads);
    for (const ProductShape& shape : {ProductShape{5, 9, 7}, ProductShape{130, 70, 50}})
      for (const auto& [alpha, beta] :
           {std::pair{1.0f, 1.0f}, {0.5f, -2.0f}, {-1.5f, 0.0f}, {0.0f, 3.0f}})
        check(on.exec(), shape, Transpose::kNo, Transpose::kYes, alpha, beta);
  }
}

TEST_CASE("gemm takes empty sizes") {
  const test::OpDevice on(2);
  for (const ProductShape& shape : {ProductShape{0, 5, 3}, ProductShape{5, 0, 3},
                                    ProductShape{0, 0, 0}, ProductShape{33, 65, 0}})
    for (const float beta : {0.0f, 1.0f, 0.25f})
      check(on.exec(), shape, Transpose::kNo, Transpose::kNo, 1, beta);
}

TEST_CASE("gemm splits a large product among many threads") {
  for (const int threads : {4, 7}) {
    const test::OpDevice on(threads);
    check(on.exec(), {130, 190, 600}, Transpose::kYes, Transpose::kNo, 1, 1);
    check(on.exec(), {3, 190, 2600}, Transpose::kYes, Transpose::kNo, 1, 0);
    check(on.exec(), {190, 3, 2600}, Transpose::kNo, Transpose::kNo, 1, 0);
  }
}

TEST_CASE("gemm gives the same bits from run to run") {
  const test::OpDevice on(3);
  const auto a = random_values(130 * 300, 1), b = random_values(300 * 170, 2);
  std::vector<float> first(130 * 170), again(130 * 170);
  const auto run = [&](std::vector<float>& c) {
    gemm(on.exec(), Transpose::kNo, Transpose::kNo, 1, {a.data(), 130, 300}, {b.data(), 300, 170},
         0, {c.data(), 130, 170});
  };
  run(first);
  for (int i = 0; i < 5; ++i) {
    run(again);
    REQUIRE(first == again);
  }
}

TEST_CASE("gemm refuses shapes that do not fit") {
  const test::OpDevice on(1);
  std::vector<float> x(100);
  const Matrix<const float> a(x.data(), 3, 4), b(x.data(), 4, 5);
  const auto run = [&](Transpose ta, Transpose tb, int64_t m, int64_t n) {
    gemm(on.exec(), ta, tb, 1, a, b, 0, {x.data() + 50, m, n});
  };
  CHECK_THROWS_AS(run(Transpose::kYes, Transpose::kNo, 3, 5), Error);
  CHECK_THROWS_AS(run(Transpose::kNo, Transpose::kYes, 3, 5), Error);
  CHECK_THROWS_AS(run(Transpose::kNo, Transpose::kNo, 4, 5), Error);
  CHECK_THROWS_AS(run(Transpose::kNo, Transpose::kNo, 3, 4), Error);
  CHECK_NOTHROW(run(Transpose::kNo, Transpose::kNo, 3, 5));
}

}  // namespace
}  // namespace hlite::ops
