#include "hugectr_lite/core/half.h"

#include <algorithm>
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

// The mean of x rounded by each of the 2^16 draws, and whether all results are its neighbours.
template <typename T>
double mean_of_draws(float x) {
  const float nearest = to_float(from_float<T>(x));
  double sum = 0;
  int beyond = 0;
  for (uint32_t draw = 0; draw < 0x10000u; ++draw) {
    const float rounded = to_float(round_stochastically<T>(x, draw));
    sum += static_cast<double>(rounded);
    // One neighbour is the nearest value, and the other no more than one step from it.
    const float low = std::min(nearest, rounded), high = std::max(nearest, rounded);
    beyond += !(low <= x && x <= high) && rounded != nearest;
    T next = from_float<T>(low);
    next.bits = static_cast<uint16_t>(next.bits + (low < 0 ? -1 : 1));
    if (low != high && low != 0) beyond += to_float(next) != high;
  }
  CHECK(beyond == 0);
  return sum / 0x10000;
}

TEST_CASE("stochastic rounding keeps 16-bit values as they are") {
  const auto check = []<typename T>() {
    int wrong = 0;
    for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
      const T value{static_cast<uint16_t>(bits)};
      for (const uint32_t draw : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu}) {
        const T back = round_stochastically<T>(to_float(value), draw);
        wrong +=
            std::isnan(to_float(value)) ? !std::isnan(to_float(back)) : back.bits != value.bits;
      }
    }
    CHECK(wrong == 0);
  };
  check.operator()<bf16>();
  check.operator()<fp16>();
}

TEST_CASE("stochastic rounding: the mean over all draws is the value") {
  for (const float x : {0.1f, -0.3f, 1.00390625f, 1.0000001f, -1.9999999f, 3.0e-5f, 6.1e-5f,
                        1234.567f, -65503.9f, 1e-3f}) {
    INFO(x);
    CHECK(mean_of_draws<bf16>(x) == static_cast<double>(x));
    CHECK(mean_of_draws<fp16>(x) == static_cast<double>(x));
  }
  for (const float x : {1e-38f, -1e-40f, 3e38f}) CHECK(mean_of_draws<bf16>(x) == double{x});
  // Multiples of 2^-24: a draw decides in steps of 2^-16 of that.
  for (const float x : {-7.0e-8f, 2.0e-8f, 1e-9f, 1e-11f, 1e-12f, -1e-20f, 0.f}) {
    INFO(x);
    const double mean = mean_of_draws<fp16>(x);
    CHECK(std::abs(mean) <= std::abs(double{x}));
    CHECK(std::abs(mean - double{x}) < std::ldexp(1.0, -40));
  }
}

TEST_CASE("stochastic rounding of values that are too large, infinite or NaN") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const uint32_t draw : {0u, 0x8000u, 0xffffu})
    for (const float sign : {1.f, -1.f}) {
      CHECK(to_float(round_stochastically<bf16>(sign * kInfinity, draw)) == sign * kInfinity);
      CHECK(to_float(round_stochastically<fp16>(sign * kInfinity, draw)) == sign * kInfinity);
      CHECK(std::isnan(to_float(round_stochastically<bf16>(sign * nan, draw))));
      CHECK(std::isnan(to_float(round_stochastically<fp16>(sign * nan, draw))));
      CHECK(to_float(round_stochastically<fp16>(sign * 65536, draw)) == sign * kInfinity);
      CHECK(to_float(round_stochastically<fp16>(sign * 65504, draw)) == sign * 65504);
    }
  // A signalling NaN whose low bits alone say so.
  CHECK(std::isnan(to_float(round_stochastically<bf16>(detail::float_of(0x7f800001u), 0))));
  // Half the way from the largest value to 2^16.
  int infinite = 0;
  for (uint32_t draw = 0; draw < 0x10000u; ++draw)
    infinite += std::isinf(to_float(round_stochastically<fp16>(65520, draw)));
  CHECK(infinite == 0x8000);
}

}  // namespace
}  // namespace hlite::test
