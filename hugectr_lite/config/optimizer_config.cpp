// The `optimizer` block: {type, update_type or global_update, <type>_hparam}.
#include "hugectr_lite/config/optimizer_config.h"

#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/core/error.h"

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
    {"AdaGrad", "adagrad_hparam", OptimizerType::kAdaGrad},
    {"Ftrl", "ftrl_hparam", OptimizerType::kFtrl},
};

const TypeName& parse_type(ObjectReader& reader) {
  std::vector<std::pair<std::string, const TypeName*>> names;
  for (const TypeName& type : kTypes) names.emplace_back(type.name, &type);
  return *reader.value("type", names);
}

UpdateType parse_update_type(ObjectReader& reader) {
  const JsonNode* legacy = reader.find("global_update");
  if (legacy != nullptr && reader.has("update_type")) {
    fail_at(*legacy, "expected update_type or global_update, found both");
  }
  if (reader.boolean_or("global_update", false)) return UpdateType::kGlobal;
  return reader.value_or<UpdateType>("update_type", UpdateType::kLocal,
                                     {{"Local", UpdateType::kLocal},
                                      {"Global", UpdateType::kGlobal},
                                      {"LazyGlobal", UpdateType::kLazyGlobal}});
}

double parse_positive(const JsonNode& node) {
  if (!node.is_number() || !(node.number() > 0)) fail_expected(node, "a number > 0");
  return node.number();
}

// A decay rate of Adam: 1 would divide by zero in the bias correction.
double parse_beta(const JsonNode& node) {
  if (!node.is_number() || !(node.number() >= 0 && node.number() < 1)) {
    fail_expected(node, "a number in [0, 1)");
  }
  return node.number();
}

void parse_hparam(ObjectReader reader, OptimizerConfig& optimizer) {
  UpdateRule& rule = optimizer.rule;
  LrSchedule& schedule = optimizer.schedule;
  schedule.base = reader.number("learning_rate", {.min = 0});
  switch (rule.type) {
    case OptimizerType::kSgd:
      optimizer.atomic_update = reader.boolean_or("atomic_update", false);
      break;
    case OptimizerType::kMomentum:
    case OptimizerType::kNesterov:
      rule.momentum = reader.number("momentum_factor", {0, 1});
      break;
    case OptimizerType::kAdam:
      rule.beta1 = parse_beta(reader.member("beta1"));
      rule.beta2 = parse_beta(reader.member("beta2"));
      rule.epsilon = parse_positive(reader.member("epsilon"));
      rule.corrected_epsilon = reader.boolean_or("corrected_epsilon", false);
      break;
    case OptimizerType::kAdaGrad:
      if (const JsonNode* epsilon = reader.find("epsilon")) {
        rule.epsilon = parse_positive(*epsilon);
      }
      rule.initial_accumulator = reader.number_or("initial_accumulator", 0, {.min = 0});
      if (const JsonNode* value = reader.find("initial_accu_value")) {  // in later versions
        if (reader.has("initial_accumulator"))
          fail_at(*value, "expected initial_accumulator or initial_accu_value, found both");
        rule.initial_accumulator = reader.number("initial_accu_value", {.min = 0});
      }
      break;
    case OptimizerType::kFtrl:
      parse_positive(reader.member("learning_rate"));  // Ftrl divides by the rate of a step
      rule.beta = reader.number("beta", {.min = 0});
      rule.lambda1 = reader.number("lambda1", {.min = 0});
      rule.lambda2 = reader.number("lambda2", {.min = 0});
      break;
  }
  schedule.warmup_steps = reader.integer_or("warmup_steps", 1, {.min = 1});
  schedule.decay_start = reader.integer_or("decay_start", 0, {.min = 0});
  schedule.decay_steps = reader.integer_or("decay_steps", 1, {.min = 1});
  schedule.decay_power = reader.number_or("decay_power", 2, {.min = 1});
  schedule.end = reader.number_or("end_lr", 0, {.min = 0});
  if (rule.type == OptimizerType::kFtrl && schedule.decay_start > 0)
    parse_positive(reader.member("end_lr"));
  reader.finish();
}

}  // namespace

OptimizerConfig parse_optimizer(const JsonNode& node, bool strict) {
  ObjectReader reader(node, strict);
  const TypeName& type = parse_type(reader);
  OptimizerConfig optimizer;
  optimizer.rule.type = type.type;
  optimizer.update_type = parse_update_type(reader);
  for (const TypeName& other : kTypes) {
    const JsonNode* block = node.find(other.hparam);
    if (block != nullptr && other.type != type.type) {
      fail_at(*block, fmt::format("expected only {} beside type \"{}\", found {}", type.hparam,
                                  type.name, other.hparam));
    }
  }
  parse_hparam(reader.object(type.hparam), optimizer);
  reader.finish();
  return optimizer;
}

}  // namespace hlite::config
