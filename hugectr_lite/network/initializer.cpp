#include "hugectr_lite/network/initializer.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/random.h"

namespace hlite::network {
namespace {
// Standard deviation of a unit normal truncated at two sigma.
constexpr double kTruncatedSigma = 0.87962566103423978;
}  // namespace

const std::vector<std::pair<std::string, InitializerType>>& named_initializers() {
  static const std::vector<std::pair<std::string, InitializerType>> all = {
      {"Normal", InitializerType::kNormal},
      {"Uniform", InitializerType::kUniform},
      {"XavierNorm", InitializerType::kXavierNorm},
      {"XavierUniform", InitializerType::kXavierUniform},
      {"Zero", InitializerType::kZero}};
  return all;
}

void initialize(const Initializer& initializer, uint64_t seed, const std::string& name,
                std::span<float> out) {
  const auto n = static_cast<int64_t>(out.size());
  const uint64_t stream = random::stream_of(name);
  const auto in = static_cast<double>(initializer.fan_in);
  const auto fan_out = static_cast<double>(initializer.fan_out);
  const double fan_avg = (in + fan_out) / 2;
  const auto normal = [&](double sigma) {
    random::fill_truncated_normal(out.data(), n, seed, stream, 0, static_cast<float>(sigma));
  };
  const auto uniform = [&](double limit) {
    const auto l = static_cast<float>(limit);
    random::fill_uniform(out.data(), n, seed, stream, 0, -l, l);
  };
  switch (initializer.type) {
    case InitializerType::kDefaultWeight:
    case InitializerType::kXavierNorm:
      return normal(std::sqrt(1 / fan_avg) / kTruncatedSigma);
    case InitializerType::kDefaultBias:
      return normal(std::sqrt(1 / fan_out));
    case InitializerType::kNormal:
      random::fill_normal(out.data(), n, seed, stream, 0,
                          static_cast<float>(std::sqrt(1 / fan_avg)));
      return;
    case InitializerType::kXavierUniform:
      return uniform(std::sqrt(3 / fan_avg));
    case InitializerType::kUniform:
      return uniform(1 / (in + fan_out));
    case InitializerType::kFanInUniform:
      return uniform(std::sqrt(1 / in));
    case InitializerType::kZero:
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    case InitializerType::kOne:
      std::fill(out.begin(), out.end(), 1.0f);
      return;
    case InitializerType::kConstant:
      std::fill(out.begin(), out.end(), initializer.constant);
      return;
  }
}

}  // namespace hlite::network
