// Kernels of Dice (column_term_kernels.cuh).
#include "hugectr_lite/ops/dice.h"

#include "hugectr_lite/ops/column_term_kernels.cuh"

namespace hlite::ops::gpu {

HLITE_KERNELS(dice) {
  add_columns<dice::DiceAlphaGradient>(list);
  for_each_float([&]<typename T>() {
    add_elements<dice::DiceForward<T>>(list);
    add_sums<dice::DiceGradientTerms<T>>(list);
    add_sums<dice::DiceAlphaTerms<T>>(list);
    add_elements<dice::DiceBackward<T>>(list);
  });
}

}  // namespace hlite::ops::gpu
