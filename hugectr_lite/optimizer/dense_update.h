// One optimizer step over a dense parameter array.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/gradient_scale.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::optimizer {

// Arrays of one size n that do not overlap; states that the rule does not keep may be empty.
struct DenseArrays {
  Vector<float> w;
  Vector<const float> g;
  Vector<float> state0 = {}, state1 = {};
};

// Applies `rule` to every element. lr and step, which counts from 1, are in memory of the op's
// device and read when it runs.
// The bits do not depend on the number of threads.
//
// `mirror` takes the new weights rounded to T, bf16 or fp16: the copy that matrix products of mixed
// precision read; fp16 on a GPU only. Empty: none. A skipped step leaves it alone, too.
template <typename T = float>
void dense_update(const Exec& exec, const UpdateRule& rule, const float* lr, const int64_t* step,
                  const DenseArrays& x, const GradientScale& scale = {},
                  VectorOf<T> mirror /*[n] or empty*/ = {});

namespace kernels {
template <typename T>
inline const KernelOf<decltype(optimizer::dense_update<T>)> dense_update{"dense_update"};
}  // namespace kernels

}  // namespace hlite::optimizer
