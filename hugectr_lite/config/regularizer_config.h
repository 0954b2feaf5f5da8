// A penalty on weights, as a block of the config has it: the keys `regularizer` and `lambda`.
#pragma once

#include "hugectr_lite/config/block.h"

namespace hlite::config {

enum class Regularizer { kNone, kL1, kL2 };

//   L1   lambda sum |w|        L2   lambda/2 sum w^2
struct RegularizerConfig {
  Regularizer type = Regularizer::kNone;
  double lambda = 0;
  [[nodiscard]] bool any() const { return type != Regularizer::kNone; }
};

// Both keys, or neither. `meaning`: of `regularizer`.
void declare(Block& s, RegularizerConfig& regularizer, const char* meaning);

}  // namespace hlite::config
