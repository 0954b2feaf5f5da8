#include "hugectr_lite/config/optimizer_config.h"

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/config/train_config.h"
#include "tests/config/broken_config.h"
#include "tests/support/errors.h"

namespace hlite::config {
namespace {

OptimizerConfig optimizer(const char* text) {
  return read_block<OptimizerConfig>(JsonNode::parse(text, "o.json"));
}

}  // namespace

TEST_CASE("The optimizer block of each type") {
  OptimizerConfig o = parse_train_config(test::kMinimalConfig, "minimal.json", {})->optimizer;
  CHECK(o.rule.type == OptimizerType::kSgd);
  CHECK(o.update_type == UpdateType::kLocal);
  CHECK(o.schedule.base == 0.5);
  CHECK(o.schedule.warmup_steps == 10);
  CHECK(o.schedule.decay_start == 100);
  CHECK(o.schedule.decay_steps == 90);
  CHECK(o.schedule.decay_power == 2);
  CHECK(o.schedule.end == 0.125);
  CHECK(o.atomic_update);

  o = optimizer(R"({"type": "SGD", "global_update": true, "sgd_hparam": {"learning_rate": 26}})");
  CHECK(o.schedule.base == 26);
  CHECK(o.update_type == UpdateType::kGlobal);
  CHECK(!o.atomic_update);
  CHECK(o.schedule.warmup_steps == 1);
  CHECK(o.schedule.decay_start == 0);
  CHECK(o.schedule.decay_steps == 1);
  CHECK(o.schedule.decay_power == 2);
  CHECK(o.schedule.end == 0);

  o = optimizer(R"({"type": "Adam", "update_type": "LazyGlobal", "adam_hparam":
    {"learning_rate": 0.001, "beta1": 0, "beta2": 0.5, "epsilon": 1e-7, "warmup_steps": 4}})");
  CHECK(o.rule.type == OptimizerType::kAdam);
  CHECK(o.update_type == UpdateType::kLazyGlobal);
  CHECK(o.rule.beta1 == 0);
  CHECK(o.rule.beta2 == 0.5);
  CHECK(o.rule.epsilon == 1e-7);
  CHECK(o.schedule.warmup_steps == 4);
  o = optimizer(R"({"type": "Adam", "global_update": true, "adam_hparam": {"alpha": 0.005}})");
  CHECK(o.schedule.base == Approx(0.005));
  CHECK(o.update_type == UpdateType::kGlobal);

  o = optimizer(R"({"type": "MomentumSGD", "update_type": "Global",
    "momentum_sgd_hparam": {"learning_rate": 1, "momentum_factor": 0.9}})");
  CHECK(o.rule.type == OptimizerType::kMomentum);
  CHECK(o.update_type == UpdateType::kGlobal);
  CHECK(o.rule.momentum == 0.9);
  o = optimizer(
      R"({"type": "Nesterov", "nesterov_hparam": {"learning_rate": 1, "momentum_factor": 0.8}})");
  CHECK(o.rule.type == OptimizerType::kNesterov);
  CHECK(o.rule.momentum == 0.8);
  o = optimizer(R"({"type": "AdaGrad", "adagrad_hparam":
    {"learning_rate": 1, "epsilon": 0.5, "initial_accumulator": 0.25}})");
  CHECK(o.rule.type == OptimizerType::kAdaGrad);
  CHECK(o.rule.epsilon == 0.5);
  CHECK(o.rule.initial_accumulator == 0.25);
  o = optimizer(R"({"type": "AdaGrad", "adagrad_hparam":
    {"learning_rate": 1, "epsilon": 0.5, "initial_accu_value": 0.75}})");
  CHECK(o.rule.initial_accumulator == 0.75);
  o = optimizer(R"({"type": "RowWiseAdaGrad", "row_wise_adagrad_hparam":
    {"learning_rate": 1, "epsilon": 0.5, "initial_accu_value": 0.75}})");
  CHECK(o.rule.type == OptimizerType::kRowWiseAdaGrad);
  CHECK(o.rule.epsilon == 0.5);
  CHECK(o.rule.initial_accumulator == 0.75);
  o = optimizer(R"({"type": "RowWiseAdam", "row_wise_adam_hparam":
    {"learning_rate": 1, "beta1": 0.5, "beta2": 0.75, "epsilon": 0.25, "corrected_epsilon": true}})");
  CHECK(o.rule.type == OptimizerType::kRowWiseAdam);
  CHECK(o.rule.beta1 == 0.5);
  CHECK(o.rule.beta2 == 0.75);
  CHECK(o.rule.epsilon == 0.25);
  CHECK(o.rule.corrected_epsilon);
  o = optimizer(R"({"type": "Ftrl", "ftrl_hparam":
    {"learning_rate": 0.5, "beta": 0.9, "lambda1": 0.125, "lambda2": 2}})");
  CHECK(o.rule.type == OptimizerType::kFtrl);
  CHECK(o.schedule.base == 0.5);
  CHECK(o.rule.beta == 0.9);
  CHECK(o.rule.lambda1 == 0.125);
  CHECK(o.rule.lambda2 == 2);

  o = optimizer(R"({"type": "AdamW", "adamw_hparam": {"learning_rate": 1}})");
  CHECK(o.rule.type == OptimizerType::kAdamW);
  CHECK(o.rule.weight_decay == 0.01);
  CHECK(o.schedule.decay == LrDecay::kPolynomial);
  o = optimizer(R"({"type": "AdamW", "adamw_hparam": {"learning_rate": 1, "weight_decay": 0.25,
    "beta1": 0.5, "decay_start": 3, "decay_steps": 4, "decay": "cosine"}})");
  CHECK(o.rule.weight_decay == 0.25);
  CHECK(o.rule.beta1 == 0.5);
  CHECK(o.schedule.decay == LrDecay::kCosine);
  o = optimizer(R"({"type": "SGD", "sgd_hparam": {"learning_rate": 1, "weight_decay": 0.125,
    "decay_start": 3, "decay_steps": 4, "decay": "exponential", "decay_rate": 0.5}})");
  CHECK(o.rule.weight_decay == 0.125);
  CHECK(o.schedule.decay == LrDecay::kExponential);
  CHECK(o.schedule.decay_rate == 0.5);
}

}  // namespace hlite::config
