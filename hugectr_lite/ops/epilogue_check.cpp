#include "hugectr_lite/ops/epilogue_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace hlite::ops {
namespace {

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values)
    if (std::isfinite(value)) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

std::string text(const char* what, int64_t row, int64_t column, double got, double want,
                 double allowed) {
  char words[200];
  std::snprintf(words, sizeof(words), "%s %lld of sample %lld is %g where %g +- %g was expected",
                what, static_cast<long long>(row), static_cast<long long>(column), got, want,
                allowed);
  return words;
}

bool bit_of(const std::vector<uint8_t>& mask, int64_t stride, int64_t row, int64_t column) {
  return (mask[static_cast<size_t>(column * stride + row / 8)] >> (row % 8) & 1) != 0;
}

// The epilogue's result for the product at one place, and the sum before ReLU.
struct ExpectedOutput {
  double before, value;
};
ExpectedOutput wanted(const EpilogueSample& s, int64_t row, int64_t column) {
  double z = s.product[static_cast<size_t>(column * s.rows + row)];
  if (!s.bias.empty()) z += s.bias[static_cast<size_t>(row)];
  if (s.relu) return {z, std::max(z, 0.0)};
  if (!s.gate.empty() && !bit_of(s.gate, s.mask_stride, row, column)) return {z, 0};
  return {z, z};
}

std::string difference_of_sums(const EpilogueSample& expected, const FusedSample& got,
                               const ProductRounding& rounding) {
  double mean_square = 0;
  const std::vector<float>& terms = expected.terms;
  const int64_t columns = terms.empty() ? expected.columns : std::ssize(terms) / expected.rows;
  for (int64_t row = 0; row < expected.rows; ++row) {
    double sum = 0;
    for (int64_t column = 0; column < columns; ++column) {
      const double value = terms.empty() ? wanted(expected, row, column).value
                                         : terms[static_cast<size_t>(column * expected.rows + row)];
      if (std::isfinite(value)) sum += value * value;
    }
    mean_square = std::max(mean_square, sum / static_cast<double>(columns));
  }
  const auto batch = static_cast<double>(rounding.batch);
  const double allowed = 8 * (rounding.unit + rounding.factor) * std::sqrt(batch * mean_square) +
                         (4 * rounding.unit + batch * 0x1p-24) * largest(expected.sums) +
                         rounding.smallest;
  for (int64_t row = 0; row < expected.rows; ++row) {
    const double want = expected.sums[static_cast<size_t>(row)];
    const double sum = got.sums[static_cast<size_t>(row)];
    if (std::isfinite(want) && !(std::abs(sum - want) <= allowed))
      return text("the sum of row", row, 0, sum, want, allowed);
  }
  return "";
}

}  // namespace

bool is_conclusive(const EpilogueSample& sample) { return largest(sample.product) > 0; }

std::string difference(const EpilogueSample& expected, const FusedSample& got,
                       const ProductRounding& rounding) {
  const double scale = largest(expected.product) + largest(expected.bias);
  const double of_sums = scale * (static_cast<double>(rounding.k) * 0x1p-23 + 8 * rounding.factor);
  for (int64_t column = 0; column < expected.columns; ++column)
    for (int64_t row = 0; row < expected.rows; ++row) {
      const ExpectedOutput want = wanted(expected, row, column);
      if (!std::isfinite(want.before)) continue;
      const double allowed =
          std::max(rounding.smallest, 2.25 * rounding.unit * std::abs(want.before) + of_sums);
      const double value = got.values[static_cast<size_t>(column * expected.rows + row)];
      if (!(std::abs(value - want.value) <= allowed))
        return text("row", row, column, value, want.value, allowed);
      if (got.mask.empty() || std::abs(want.before) <= allowed) continue;
      const bool bit = bit_of(got.mask, expected.mask_stride, row, column);
      if (bit != (want.before > 0))
        return text("the mask's bit of row", row, column, bit, want.before > 0, 0);
    }
  return expected.sums.empty() ? "" : difference_of_sums(expected, got, rounding);
}

}  // namespace hlite::ops
