// A kernel for the test of core/pack.cuh.
#pragma once

#include "hugectr_lite/core/launch.cuh"

namespace hlite::test {

// visits[i] += the size of the pack in which element i came.
template <int kCount>
void visit_packs(int64_t n, int blocks, int* visits);

}  // namespace hlite::test
