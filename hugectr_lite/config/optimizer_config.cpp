// The `optimizer` block: {type, update_type or global_update, <type>_hparam}.
#include "hugectr_lite/config/optimizer_config.h"

#include <algorithm>

#include "hugectr_lite/config/block.h"

namespace hlite::config {
namespace {

struct TypeName {
  const char* name;
  const char* hparam;
  OptimizerType type;
};
constexpr TypeName kTypes[] = {
    {"SGD", "sgd_hparam", OptimizerType::kSgd},
    {"MomentumSGD", "momentum_sgd_hparam", OptimizerType::kMomentum},
    {"Nesterov", "nesterov_hparam", OptimizerType::kNesterov},
    {"Adam", "adam_hparam", OptimizerType::kAdam},
    {"AdamW", "adamw_hparam", OptimizerType::kAdamW},
    {"AdaGrad", "adagrad_hparam", OptimizerType::kAdaGrad},
    {"RowWiseAdaGrad", "row_wise_adagrad_hparam", OptimizerType::kRowWiseAdaGrad},
    {"RowWiseAdam", "row_wise_adam_hparam", OptimizerType::kRowWiseAdam},
    {"Ftrl", "ftrl_hparam", OptimizerType::kFtrl},
};

void declare_schedule(Block& s, OptimizerType type, LrSchedule& schedule) {
  const bool ftrl = type == OptimizerType::kFtrl;  // which divides by the rate of a step
  const bool adam = type == OptimizerType::kAdam;
  const NumberRange rate{.min = 0, .without_min = ftrl};
  s.number("learning_rate", &schedule.base, rate,
           "Base learning rate, after warm-up and before decay.",
           {.required = !(adam && s.has("alpha"))});
  if (adam) {
    s.number("alpha", &schedule.base, rate, "The name of `learning_rate` up to HugeCTR 2.2.",
             otherwise("none"));
    if (s.has("alpha") && s.has("learning_rate"))
      s.refuse("alpha", "expected learning_rate or alpha, found both");
  }
  s.integer("warmup_steps", &schedule.warmup_steps, {.min = 1},
            "Iterations in which the rate grows linearly from 0 to the base rate.");
  s.integer("decay_start", &schedule.decay_start, {.min = 0},
            "Last iteration with the base rate, after which the rate decays; 0 means that it never "
            "does. Needs `decay_steps`.");
  s.choice("decay", &schedule.decay,
           {{"polynomial", LrDecay::kPolynomial},
            {"cosine", LrDecay::kCosine},
            {"exponential", LrDecay::kExponential}},
           "Extension: how the rate decays. `polynomial` and `cosine` reach `end_lr` after "
           "`decay_steps` iterations. `exponential` multiplies the rate by `decay_rate` in each "
           "`decay_steps` iterations, without end. The formulas are in "
           "`hugectr_lite/optimizer/lr_schedule.h`.");
  s.integer("decay_steps", &schedule.decay_steps, {.min = 1},
            "Iterations that the decay takes; of an exponential one, those in which the rate is "
            "multiplied by `decay_rate`.");
  s.number("decay_power", &schedule.decay_power, {.min = 1},
           "Exponent of polynomial decay: the rate is the base rate times (share of the decay that "
           "is left)^power.");
  s.number("decay_rate", &schedule.decay_rate, {.min = 0, .max = 1, .without_min = true},
           "Extension: factor of exponential decay, which needs it.", otherwise("none"));
  s.number("end_lr", &schedule.end, {.min = 0, .without_min = ftrl && schedule.decay_start > 0},
           "Lower bound of the rate while it decays, and the rate after that. Ftrl needs a value "
           "above 0 if the rate decays.",
           otherwise("`0`"));
  if (ftrl && schedule.decay_start > 0) s.missing("end_lr");
}

// A decay with half of its keys would set the rate to 0 in one step, or never start.
void check_decay(Block& s, const LrSchedule& schedule) {
  if (schedule.decay_start > 0 && !s.has("decay_steps"))
    s.refuse("decay_start", "decay_steps, the length of the decay, is required with decay_start");
  for (const char* key : {"decay", "decay_steps", "decay_power", "decay_rate", "end_lr"})
    if (s.has(key) && !s.has("decay_start")) s.refuse(key, "decay_start is required with it");
  const bool exponential = schedule.decay == LrDecay::kExponential;
  if (schedule.decay != LrDecay::kPolynomial && s.has("decay_power"))
    s.refuse("decay_power", "decay \"polynomial\" is required with decay_power");
  if (!exponential && s.has("decay_rate"))
    s.refuse("decay_rate", "decay \"exponential\" is required with decay_rate");
  if (exponential && !s.has("decay_rate"))
    s.refuse("decay", "decay_rate, the factor of the decay, is required with it");
  if (schedule.decay_start > 0 && schedule.base > 0 && schedule.end > schedule.base)
    s.expected("end_lr", fmt::format("at most learning_rate ({})", schedule.base));
}

void declare_weight_decay(Block& s, UpdateRule& rule) {
  s.number("weight_decay", &rule.weight_decay, {.min = 0},
           "Extension: share of a weight, biases included, that a step takes from it, times the "
           "rate, as in PyTorch. Rows of tables decay with `update_type` `Global` in every step, "
           "with `Local` in the steps whose batch has them.");
}

void declare_rule(Block& s, OptimizerConfig& optimizer) {
  constexpr NumberRange kPositive{.min = 0, .without_min = true};
  // A rate of 1 would divide by zero in the bias correction.
  constexpr NumberRange kDecayRate{.min = 0, .max = 1, .without_max = true};
  UpdateRule& rule = optimizer.rule;
  switch (rule.type) {
    case OptimizerType::kSgd:
      s.boolean("atomic_update", &optimizer.atomic_update,
                "Updates tables on a GPU with atomic additions: faster, and not reproducible.");
      declare_weight_decay(s, rule);
      if (rule.weight_decay > 0 && optimizer.atomic_update)
        s.refuse("weight_decay",
                 "weight_decay cannot be combined with atomic_update, which adds gradients without "
                 "reading the weights");
      break;
    case OptimizerType::kMomentum:
    case OptimizerType::kNesterov:
      s.number("momentum_factor", &rule.momentum, {.min = 0, .max = 1},
               "Share of the last update that is added to the next.", kRequired);
      break;
    case OptimizerType::kAdam:
    case OptimizerType::kAdamW:
    case OptimizerType::kRowWiseAdam:
      s.number("beta1", &rule.beta1, kDecayRate,
               "Exponential decay rate of the first moment, the mean of gradients.");
      s.number("beta2", &rule.beta2, kDecayRate,
               "Exponential decay rate of the second moment, the mean of squared gradients.");
      s.number("epsilon", &rule.epsilon, kPositive, "Added to the denominator.");
      if (rule.type == OptimizerType::kAdamW) {
        rule.weight_decay = 0.01;
        declare_weight_decay(s, rule);
        break;
      }
      s.boolean("corrected_epsilon", &rule.corrected_epsilon,
                "Extension: adds epsilon after the bias correction, as PyTorch does.");
      break;
    case OptimizerType::kAdaGrad:
    case OptimizerType::kRowWiseAdaGrad:
      s.number("epsilon", &rule.epsilon, kPositive, "Added to the denominator.");
      s.number("initial_accumulator", &rule.initial_accumulator, {.min = 0},
               "Initial value of the sum of squared gradients.");
      s.number("initial_accu_value", &rule.initial_accumulator, {.min = 0},
               "The name of `initial_accumulator` in later versions.", otherwise("none"));
      if (s.has("initial_accu_value") && s.has("initial_accumulator"))
        s.refuse("initial_accu_value",
                 "expected initial_accumulator or initial_accu_value, found both");
      break;
    case OptimizerType::kFtrl:
      s.number("beta", &rule.beta, {.min = 0},
               "Added to the square root of the sum of squared gradients.", kRequired);
      s.number("lambda1", &rule.lambda1, {.min = 0}, "Weight of the L1 penalty.", kRequired);
      s.number("lambda2", &rule.lambda2, {.min = 0}, "Weight of the L2 penalty.", kRequired);
      break;
  }
}

}  // namespace

const char* type_name(OptimizerType type) {
  return std::find_if(std::begin(kTypes), std::end(kTypes),
                      [=](const TypeName& of) { return of.type == type; })
      ->name;
}

void declare(Block& s, OptimizerConfig& optimizer) {
  s.about(
      "At the top level it is the optimizer of the network, and of embeddings that have none of "
      "their own. An embedding layer may have one for its tables (an extension). The formulas "
      "are in `hugectr_lite/optimizer/update_rules.h`.");
  Choices<const TypeName*> types;
  for (const TypeName& type : kTypes) types.emplace_back(type.name, &type);
  const TypeName* chosen = nullptr;
  s.choice("type", &chosen, types,
           "The optimizer. Its hyper-parameters are in the object named after it. `RowWiseAdaGrad` "
           "(an extension) keeps one float for each row of a table: the sum of the mean squares of "
           "its gradients. `RowWiseAdam` (an extension) is Adam with one second moment for each "
           "row: of the mean square of its gradient. The weights of the network, which have no "
           "rows, they update as `AdaGrad` and `Adam` do. `AdamW` (an extension) is Adam with "
           "decoupled weight decay.",
           kRequired);
  s.choice("update_type", &optimizer.update_type,
           {{"Local", UpdateType::kLocal},
            {"Global", UpdateType::kGlobal},
            {"LazyGlobal", UpdateType::kLazyGlobal}},
           "The rows of a table that an iteration updates: those of the batch (`Local`) or all "
           "(`Global`). Embeddings refuse `LazyGlobal`.");
  bool global = false;
  s.boolean("global_update", &global, "The older name: `true` is `Global`.");
  if (s.has("global_update") && s.has("update_type"))
    s.refuse("global_update", "expected update_type or global_update, found both");
  if (global) optimizer.update_type = UpdateType::kGlobal;
  bool of_another = false;  // which is refused, so that a missing one is no news
  for (const TypeName& type : kTypes) of_another |= chosen != &type && s.has(type.hparam);
  for (const TypeName& type : kTypes) {
    if (chosen && chosen != &type && s.has(type.hparam))
      s.refuse(type.hparam, fmt::format("expected only {} with type \"{}\", found {}",
                                        chosen->hparam, chosen->name, type.hparam));
    if (s.node() && chosen != &type) {
      s.accept(type.hparam, "");
      continue;
    }
    auto hparam = s.object(type.hparam, "Its hyper-parameters.",
                           {.required = !of_another, .variant = type.name});
    if (!hparam) continue;
    optimizer.rule.type = type.type;
    declare_schedule(*hparam, type.type, optimizer.schedule);
    declare_rule(*hparam, optimizer);
    hparam->finish();
    hparam->check([&] { check_decay(*hparam, optimizer.schedule); });
  }
}

}  // namespace hlite::config
