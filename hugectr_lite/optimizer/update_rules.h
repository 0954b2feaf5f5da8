// The rule by which an optimizer changes one weight w with gradient g, used by dense and sparse
// updates on every backend. t is the step, from 1; lr its learning rate; mu the momentum factor.
//
//   SGD        w -= lr (g + weight_decay w)
//   Momentum   m = mu m - lr g                           w += m
//   Nesterov   a' = mu a - lr g                          w += -mu a + (1 + mu) a'
//   Adam       m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2,
//              alpha = lr sqrt(1 - b2^t) / (1 - b1^t)    w -= alpha m / (sqrt(v) + eps)
//              with corrected_epsilon (PyTorch's form) eps sqrt(1 - b2^t) in place of eps
//   AdamW      w -= lr weight_decay w, then Adam's step with corrected_epsilon
//   AdaGrad    v += g^2                                  w -= lr g / (sqrt(v) + eps)
//   RowWiseAdaGrad, of a table's row of V weights, which keeps one float v:
//              v += sum over the row of g^2 / V          w -= lr g / (sqrt(v) + eps)
//   RowWiseAdam, of such a row, is Adam with one float v:
//              v = b2 v + (1-b2) sum over the row of g^2 / V; the rest is Adam's.
//              With corrected_epsilon it is FBGEMM's PARTIAL_ROWWISE_ADAM, without weight decay
//   Ftrl       n' = n + g^2, z += g - (sqrt(n') - sqrt(n)) w / lr
//              w = |z| <= lambda1 ? 0 : (sign(z) lambda1 - z) / ((beta + sqrt(n')) / lr + lambda2)
//
// AdamW decouples the decay from the gradient (Loshchilov and Hutter 2019, "Decoupled Weight Decay
// Regularization", Algorithm 2, with lr as its schedule, as PyTorch has it). Weight decay belongs
// to a weight's step: with UpdateType::kLocal a row of a table decays in the steps whose batch
// names it, with kGlobal in every step.
//
// Ftrl is FTRL-Proximal (McMahan et al. 2013, "Ad Click Prediction: a View from the Trenches",
// Algorithm 1) as HugeCTR 25.03 has it: n and z start at 0, and w where the initializer puts it,
// but its first update, also with g = 0, makes it a function of n and z alone. lr is that of the
// step, so that a schedule rescales all weights it moves. With UpdateType::kGlobal rows of a full
// table that no key has named are 0 from the first step on; a hashed table gives such a row its
// initial values when its key comes.
#pragma once

#include <cmath>
#include <cstdint>

#include "hugectr_lite/config/optimizer_config.h"
#include "hugectr_lite/core/host_device.h"

