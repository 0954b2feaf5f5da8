#include "hugectr_lite/ops/row_product.h"

#include <cstring>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "tests/support/typed_values.h"

namespace hlite::ops {
namespace {

// Sizes around the register tiles, the packed panels and the blocks of k.
struct RowProductShape {
  int64_t n, k;
};
constexpr RowProductShape kRowProductShapes[] = {{1, 1},     {1, 300},   {7, 13},   {16, 64},
                                                 {17, 31},   {33, 512},  {64, 0},   {130, 367},
                                                 {257, 513}, {48, 1100}, {300, 257}};

TEST_CASE("row_product agrees with the definition") {
  for (const auto& [n, k] : kRowProductShapes)
    for (const int64_t m : {1, 3, 4, 8, 13, 50, 70, 251}) {
      const auto a = test::random_values(m * (k + 2), 1), b = test::random_values(k * (n + 3), 2);
      auto c = test::random_values(m * (n + 1), 3);
      std::vector<double> want(c.begin(), c.end());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t p = 0; p < k; ++p)
            sum += static_cast<double>(a[static_cast<size_t>(i * (k + 2) + p)]) *
                   static_cast<double>(b[static_cast<size_t>(p * (n + 3) + j)]);
          want[static_cast<size_t>(i * (n + 1) + j)] = sum;
        }
      row_product(m, n, k, {a.data(), k + 2}, {b.data(), n + 3}, {c.data(), n + 1});
      CAPTURE(m, n, k);
      test::check_close(c, want, {5e-6 * std::sqrt(static_cast<double>(k) / 9 + 1), 1e-6}, "c");
    }
}

TEST_CASE("a row of row_product has the same bits in any number of rows") {
  for (const auto& [n, k] : kRowProductShapes) {
    constexpr int64_t kRows = 263;
    const auto a = test::random_values(kRows * k, 1), b = test::random_values(k * n, 2);
    std::vector<float> alone(static_cast<size_t>(kRows * n)), c(alone.size());
    for (int64_t i = 0; i < kRows; ++i)
      row_product(1, n, k, {a.data() + i * k, k}, {b.data(), n}, {alone.data() + i * n, n});
    for (const int64_t m : {2, 3, 4, 5, 8, 11, 12, 47, 61, 131, 240, 241, 263}) {
      std::fill(c.begin(), c.end(), -1.0f);
      for (int64_t i = 0; i < kRows; i += m)
        row_product(std::min(m, kRows - i), n, k, {a.data() + i * k, k}, {b.data(), n},
                    {c.data() + i * n, n});
      CAPTURE(n, k, m);
      CHECK(std::memcmp(c.data(), alone.data(), sizeof(float) * c.size()) == 0);
    }
  }
}

// A sample's outputs alone, and in batches on several threads.
TEMPLATE_TEST_CASE("an evaluated layer gives a sample the same bits in any batch", "", float,
                   bf16) {
  using T = TestType;
  for (const auto& [out, in] : {std::pair<int64_t, int64_t>{1, 256}, {24, 13}, {70, 600}}) {
    constexpr int64_t kBatch = 300;
    const auto typed = [](const std::vector<float>& values) {
      std::vector<T> result;
      for (const float v : values) result.push_back(from_float<T>(v));
      return result;
    };
    const std::vector<T> x = typed(test::random_values(kBatch * in, 1));
    const std::vector<T> w = typed(test::random_values(in * out, 2));
    const std::vector<float> bias = test::random_values(out, 3);
    const auto run = [&](int threads, int64_t batch) {
      ThreadPool pool(threads);
      const Exec exec{.device = Device::kCpu, .pool = &pool};
      std::vector<float> y(static_cast<size_t>(kBatch * out));
      for (int64_t i = 0; i < kBatch; i += batch) {
        const int64_t n = std::min(batch, kBatch - i);
        fully_connected_evaluate<T, float>(
            exec, Matrix<const T>(x.data() + i * in, n, in), Matrix<const T>(w.data(), in, out),
            Vector<const float>(bias.data(), out), true, Matrix<float>(y.data() + i * out, n, out));
      }
      return y;
    };
    const std::vector<float> alone = run(1, 1);
    for (const int threads : {1, 3})
      for (const int64_t batch : {2, 7, 64, 300}) {
        CAPTURE(in, out, threads, batch);
        CHECK(run(threads, batch) == alone);
      }
  }
}

}  // namespace
}  // namespace hlite::ops
