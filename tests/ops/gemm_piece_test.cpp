#include "hugectr_lite/ops/gemm_piece.h"

#include "tests/support/typed_values.h"

namespace hlite::ops {
namespace {

// If the stride of a is a multiple of 512, gemm_piece transposes all but small blocks into a copy.
// Elements of c outside of the block must not change.
TEST_CASE("gemm_piece multiplies blocks of larger matrices") {
  struct Case {
    int64_t m, n, k, a_stride;
  };
  for (const Case& s : {Case{37, 45, 301, 512},
                        {64, 64, 256, 512},
                        {32, 33, 7, 1024},
                        {130, 32, 513, 512},
                        {37, 45, 301, 511},
                        {31, 40, 20, 512},
                        {40, 31, 20, 512},
                        {33, 129, 600, 1536}}) {
    for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
      for (const float beta : {0.0f, 0.5f}) {
        const int64_t b_stride = (tb == Transpose::kYes ? s.k : s.n) + 3, c_stride = s.n + 5;
        const auto a = test::random_values(s.k * s.a_stride, 1);
        const auto b = test::random_values((tb == Transpose::kYes ? s.n : s.k) * b_stride, 2);
        auto c = test::random_values(s.m * c_stride, 3);
        std::vector<double> expected(c.begin(), c.end());
        for (int64_t i = 0; i < s.m; ++i) {
          for (int64_t j = 0; j < s.n; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < s.k; ++l) {
              const int64_t at = tb == Transpose::kYes ? j * b_stride + l : l * b_stride + j;
              sum += static_cast<double>(a[static_cast<size_t>(l * s.a_stride + i)]) *
                     static_cast<double>(b[static_cast<size_t>(at)]);
            }
            double& out = expected[static_cast<size_t>(i * c_stride + j)];
            out = 2 * sum + static_cast<double>(beta) * out;
          }
        }
        gemm_piece({.ta = Transpose::kYes,
                    .tb = tb,
                    .m = s.m,
                    .n = s.n,
                    .k = s.k,
                    .alpha = 2,
                    .beta = beta},
                   {a.data(), s.a_stride}, {b.data(), b_stride}, {c.data(), c_stride});
        CAPTURE(s.m, s.n, s.k, s.a_stride, beta, tb == Transpose::kYes);
        const double magnitude = 2 * (std::sqrt(static_cast<double>(s.k) / 9) + 1);
        test::check_close(c, expected, {5e-6 * magnitude, 1e-6}, "c");
        for (int64_t i = 0; i < s.m; ++i)  // columns to the right of the block: unchanged
          for (int64_t j = s.n; j < c_stride; ++j)
            REQUIRE(static_cast<double>(c[static_cast<size_t>(i * c_stride + j)]) ==
                    expected[static_cast<size_t>(i * c_stride + j)]);
      }
    }
  }
}

}  // namespace
}  // namespace hlite::ops