namespace hlite::optimizer {

using config::OptimizerType;
using config::UpdateRule;
using config::UpdateType;

// A state that a rule keeps between steps: one float for each weight or, if `per_row`, for each row
// of a table. In the dense network every weight counts as a row.
struct StateOf {
  const char* name = nullptr;  // `<tensor>.<name>` in checkpoints; null: no state
  bool per_row = false;
};

// The states of a rule: state0, state1. At most one of them is per row.
struct StatesOf {
  StateOf list[2];
};
HLITE_HD constexpr StatesOf states_of(OptimizerType type) {
  switch (type) {
    case OptimizerType::kSgd:
      return {};
    case OptimizerType::kMomentum:
    case OptimizerType::kNesterov:
      return {{{"momentum"}}};
    case OptimizerType::kAdaGrad:
      return {{{"accumulator"}}};
    case OptimizerType::kRowWiseAdaGrad:
      return {{{"accumulator", true}}};
    case OptimizerType::kAdam:
    case OptimizerType::kAdamW:
      return {{{"m"}, {"v"}}};
    case OptimizerType::kRowWiseAdam:
      return {{{"m"}, {"v", true}}};
    case OptimizerType::kFtrl:
      return {{{"n"}, {"z"}}};
  }
  return {};
}
HLITE_HD constexpr int state_count(OptimizerType type) {
  const StatesOf states = states_of(type);
  return (states.list[0].name ? 1 : 0) + (states.list[1].name ? 1 : 0);
}
// Name of state `index` < state_count(type).
constexpr const char* state_name(OptimizerType type, int index) {
  return states_of(type).list[index].name;
}
// Returns true if state `index` exists and has an element for each weight.
HLITE_HD constexpr bool is_per_weight(OptimizerType type, int index) {
  return index < state_count(type) && !states_of(type).list[index].per_row;
}
// Returns true if a state is per row. The mean of g^2 over the row moves it (update_row_state)
// before the row's weights and their states move (update_weight).
HLITE_HD constexpr bool is_row_wise(OptimizerType type) {
  return states_of(type).list[0].per_row || states_of(type).list[1].per_row;
}
// Floats of state `index` < state_count(type) that a table keeps for a row of `width` weights.
HLITE_HD constexpr int64_t state_width(OptimizerType type, int index, int64_t width) {
  return is_per_weight(type, index) ? width : 1;
}

HLITE_HD constexpr bool is_adam(OptimizerType type) {
  return type == OptimizerType::kAdam || type == OptimizerType::kAdamW ||
         type == OptimizerType::kRowWiseAdam;
}
HLITE_HD constexpr bool is_ada_grad(OptimizerType type) {
  return type == OptimizerType::kAdaGrad || type == OptimizerType::kRowWiseAdaGrad;
}

// Returns the value that every element of a state array holds before the first step.
constexpr float initial_state(const UpdateRule& rule) {
  return is_ada_grad(rule.type) ? static_cast<float>(rule.initial_accumulator) : 0.f;
}

// Returns true if a row with gradient 0 moves under some hyper-parameters of the type.
constexpr bool may_move_without_gradient(OptimizerType type) { return !is_ada_grad(type); }

// Returns true if a row with gradient 0 moves, so that UpdateType::kGlobal differs from kLocal.
constexpr bool moves_without_gradient(const UpdateRule& rule) {
  return rule.type == OptimizerType::kSgd ? rule.weight_decay > 0
                                          : may_move_without_gradient(rule.type);
}

// The scalars of one step, computed once for all elements.
struct StepScalars {
  float rate;  // lr, Adam's alpha, or Ftrl's 1 / lr
  float momentum;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float epsilon;
  float lambda1, ridge;  // Ftrl; ridge = beta / lr + lambda2
  float decay;           // SGD's weight decay, or AdamW's times lr
};

HLITE_HD inline StepScalars step_scalars(const UpdateRule& rule, float lr, int64_t step) {
  double rate = static_cast<double>(lr), ridge = 0, epsilon = rule.epsilon;
  double decay = rule.weight_decay;
  if (is_adam(rule.type)) {
    decay *= rate;
    const auto t = static_cast<double>(step);
    const double correction = sqrt(1 - pow(rule.beta2, t));
    rate *= correction / (1 - pow(rule.beta1, t));
    if (rule.corrected_epsilon || rule.type == OptimizerType::kAdamW) epsilon *= correction;
  } else if (rule.type == OptimizerType::kFtrl) {
    rate = 1 / rate;
    ridge = rule.beta * rate + rule.lambda2;
  }
  return {static_cast<float>(rate),       static_cast<float>(rule.momentum),
          static_cast<float>(rule.beta1), static_cast<float>(1 - rule.beta1),
          static_cast<float>(rule.beta2), static_cast<float>(1 - rule.beta2),
          static_cast<float>(epsilon),    static_cast<float>(rule.lambda1),
          static_cast<float>(ridge),      static_cast<float>(decay)};
}

// The first half of a step of AdaGrad and Adam rules: updates `state` by `square`, the mean of g^2
// over the row. The mean of a wide row may come as several terms, one a call; `first` marks the
// first.
template <OptimizerType type>
HLITE_HD inline void update_row_state([[maybe_unused]] const StepScalars& s, float square,
                                      [[maybe_unused]] bool first, float& state) {
  static_assert(is_ada_grad(type) || is_adam(type));
  if constexpr (is_ada_grad(type))
    state += square;
  else
    state = (first ? s.beta2 * state : state) + s.one_minus_beta2 * square;
}
// The second half: updates a weight and its other states.
template <OptimizerType type>
HLITE_HD inline void update_weight(const StepScalars& s, float g, float& w, float& state0,
                                   [[maybe_unused]] float& state1) {
  static_assert(is_ada_grad(type) || is_adam(type));
  if constexpr (is_ada_grad(type)) {
    w -= s.rate * g / (sqrtf(state0) + s.epsilon);
  } else {
    if constexpr (type == OptimizerType::kAdamW) w -= s.decay * w;
    state0 = s.beta1 * state0 + s.one_minus_beta1 * g;
    w -= s.rate * state0 / (sqrtf(state1) + s.epsilon);
  }
}

// One element. State references beyond state_count(type) are not touched.
template <OptimizerType type>
HLITE_HD inline void update_element(const StepScalars& s, float g, float& w, float& state0,
                                    [[maybe_unused]] float& state1) {
  if constexpr (type == OptimizerType::kSgd) {
    w -= s.rate * (g + s.decay * w);
  } else if constexpr (type == OptimizerType::kMomentum) {
    state0 = s.momentum * state0 - s.rate * g;
    w += state0;
  } else if constexpr (type == OptimizerType::kNesterov) {
    const float before = state0;
    state0 = s.momentum * before - s.rate * g;
    w += (1 + s.momentum) * state0 - s.momentum * before;
  } else if constexpr (is_adam(type) || is_ada_grad(type)) {
    update_row_state<type>(s, g * g, true, is_adam(type) ? state1 : state0);
    update_weight<type>(s, g, w, state0, state1);
  } else {
    static_assert(type == OptimizerType::kFtrl);
    const float root_before = sqrtf(state0);
    state0 += g * g;
    const float root = sqrtf(state0), roots = root + root_before;
    // g^2 / roots is root - root_before without its loss of digits. Divisors are 0 with g^2 only.
    state1 += g - g * g / (roots == 0 ? 1 : roots) * (w * s.rate);
    const float top = fabsf(state1) <= s.lambda1 ? 0 : copysignf(s.lambda1, state1) - state1;
    const float bottom = root * s.rate + s.ridge;
    w = top / (bottom == 0 ? 1 : bottom);
  }
}

// Calls body.template operator()<type>() with the type as a compile-time constant.
template <typename Body>
decltype(auto) with_rule_type(OptimizerType type, Body&& body) {
  switch (type) {
    case OptimizerType::kSgd:
      return body.template operator()<OptimizerType::kSgd>();
    case OptimizerType::kMomentum:
      return body.template operator()<OptimizerType::kMomentum>();
    case OptimizerType::kNesterov:
      return body.template operator()<OptimizerType::kNesterov>();
    case OptimizerType::kAdam:
      return body.template operator()<OptimizerType::kAdam>();
    case OptimizerType::kAdamW:
      return body.template operator()<OptimizerType::kAdamW>();
    case OptimizerType::kAdaGrad:
      return body.template operator()<OptimizerType::kAdaGrad>();
    case OptimizerType::kRowWiseAdaGrad:
      return body.template operator()<OptimizerType::kRowWiseAdaGrad>();
    case OptimizerType::kRowWiseAdam:
      return body.template operator()<OptimizerType::kRowWiseAdam>();
    case OptimizerType::kFtrl:
      break;
  }
  return body.template operator()<OptimizerType::kFtrl>();
}

}  // namespace hlite::optimizer
