#include "hugectr_lite/core/half.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/catch.h"

namespace hlite::test {
namespace {

// The two neighbours of x among the values of T, found by going through the bits; the nearer one
// wins, at equal distance the one with an even last bit.
template <typename T>
uint16_t nearest_bits(double x) {
  uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < 0x8000u; ++bits) {
    const float value = to_float(T{static_cast<uint16_t>(bits)});
    if (!std::isfinite(value)) break;
    const double d = std::abs(value - std::abs(x));
    if (d < distance || (d == distance && bits % 2 == 0)) {
      distance = d;
      best = static_cast<uint16_t>(bits);
    }
  }
  return static_cast<uint16_t>(best | (std::signbit(x) ? 0x8000u : 0u));
}

template <typename T>
void every_value_survives() {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const T value{static_cast<uint16_t>(bits)};
    const float wide = to_float(value);
    const T back = from_float<T>(wide);
    wrong += std::isnan(wide) ? !std::isnan(to_float(back)) : back.bits != value.bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("every 16-bit value survives the way through float") {
  every_value_survives<bf16>();
  every_value_survives<fp16>();
}

TEST_CASE("16-bit values are what their definitions say") {
  CHECK(to_float(bf16{0x3f80}) == 1.0f);
  CHECK(to_float(bf16{0xc049}) == -3.140625f);
  CHECK(to_float(fp16{0x3c00}) == 1.0f);
  CHECK(to_float(fp16{0x0001}) == std::ldexp(1.0f, -24));
  CHECK(to_float(fp16{0x03ff}) == 1023 * std::ldexp(1.0f, -24));
  CHECK(to_float(fp16{0x7bff}) == 65504.0f);
  CHECK(to_float(fp16{0xfc00}) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("float becomes the nearest 16-bit value, ties to even") {
  for (const float x : {0.1f, -0.3f, 1.00390625f, 1.01171875f, 3.0e-5f, -7.0e-8f, 2.0e-8f,
                        2.98023224e-8f, 8.94069672e-8f, 6.1e-5f, 1234.567f, 65503.9f, 2049.0f}) {
    INFO(x);
    CHECK(from_float<fp16>(x).bits == nearest_bits<fp16>(double{x}));
    CHECK(from_float<bf16>(x).bits == nearest_bits<bf16>(double{x}));
  }
  CHECK(from_float<fp16>(65519.9f).bits == 0x7bff);
  CHECK(from_float<fp16>(65520.0f).bits == 0x7c00);
  CHECK(from_float<fp16>(-1e9f).bits == 0xfc00);
  CHECK(from_float<bf16>(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(std::isnan(to_float(from_float<fp16>(NAN))));
  CHECK(std::isnan(to_float(from_float<bf16>(-NAN))));
}

}  // namespace
}  // namespace hlite::test
