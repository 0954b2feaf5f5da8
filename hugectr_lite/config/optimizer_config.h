// The `optimizer` block: also allowed inside an embedding layer. Plain structs, without JSON,
// because kernels take them as they are.
#pragma once

#include <cstdint>

namespace hlite::config {

class Block;

enum class OptimizerType {
  kSgd,
  kMomentum,
  kNesterov,
  kAdam,
  kAdamW,
  kAdaGrad,
  kRowWiseAdaGrad,
  kRowWiseAdam,
  kFtrl
};
enum class UpdateType { kLocal, kGlobal, kLazyGlobal };

// An optimizer and its hyper-parameters; what they do: optimizer/update_rules.h.
struct UpdateRule {
  OptimizerType type = OptimizerType::kSgd;
  double momentum = 0;                // Momentum, Nesterov
  double beta1 = 0.9, beta2 = 0.999;  // all three Adams
  double epsilon = 1e-8;              // all three Adams, both AdaGrads
  bool corrected_epsilon = false;     // (ours) both Adams: beside the bias-corrected sqrt(v)
  double initial_accumulator = 0;     // both AdaGrads
  double beta = 0, lambda1 = 0, lambda2 = 0;  // Ftrl
  double weight_decay = 0;                    // (ours) SGD, AdamW
};

enum class LrDecay { kPolynomial, kCosine, kExponential };

// The schedule of optimizer/lr_schedule.h.
struct LrSchedule {
  double base = 0;
  int64_t warmup_steps = 1;
  int64_t decay_start = 0;  // 0: never decays
  int64_t decay_steps = 1;
  double decay_power = 2;  // polynomial
  double end = 0;
  LrDecay decay = LrDecay::kPolynomial;  // (ours)
  double decay_rate = 1;                 // (ours) exponential
};

struct OptimizerConfig {
  UpdateRule rule;
  LrSchedule schedule;
  UpdateType update_type = UpdateType::kLocal;
  bool atomic_update = false;  // SGD on a GPU; the CPU is always deterministic
};

// The name in configs.
const char* type_name(OptimizerType type);

void declare(Block& s, OptimizerConfig& optimizer);

}  // namespace hlite::config
