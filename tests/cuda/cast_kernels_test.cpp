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

}  // namespace
}  // namespace hlite::test
