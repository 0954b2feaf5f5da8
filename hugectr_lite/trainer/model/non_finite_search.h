// The search for the place where a model's numbers stopped being finite.
#pragma once

#include <cstdint>
#include <string>

#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// The place where numbers first stopped being finite in the batch that has just run.
struct NonFinite {
  std::string tensor, layer;
  int64_t sample = 0;  // within the batch
};
// Looks at the batch's inputs, then at every activation in order; tensor empty when all are finite.
// Waits for a GPU, as the other does.
NonFinite find_non_finite(const Model& model, int64_t batch);

// The first weight or bias, as products read it, that is not finite; name empty when all are.
// Whatever is not finite among a step's weights, features or embedding vectors makes weights so
// that stay so, be it that a fused ReLU turns NaN into 0 on the way to the loss.
struct NonFiniteWeight {
  std::string tensor;
  int64_t element = 0;
  float value = 0;
};
NonFiniteWeight find_non_finite_weight(const Model& model);

}  // namespace hlite::trainer
