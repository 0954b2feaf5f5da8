// Products of bf16 pieces against the definition in double.
#pragma once

#include <vector>

#include "hugectr_lite/ops/bf16_factor.h"
#include "hugectr_lite/ops/bf16_piece.h"
#include "tests/support/catch.h"
#include "tests/support/typed_values.h"

namespace hlite::test {

inline std::vector<double> product_in_double(const ops::Bf16Sizes& s, const std::vector<float>& a,
                                             const std::vector<float>& b) {
  std::vector<double> c(static_cast<size_t>(s.m * s.n));
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t l = 0; l < s.k; ++l)
      for (int64_t j = 0; j < s.n; ++j)
        c[static_cast<size_t>(i * s.n + j)] +=
            static_cast<double>(a[static_cast<size_t>(i * s.k + l)]) *
            static_cast<double>(b[static_cast<size_t>(l * s.n + j)]);
  return c;
}

// multiply() as bf16_piece(), on panels, for sizes around those of its tiles.
template <typename Multiply>
void check_bf16_piece(const Multiply& multiply) {
  ThreadPool pool(1);
  for (const ops::Bf16Sizes& s : {ops::Bf16Sizes{1, 1, 1},
                                  {6, 64, 32},
                                  {7, 65, 33},
                                  {13, 15, 31},
                                  {25, 17, 97},
                                  {12, 48, 64},
                                  {11, 33, 5},
                                  {128, 131, 257},
                                  {3, 80, 2051}}) {
    INFO(s.m << " x " << s.n << " x " << s.k);
    const auto a = random_values<bf16>(s.m * s.k, 1), b = random_values<bf16>(s.k * s.n, 2);
    const auto left = rounded<bf16>(a), right = rounded<bf16>(b);
    const ops::Bf16Factor factor(pool, ops::Transpose::kNo, {right.data(), s.k, s.n});
    std::vector<float> got = nans(s.m * s.n);
    multiply(s, left.data(), factor.panels(), got.data());
    check_close(got, product_in_double(s, a, b), {2e-7 * static_cast<double>(s.k) + 1e-7, 1e-6},
                "c");
  }
}

}  // namespace hlite::test
