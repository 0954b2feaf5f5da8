// Initial values of dense parameters. Formulas of the dialect:
//   default weight  normal, sigma = sqrt(1 / fan_avg) / 0.87963, truncated at two sigma; 0.87963 is
//                   the standard deviation a unit normal is left with after that cut
//   default bias    normal, sigma = sqrt(1 / out), truncated at two sigma
//   Normal (ours)   sigma = sqrt(1 / fan_avg), whole: PyTorch's xavier_normal_
//   fan in (MLP)    +-1 / sqrt(in), of its biases too: PyTorch's of a linear layer
//   XavierNorm      as the default weight; XavierUniform: +-sqrt(3 / fan_avg)
//   Uniform         +-1 / (in + out); Zero; ones where a layer scales; a constant of the layer's
// with fan_avg = (in + out) / 2; for a bias, in counts as 0 unless said.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hlite::network {

enum class InitializerType {
  kDefaultWeight,
  kDefaultBias,
  kNormal,
  kXavierNorm,
  kXavierUniform,
  kUniform,
  kFanInUniform,
  kZero,
  kOne,
  kConstant
};

struct Initializer {
  InitializerType type = InitializerType::kZero;
  int64_t fan_in = 0;
  int64_t fan_out = 0;
  float constant = 0;  // of kConstant
};

// Those that a config may name: Normal, Uniform, XavierNorm, XavierUniform, Zero.
const std::vector<std::pair<std::string, InitializerType>>& named_initializers();

// Element i of the tensor `name` depends on (seed, name, i) alone.
void initialize(const Initializer& initializer, uint64_t seed, const std::string& name,
                std::span<float> out);

}  // namespace hlite::network
