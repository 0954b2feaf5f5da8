// The comparison of a product with epilogue with the plain product: what it lets pass, what not.
#include "hugectr_lite/ops/epilogue_check.h"

#include <cmath>

#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using ops::EpilogueSample;
using ops::FusedSample;
using ops::ProductRounding;

constexpr int64_t kSampledRows = 3, kSampledColumns = 5, kStride = 16;
const ProductRounding kBf16 = {.unit = 0x1p-9, .smallest = 0x1p-126, .k = 16, .batch = 100};

// Products of both signs, as large as 3.5, and what an epilogue makes of them.
struct CheckedProduct {
  EpilogueSample expected;
  FusedSample got;

  explicit CheckedProduct(bool relu, bool bias) {
    expected.rows = kSampledRows;
    expected.columns = kSampledColumns;
    expected.mask_stride = kStride;
    expected.relu = relu;
    if (bias) expected.bias = {0.5f, -1, 0.25f};
    if (!relu) expected.gate.assign(kSampledColumns * kStride, 0);
    for (int64_t i = 0; i < kSampledRows * kSampledColumns; ++i) {
      const int64_t row = i % kSampledRows, column = i / kSampledRows;
      float z = static_cast<float>(i - 7) * 0.5f;
      expected.product.push_back(z);
      if (bias) z += expected.bias[static_cast<size_t>(row)];
      const bool passes = relu ? z > 0 : i % 2 == 0;
      std::vector<uint8_t>& mask = relu ? got.mask : expected.gate;
      mask.resize(kSampledColumns * kStride);
      if (passes) mask[static_cast<size_t>(column * kStride)] |= static_cast<uint8_t>(1u << row);
      got.values.push_back(passes ? z : 0);
    }
    if (!relu) expected.sums = got.sums = {10, -20, 5};
  }
  [[nodiscard]] std::string difference() const { return ops::difference(expected, got, kBf16); }
};

}  // namespace

TEST_CASE("a product with epilogue may differ from the plain one by rounding") {
  for (const bool relu : {false, true})
    for (const bool bias : {false, true}) {
      CheckedProduct c(relu, bias);
      CHECK(is_conclusive(c.expected));
      CHECK(c.difference().empty());
      // 2.25 2^-9 (3.5 + 0.25 with the bias) + 16 2^-23 (3.5 + 1 with the bias)
      const float value = 3.5f + (bias ? 0.25f : 0);
      const float most = value * 0.00439453f + (bias ? 4.5f : 3.5f) * 1.9073e-6f;
      c.got.values[14] = value + 0.99f * most;
      CHECK(c.difference().empty());
      c.got.values[14] += 0.02f * most;
      check_contains(c.difference(), {"row 2 of sample 4 is", "was expected"});
    }
}

TEST_CASE("a product that is rounded before its bias is added differs where the two cancel") {
  CheckedProduct c(true, true);
  c.expected.product[12] = -0.4972f;  // with the bias 0.0028; in 16 bits -0.498046875
  c.got.values[12] = 0.0028f;
  CHECK(c.difference().empty());
  c.got.values[12] = 0.001953125f;
  check_contains(c.difference(), {"row 0 of sample 4 is 0.00195312 where 0.002"});
}

TEST_CASE("a product with epilogue that is not finite differs, unless the plain one is not") {
  CheckedProduct c(true, false);
  c.got.values[13] = NAN;
  check_contains(c.difference(), {"row 1 of sample 4 is nan where 3"});
  c.expected.product[13] = NAN;
  CHECK(c.difference().empty());
  c.expected.product.assign(kSampledRows * kSampledColumns, NAN);
  CHECK(!is_conclusive(c.expected));
  c.expected.product.assign(kSampledRows * kSampledColumns, 0);
  CHECK(!is_conclusive(c.expected));
}

TEST_CASE("a mask's bits must be right where the sign is sure") {
  CheckedProduct c(true, true);
  c.got.mask[0] ^= 1;  // the product is -3.5 + 0.5
  check_contains(c.difference(), {"mask's bit of row 0 of sample 0 is 1"});
  c.got.mask[0] ^= 1;
  // Row 2 of sample 2 is 0.5 + 0.25; as good as 0 it may be either.
  c.got.mask[2 * kStride] ^= 4;
  check_contains(c.difference(), {"mask's bit of row 2 of sample 2 is 0"});
  c.expected.product[8] = -0.25f + 1e-6f;
  c.got.values[8] = 0;
  CHECK(c.difference().empty());
}

TEST_CASE("sums may differ by the rounding of as many numbers as a batch has") {
  CheckedProduct c(false, false);
  // The last row has the largest values that pass: -2.5, 0.5 and 3.5 ... of five.
  double squares = 0;
  for (int64_t row = 0; row < kSampledRows; ++row) {
    double sum = 0;
    for (int64_t column = 0; column < kSampledColumns; ++column) {
      const double value = c.got.values[static_cast<size_t>(column * kSampledRows + row)];
      sum += value * value;
    }
    squares = std::max(squares, sum / kSampledColumns);
  }
  const double allowed = 8 * 0x1p-9 * std::sqrt(100 * squares) + (4 * 0x1p-9 + 100 * 0x1p-24) * 20;
  c.got.sums[0] = static_cast<float>(10 + 0.99 * allowed);
  CHECK(c.difference().empty());
  c.got.sums[0] = static_cast<float>(10 + 1.01 * allowed);
  check_contains(c.difference(), {"the sum of row 0", "10 +-"});
  // Of other terms than the results.
  c.expected.terms.assign(2 * kSampledRows, 20);
  c.got.sums[0] = static_cast<float>(10 + 0.99 * 8 * 0x1p-9 * 200);
  CHECK(c.difference().empty());
  c.got.sums[0] = static_cast<float>(10 + 1.01 * (8 * 0x1p-9 * 200 + 4 * 0x1p-9 * 20 + 1e-4));
  check_contains(c.difference(), {"the sum of row 0", "10 +-"});
  c.got.sums[0] = NAN;
  CHECK(!c.difference().empty());
  c.expected.sums[0] = INFINITY;  // a scaled gradient that overflows: not to be compared
  CHECK(c.difference().empty());
}

}  // namespace hlite::test
