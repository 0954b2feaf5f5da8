// Conversions and copies on every CUDA backend.
#include "hugectr_lite/ops/cast.h"

#include "hugectr_lite/ops/copy.h"
#include "tests/cuda/typed_values.h"

namespace hlite::test {
namespace {

TEMPLATE_TEST_CASE("the casting kernels round to the nearest value, and widen exactly", "", float,
                   bf16, fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    for (const int64_t n : kKernelSizes) {
      for (const int64_t offset : {0, 1}) {
        INFO(backend.name << ", n " << n << ", offset " << offset);
        std::vector<float> x(static_cast<size_t>(n));
        fill_random(x, 1);
        // Subnormal, large, halfway, and no number at all.
        const float special[] = {3e-8f, 7e4f, -1.00390625f, 2049.0f, NAN, -INFINITY, -0.0f};
        for (size_t i = 0; i < x.size() && i < std::size(special); ++i) x[i] = special[i];
        const DeviceValues<float> from(on, x, offset), wide(on, x.size(), offset);
        const DeviceValues<T> narrow(on, x.size(), offset), copied(on, x.size(), offset);
        const auto want = widened(rounded<T>(x));
        ops::cast_from_float<T>(on.exec(), {from.data(), n}, {narrow.data(), n});
        CHECK(same_values(narrow.host(), want));
        ops::cast_to_float<T>(on.exec(), {narrow.data(), n}, {wide.data(), n});
        CHECK(same_values(wide.host(), want));
        ops::copy<T>(on.exec(), {narrow.data(), n}, {copied.data(), n});
        CHECK(same_values(copied.host(), want));
      }
    }
  }
}

TEMPLATE_TEST_CASE("the padding kernel casts columns and fills up with zeros", "", float, bf16,
                   fp16) {
  using T = TestType;
  struct Shape {
    int64_t rows, width, columns;
  };
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    for (const Shape& s : {Shape{0, 13, 16},
                           {1, 1, 8},
                           {3, 0, 8},
                           {257, 13, 16},
                           {300, 7, 8},
                           {31, 8, 8},
                           {19, 9, 11},
                           {1031, 17, 24}}) {
      for (const int64_t offset : {0, 1}) {
        INFO(backend.name << ", " << s.rows << " x " << s.width << " to " << s.columns
                          << ", offset " << offset);
        auto x = values_of<float>(s.rows * s.width, 3);
        if (x.size() > 2) x[0] = NAN, x[1] = -0.0f, x[2] = 7e4f;
        std::vector<float> want;
        for (int64_t row = 0; row < s.rows; ++row)
          for (int64_t i = 0; i < s.columns; ++i)
            want.push_back(i < s.width ? x[static_cast<size_t>(row * s.width + i)] : 0.0f);
        const DeviceValues<float> from(on, x, offset);
        const DeviceValues<T> to(on, want.size(), offset);
        ops::cast_padded<T>(on.exec(), {from.data(), s.rows, s.width},
                            {to.data(), s.rows, s.columns});
        CHECK(same_values(to.host(), widened(rounded<T>(want))));
      }
    }
  }
}

}  // namespace
}  // namespace hlite::test
