// Binary cross-entropy of logits, mean over the batch:
//
//   loss = 1/B sum_i [ max(z,0) - z y + log(1 + exp(-|z|)) ]
//   dloss/dz_i = (sigmoid(z_i) - y_i) / B
//
// The form with |z| neither overflows nor loses digits for any finite z. Labels are usually 0 or 1;
// any value in between is allowed. With a weight w for positives, as PyTorch's pos_weight:
//
//   loss = 1/B sum_i [ (1 - y) log(1 + exp(z)) + w y log(1 + exp(-z)) ]
#pragma once

#include <cmath>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// Of several tasks: T logits and T labels a sample, and a weight w for each task. The loss is
//
//   1 / (B T) sum_i sum_t w_t [ that of logit and label (i,t) ],
//
// where a label below -0.5 is none: its logit adds nothing, and has no gradient. None: one task.
struct TaskWeights {
  static constexpr int kMost = 64;
  int count = 0;
  float values[kMost] = {};
};

struct BceTerm {
  double loss;
  double gradient;  // of the loss by the logit, before the division by B
};

HLITE_HD inline BceTerm bce_term(double z, double y) {
  const double e = std::exp(-std::fabs(z));
  const double sigmoid = (z >= 0 ? 1.0 : e) / (1.0 + e);
  return {(z <= 0 ? 0.0 : z) - z * y + std::log1p(e), sigmoid - y};
}

// The term with a weight for positives; 1 gives the bits of bce_term(z, y).
HLITE_HD inline BceTerm weighted_bce_term(double z, double y, double positive_weight) {
  if (positive_weight == 1) return bce_term(z, y);
  const BceTerm negative = bce_term(z, 0), positive = bce_term(z, 1);
  const double of_negative = 1 - y, of_positive = positive_weight * y;
  return {of_negative * negative.loss + of_positive * positive.loss,
          of_negative * negative.gradient + of_positive * positive.gradient};
}

HLITE_HD inline BceTerm task_term(const TaskWeights& weights, int64_t i, double z, double y) {
  if (y < -0.5) return {0, 0};
  const BceTerm term = bce_term(z, y);
  const auto weight = static_cast<double>(weights.values[i % weights.count]);
  return {weight * term.loss, weight * term.gradient};
}

struct BceOptions {
  // What stands for B in the formulas where these are one rank's samples of a larger batch; 0:
  // their number.
  int64_t mean_over = 0;
  // Multiplies dlogits, not the loss (loss scaling); in memory of the op's device. Null: 1.
  const float* scale = nullptr;
  // On a GPU: at least kBlockSums numbers (ops/block_sums.h), whatever they hold.
  Vector<double> workspace = {};
  TaskWeights tasks = {};
  double positive_weight = 1;  // of one task
};

// The term of element i of [B,T].
HLITE_HD inline BceTerm loss_term(const BceOptions& options, int64_t i, double z, double y) {
  if (options.tasks.count > 0) return task_term(options.tasks, i, z, y);
  return weighted_bce_term(z, y, options.positive_weight);
}

// T, the type of dlogits: float, bf16, or on a GPU fp16; all else is float or, within,
// double. logits, labels [B,1], or [B,T]; *loss overwritten (0 for B = 0). dlogits alike
// overwritten (rounded to float, then to T), null data: loss only; it may be the very view logits.
// A NaN logit makes the loss NaN. Summed in double over fixed blocks: the bits depend on B alone,
// and not on the number of threads.
template <typename T = float>
void bce_loss(const Exec& exec, Matrix<const float> logits, Matrix<const float> labels, float* loss,
              MatrixOf<T> dlogits, const BceOptions& options = {});

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::bce_loss<T>)> bce_loss{"bce_loss"};
}  // namespace kernels

}  // namespace hlite::ops
