#include "hugectr_lite/config/regularizer_config.h"

namespace hlite::config {

void declare(Block& s, RegularizerConfig& regularizer, const char* meaning) {
  s.choice("regularizer", &regularizer.type, {{"L1", Regularizer::kL1}, {"L2", Regularizer::kL2}},
           meaning);
  s.number("lambda", &regularizer.lambda, {.min = 0}, "Weight of the penalty; needs `regularizer`.",
           otherwise("none"));
  if (s.has("regularizer")) s.missing("lambda");
  if (s.has("lambda") && !s.has("regularizer"))
    s.refuse("lambda", "expected a `regularizer` (L1 or L2) with it, found none");
}

}  // namespace hlite::config
