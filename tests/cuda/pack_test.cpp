#include <vector>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/pack.cuh"
#include "tests/cuda/pack_kernels.cuh"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

template <int kCount>
void check() {
  for (const int64_t n : {0, 1, 3, 4, 5, 8, 9, 1023, 1024, 1025, 10007}) {
    for (const int blocks : {1, 3, 1000}) {
      std::vector<int> visits(static_cast<size_t>(n) + 1), want;
      visit_packs<kCount>(n, blocks, visits.data());
      for (int64_t i = 0; i < n; ++i) want.push_back(i < n / kCount * kCount ? kCount : 1);
      want.push_back(0);
      INFO("packs of " << kCount << ", n " << n << ", " << blocks << " blocks");
      CHECK((visits == want));
    }
  }
}

TEST_CASE("for_each_pack takes every element once, in packs as far as they go") {
  check<1>();
  check<4>();
  check<8>();
}

TEST_CASE("packs take 16 bytes of the widest type, and start at multiples of their size") {
  STATIC_REQUIRE(kPackCount<float> == 4);
  STATIC_REQUIRE(kPackCount<bf16> == 8);
  STATIC_REQUIRE(kPackCount<fp16, float> == 4);
  alignas(16) const float values[8] = {};
  CHECK(starts_pack<4>(values));
  CHECK(starts_pack<4>(values + 4));
  CHECK_FALSE(starts_pack<4>(values + 2));
  CHECK(starts_pack<1>(values + 1));
  CHECK(starts_pack<4, float>(nullptr));
}

}  // namespace
}  // namespace hlite::test
