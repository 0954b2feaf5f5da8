#include "hugectr_lite/ops/cast.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {

TEMPLATE_TEST_CASE("casts round to the nearest value, and widen exactly", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  for_each_size<T>([](const OpDevice& on, int64_t n, int64_t offset) {
    auto x = random_values(n, 1);
    // Subnormal, large, halfway, and NaN.
    const float special[] = {3e-8f, 7e4f, -1.00390625f, 2049.0f, NAN, -INFINITY, -0.0f};
    for (size_t i = 0; i < x.size() && i < std::size(special); ++i) x[i] = special[i];
    const auto want = as<T>(x);
    const DeviceTensor<float> from(on, x, offset), wide(on, nans(n), offset);
    const DeviceTensor<T> narrow(on, nans(n), offset);
    ops::cast_from_float<T>(on.exec(), from, narrow);
    CHECK(same_values(narrow.host(), want));
    ops::cast_to_float<T>(on.exec(), narrow, wide);
    CHECK(same_values(wide.host(), want));
  });
}

TEMPLATE_TEST_CASE("affine_to_float rounds offset + scale x once", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  const ops::Affine f{.offset = 1e6f / 3, .scale = 123.456f};
  for_each_size<T>([&](const OpDevice& on, int64_t n, int64_t offset) {
    auto x = as<T>(random_values(n, 1));
    if (n > 2) x[0] = NAN, x[1] = -INFINITY;
    std::vector<float> want;
    for (const float value : x)  // a product of two floats is exact in double
      want.push_back(static_cast<float>(static_cast<double>(f.scale) * static_cast<double>(value) +
                                        static_cast<double>(f.offset)));
    const DeviceTensor<T> from(on, x, offset);
    const DeviceTensor<float> to(on, nans(n), offset);
    ops::affine_to_float<T>(on.exec(), f, from, to);
    CHECK(same_values(to.host(), want));
  });
}

TEMPLATE_TEST_CASE("cast_padded casts columns and fills up with zeros", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  struct Shape {
    int64_t rows, width, columns;
  };
  const auto devices = op_devices<T>();
  for (const Shape& s : {Shape{0, 13, 16},
                         {1, 1, 1},
                         {1, 1, 8},
                         {3, 0, 8},
                         {31, 13, 16},
                         {257, 13, 16},
                         {300, 7, 8},
                         {31, 8, 8},
                         {19, 9, 11},
                         {1031, 17, 24},
                         {4099, 13, 16},
                         {4099, 1, 1},
                         {4099, 0, 8}}) {
    auto x = random_values(s.rows * s.width, 3);
    if (x.size() > 2) x[0] = NAN, x[1] = -0.0f, x[2] = 7e4f;
    std::vector<float> want;
    for (int64_t row = 0; row < s.rows; ++row)
      for (int64_t i = 0; i < s.columns; ++i)
        want.push_back(i < s.width ? x[static_cast<size_t>(row * s.width + i)] : 0.0f);
    for (const OpDevice& on : devices) {
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", " << s.rows << " x " << s.width << " to " << s.columns << ", offset "
                       << offset);
        const DeviceTensor<float> from(on, x, offset);
        const DeviceTensor<T> to(on, nans(s.rows * s.columns), offset);
        ops::cast_padded<T>(on.exec(), from.view(s.rows, s.width), to.view(s.rows, s.columns));
        CHECK(same_values(to.host(), as<T>(want)));
      }
    }
  }
}

TEST_CASE("casts refuse sizes that do not fit; fp16 needs a GPU") {
  const OpDevice on(1);
  const DeviceTensor<float> four(on, nans(4)), five(on, nans(5)), six(on, nans(6));
  const DeviceTensor<bf16> more(on, nans(4));
  CHECK_THROWS_AS(ops::cast_from_float<float>(on.exec(), four, five), Error);
  CHECK_THROWS_AS(ops::cast_to_float<float>(on.exec(), four, five), Error);
  CHECK_THROWS_AS(ops::cast_from_float<bf16>(on.exec(), five, more), Error);
  CHECK_THROWS_AS(ops::affine_to_float<bf16>(on.exec(), {}, more, five), Error);
  CHECK_THROWS_AS(ops::cast_padded<float>(on.exec(), six.view(2, 3), four.view(2, 2)), Error);
  const DeviceTensor<fp16> gpu_half(on, nans(4));
  CHECK_THROWS_AS(ops::cast_from_float<fp16>(on.exec(), four, gpu_half), Error);
  CHECK_THROWS_AS(ops::affine_to_float<fp16>(on.exec(), {}, gpu_half, four), Error);
  CHECK_THROWS_AS(ops::cast_padded<fp16>(on.exec(), four.view(2, 2), gpu_half.view(2, 2)), Error);
}

}  // namespace hlite::test
