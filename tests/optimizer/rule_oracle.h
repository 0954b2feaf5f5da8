// The update rules in double precision, written from their definitions.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::test {

// Weights and states of an array, or of a table's rows; step() takes one gradient each, step_row()
// those of a row.
struct RuleOracle {
  using Type = config::OptimizerType;
  optimizer::UpdateRule rule;
  size_t width;
  std::vector<double> w, a, b;

  RuleOracle(const optimizer::UpdateRule& of, const std::vector<float>& weights,
             int64_t row_width = 1)
      : rule(of),
        width(static_cast<size_t>(row_width)),
        w(weights.begin(), weights.end()),
        a(rule.type == Type::kRowWiseAdaGrad ? weights.size() / width : weights.size(),
          rule.type == Type::kAdaGrad || rule.type == Type::kRowWiseAdaGrad
              ? rule.initial_accumulator
              : 0),
        b(rule.type == Type::kRowWiseAdam ? weights.size() / width : weights.size(), 0) {}

  void step_row(double lr, int64_t t, size_t row, std::span<const double> g) {
    const double square =
        std::inner_product(g.begin(), g.end(), g.begin(), 0.0) / static_cast<double>(width);
    if (rule.type == Type::kRowWiseAdaGrad) a[row] += square;
    if (rule.type == Type::kRowWiseAdam) b[row] = rule.beta2 * b[row] + (1 - rule.beta2) * square;
    for (size_t j = 0; j < width; ++j) {
      const size_t i = row * width + j;
      if (rule.type == Type::kRowWiseAdaGrad) {
        w[i] -= lr * g[j] / (std::sqrt(a[row]) + rule.epsilon);
      } else if (rule.type == Type::kRowWiseAdam) {  // FBGEMM's partial_rowwise_adam
        a[i] = rule.beta1 * a[i] + (1 - rule.beta1) * g[j];
        const auto power = static_cast<double>(t);
        const double unbias = std::sqrt(1 - std::pow(rule.beta2, power)),
                     m = a[i] / (1 - std::pow(rule.beta1, power));
        w[i] -= lr * m * unbias /
                (std::sqrt(b[row]) + rule.epsilon * (rule.corrected_epsilon ? unbias : 1));
      } else {
        step(lr, t, i, g[j]);
      }
    }
  }

  void step(double lr, int64_t t, size_t i, double g) {
    using config::OptimizerType;
    switch (rule.type) {
      case OptimizerType::kRowWiseAdaGrad:  // rows of one element
      case OptimizerType::kRowWiseAdam:
        step_row(lr, t, i, {&g, 1});
        break;
      case OptimizerType::kSgd:
        w[i] -= lr * (g + rule.weight_decay * w[i]);
        break;
      case OptimizerType::kMomentum:
        a[i] = rule.momentum * a[i] - lr * g;
        w[i] += a[i];
        break;
      case OptimizerType::kNesterov: {
        const double old = a[i];
        a[i] = rule.momentum * old - lr * g;
        w[i] += -rule.momentum * old + (1 + rule.momentum) * a[i];
        break;
      }
      case OptimizerType::kAdam: {
        const auto power = static_cast<double>(t);
        a[i] = rule.beta1 * a[i] + (1 - rule.beta1) * g;
        b[i] = rule.beta2 * b[i] + (1 - rule.beta2) * g * g;
        if (rule.corrected_epsilon) {  // m^ / (sqrt(v^) + eps), as Kingma and Ba write it
          const double m = a[i] / (1 - std::pow(rule.beta1, power)),
                       v = b[i] / (1 - std::pow(rule.beta2, power));
          w[i] -= lr * m / (std::sqrt(v) + rule.epsilon);
          break;
        }
        const double alpha =
            lr * std::sqrt(1 - std::pow(rule.beta2, power)) / (1 - std::pow(rule.beta1, power));
        w[i] -= alpha * a[i] / (std::sqrt(b[i]) + rule.epsilon);
        break;
      }
      case OptimizerType::kAdamW: {  // Loshchilov and Hutter 2019, Algorithm 2
        const auto power = static_cast<double>(t);
        const double before = w[i];
        a[i] = rule.beta1 * a[i] + (1 - rule.beta1) * g;
        b[i] = rule.beta2 * b[i] + (1 - rule.beta2) * g * g;
        const double m = a[i] / (1 - std::pow(rule.beta1, power)),
                     v = b[i] / (1 - std::pow(rule.beta2, power));
        w[i] = before - lr * (m / (std::sqrt(v) + rule.epsilon) + rule.weight_decay * before);
        break;
      }
      case OptimizerType::kAdaGrad:
        a[i] += g * g;
        w[i] -= lr * g / (std::sqrt(a[i]) + rule.epsilon);
        break;
      case OptimizerType::kFtrl: {  // McMahan et al. 2013, Algorithm 1
        const double sigma = (std::sqrt(a[i] + g * g) - std::sqrt(a[i])) / lr;
        b[i] += g - sigma * w[i];
        a[i] += g * g;
        const double sign = b[i] < 0 ? -1 : 1;
        w[i] = std::abs(b[i]) <= rule.lambda1
                   ? 0
                   : -(b[i] - sign * rule.lambda1) /
                         ((rule.beta + std::sqrt(a[i])) / lr + rule.lambda2);
        break;
      }
    }
  }
};

// One of each, with hyper-parameters that all matter.
inline std::array<optimizer::UpdateRule, 12> all_rules() {
  using config::OptimizerType;
  return {{{.type = OptimizerType::kSgd},
           {.type = OptimizerType::kMomentum, .momentum = 0.9},
           {.type = OptimizerType::kNesterov, .momentum = 0.8},
           {.type = OptimizerType::kAdam, .beta1 = 0.85, .beta2 = 0.99, .epsilon = 1e-4},
           {.type = OptimizerType::kAdam,
            .beta1 = 0.8,
            .beta2 = 0.98,
            .epsilon = 1e-3,
            .corrected_epsilon = true},
           {.type = OptimizerType::kAdaGrad, .epsilon = 1e-3, .initial_accumulator = 0.05},
           {.type = OptimizerType::kFtrl, .beta = 2, .lambda1 = 0.25, .lambda2 = 60},
           {.type = OptimizerType::kRowWiseAdaGrad, .epsilon = 1e-3, .initial_accumulator = 0.05},
           {.type = OptimizerType::kAdamW,
            .beta1 = 0.8,
            .beta2 = 0.98,
            .epsilon = 1e-3,
            .weight_decay = 0.3},
           {.type = OptimizerType::kSgd, .weight_decay = 0.3},
           {.type = OptimizerType::kRowWiseAdam, .beta1 = 0.85, .beta2 = 0.98, .epsilon = 1e-4},
           {.type = OptimizerType::kRowWiseAdam,
            .beta1 = 0.8,
            .beta2 = 0.99,
            .epsilon = 1e-3,
            .corrected_epsilon = true}}};
}

// The absolute tolerance of state1 where one of w is `absolute`. Ftrl's z takes gradients times
// w / lr, which is up to 60 in the tests of sparse updates, so an error of theirs as well, and then
// what it did to w. A lookup lost is off by 1 and more here, too.
inline double state1_tolerance(const optimizer::UpdateRule& rule, double absolute) {
  return rule.type == config::OptimizerType::kFtrl ? 1000 * absolute : absolute;
}

}  // namespace hlite::test
