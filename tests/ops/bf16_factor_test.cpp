// Products of bf16 on the CPU; this file runs again as on a processor that has none of its own.
#include "hugectr_lite/ops/bf16_factor.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/bf16_piece.h"
#include "hugectr_lite/ops/transpose.h"
#include "tests/ops/bf16_piece_case.h"
#include "tests/support/errors.h"
#include "tests/support/typed_values.h"

namespace hlite::test {
namespace {

using ops::Bf16Factor;
using Sizes = ops::Bf16Sizes;
using ops::Transpose;

// Row-major [rows, columns] turned.
template <typename T>
std::vector<T> turned(const std::vector<T>& values, int64_t rows, int64_t columns) {
  std::vector<T> out(values.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[static_cast<size_t>(j * rows + i)] = values[static_cast<size_t>(i * columns + j)];
  return out;
}

// c [m,n] of a [m,k] and b [k,n], each given as it is or turned; a is columns 1 to m of m + 3.
std::vector<float> product(const Sizes& s, const std::vector<bf16>& a, const std::vector<bf16>& b,
                           bool turn_a, bool turn_b, int threads) {
  ThreadPool pool(threads);
  std::vector<float> c = nans(s.m * s.n);
  const std::vector<bf16> right = turn_b ? turned(b, s.k, s.n) : b;
  const Bf16Factor factor(pool, turn_b ? Transpose::kYes : Transpose::kNo,
                          {right.data(), turn_b ? s.n : s.k, turn_b ? s.k : s.n});
  if (!turn_a) {
    factor.multiply({a.data(), s.m, s.k}, {c.data(), s.m, s.n});
    return c;
  }
  const std::vector<bf16> left = turned(a, s.m, s.k);
  std::vector<bf16> wide(static_cast<size_t>(s.k * (s.m + 3)), from_float<bf16>(NAN));
  for (int64_t l = 0; l < s.k; ++l)
    std::copy_n(left.begin() + l * s.m, s.m, wide.begin() + l * (s.m + 3) + 1);
  factor.multiply_columns({wide.data(), s.k, s.m + 3}, 1, {c.data(), s.m, s.n});
  return c;
}

TEST_CASE("products of bf16 are those of their values, summed in float") {
  for (const Sizes& s : {Sizes{1, 1, 1},
                         {0, 3, 5},
                         {3, 0, 5},
                         {3, 5, 0},
                         {2, 64, 32},
                         {7, 65, 33},
                         {31, 63, 31},
                         {33, 17, 97},
                         {5, 128, 64},
                         {67, 131, 257},
                         {13, 1, 1031},
                         {128, 7, 2},
                         {1, 200, 3}}) {
    const auto a = random_values<bf16>(s.m * s.k, 1), b = random_values<bf16>(s.k * s.n, 2);
    const std::vector<double> want = product_in_double(s, a, b);
    for (const bool turn_a : {false, true})
      for (const bool turn_b : {false, true}) {
        INFO(s.m << " x " << s.n << " x " << s.k << ", turned " << turn_a << turn_b);
        const auto got = product(s, rounded<bf16>(a), rounded<bf16>(b), turn_a, turn_b, 1);
        check_close(got, want, {2e-7 * static_cast<double>(s.k) + 1e-7, 1e-6}, "c");
        CHECK(same_values(product(s, rounded<bf16>(a), rounded<bf16>(b), turn_a, turn_b, 3), got));
      }
  }
}

TEST_CASE("transpose moves every element of a part") {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{0, 3},
                                      {3, 0},
                                      {1, 1},
                                      {8, 8},
                                      {7, 9},
                                      {16, 24},
                                      {33, 17},
                                      {530, 9},
                                      {65, 130}}) {
    INFO(rows << " x " << columns);
    const auto from = rounded<bf16>(random_values<bf16>(rows * (columns + 5), 3));
    std::vector<float> want = nans(columns * (rows + 2));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        want[static_cast<size_t>(j * (rows + 2) + i)] =
            to_float(from[static_cast<size_t>(i * (columns + 5) + j)]);
    auto to = rounded<bf16>(nans(columns * (rows + 2)));
    ops::transpose({from.data(), columns + 5}, rows, columns, {to.data(), rows + 2});
    CHECK(same_values(widened(to), want));
  }
}

TEST_CASE("products of bf16 refuse sizes that do not fit") {
  ThreadPool pool(1);
  std::vector<bf16> a(60), b(60);
  std::vector<float> c(60);
  const Bf16Factor factor(pool, Transpose::kNo, {b.data(), 5, 4});
  CHECK_THROWS_AS(factor.multiply({a.data(), 3, 4}, {c.data(), 3, 4}), Error);
  CHECK_THROWS_AS(factor.multiply({a.data(), 3, 5}, {c.data(), 2, 4}), Error);
  CHECK_THROWS_AS(factor.multiply({a.data(), 3, 5}, {c.data(), 3, 5}), Error);
  CHECK_THROWS_AS(factor.multiply_columns({a.data(), 5, 3}, 1, {c.data(), 3, 4}), Error);
  CHECK_THROWS_AS(factor.multiply_columns({a.data(), 4, 3}, 0, {c.data(), 3, 4}), Error);
}

TEST_CASE("a processor's limit of instructions counts for products of bf16") {
  const char* const limit = std::getenv("HLITE_INSTRUCTIONS");
  if (limit && std::string_view(limit) == "avx2")
    CHECK(ops::bf16_products() == ops::Bf16Products::kNone);
  check_contains(ops::describe(ops::Bf16Products::kNone), {"fp32", "nothing gained"});
  check_contains(ops::describe(ops::Bf16Products::kAvx512), {"AVX-512 BF16"});
  check_contains(ops::describe(ops::Bf16Products::kAmx), {"AMX"});
}

}  // namespace
}  // namespace hlite::test
