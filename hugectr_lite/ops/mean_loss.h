// Losses of logits, mean over the batch. Binary cross-entropy:
//
//   loss = 1/B sum_i w_i [ max(z,0) - z y + log(1 + exp(-|z|)) ]
//   dloss/dz_i = w_i (sigmoid(z_i) - y_i) / B
//
// The form with |z| neither overflows nor loses digits for any finite z. Labels are usually 0 or 1;
// any value in between is allowed. With a weight p for positives, as PyTorch's pos_weight:
//
//   loss = 1/B sum_i w_i [ (1 - y) log(1 + exp(z)) + p y log(1 + exp(-z)) ]
//
// Squared error, of values z:
//
//   loss = 1/B sum_i w_i (z_i - y_i)^2
//   dloss/dz_i = 2 w_i (z_i - y_i) / B
//
// The weights w of samples are 1 unless the labels come with some. The sum is divided by B, not by
// the sum of the weights, as PyTorch's `binary_cross_entropy_with_logits(weight=w)` does.
#pragma once

#include <cmath>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

enum class LossKind { kBinaryCrossEntropy, kSquaredError };

// Loss of several tasks: T logits and T labels a sample, and a weight t for each task. The loss is
//
//   1 / (B T) sum_i sum_t w_i t [ that of logit and label (i,t) ],
//
// where a label below -0.5 is none: its logit adds nothing, and has no gradient. None: one task.
struct TaskWeights {
  static constexpr int kMax = 64;
  int count = 0;
  float values[kMax] = {};
};

struct LossTerm {
  double loss;
  double gradient;  // of the loss by the logit, before the division by B
};

HLITE_HD inline LossTerm bce_term(double z, double y) {
  const double e = std::exp(-std::fabs(z));
  const double sigmoid = (z >= 0 ? 1.0 : e) / (1.0 + e);
  return {(z <= 0 ? 0.0 : z) - z * y + std::log1p(e), sigmoid - y};
}

// The term with a weight for positives; 1 gives the bits of bce_term(z, y).
HLITE_HD inline LossTerm weighted_bce_term(double z, double y, double positive_weight) {
  if (positive_weight == 1) return bce_term(z, y);
  const LossTerm negative = bce_term(z, 0), positive = bce_term(z, 1);
  const double of_negative = 1 - y, of_positive = positive_weight * y;
  return {of_negative * negative.loss + of_positive * positive.loss,
          of_negative * negative.gradient + of_positive * positive.gradient};
}

HLITE_HD inline LossTerm squared_error_term(double z, double y) {
  const double error = z - y;
  return {error * error, 2 * error};
}

HLITE_HD inline LossTerm task_term(const TaskWeights& weights, int64_t i, double z, double y) {
  if (y < -0.5) return {0, 0};
  const LossTerm term = bce_term(z, y);
  const auto weight = static_cast<double>(weights.values[i % weights.count]);
  return {weight * term.loss, weight * term.gradient};
}

struct LossOptions {
  LossKind kind = LossKind::kBinaryCrossEntropy;
  // The B of the formulas if these are one rank's samples of a larger batch; 0: their number.
  int64_t mean_over = 0;
  // Multiplies dlogits, not the loss (loss scaling); in memory of the op's device. Null: 1.
  const float* scale = nullptr;
  double gradient_factor = 1;  // the same, on the host
  // On a GPU: at least kBlockSums numbers (ops/block_sums.h), whatever they hold.
  Vector<double> workspace = {};
  TaskWeights tasks = {};      // of cross-entropy
  double positive_weight = 1;  // of cross-entropy of one task
};

// The term of logit i of [B,T]. `labels` [B,width]: T labels of each sample, then the weight of
// the sample if width is T + 1. A weight of 1 gives the bits of no weight.
HLITE_HD inline LossTerm loss_term(const LossOptions& options, const float* labels, int64_t width,
                                   int64_t i, double z) {
  const int64_t tasks = options.tasks.count > 0 ? options.tasks.count : 1;
  const int64_t sample = i / tasks;
  const auto y = static_cast<double>(labels[sample * width + i % tasks]);
  const double weight = width > tasks ? static_cast<double>(labels[sample * width + tasks]) : 1.0;
  const LossTerm term = options.kind == LossKind::kSquaredError ? squared_error_term(z, y)
                        : options.tasks.count > 0
                            ? task_term(options.tasks, i, z, y)
                            : weighted_bce_term(z, y, options.positive_weight);
  return {weight * term.loss, weight * term.gradient};
}

// T, the type of dlogits: float, bf16, or on a GPU fp16; all else is float or, within,
// double. logits [B,1], or [B,T]; labels [B,T], or with a weight for each sample [B,T+1]; *loss
// overwritten (0 for B = 0). dlogits, shaped as logits, overwritten (rounded to float, then to T),
// null data: loss only; it may be the very view logits. A NaN logit makes the loss NaN. Summed in
// double over fixed blocks: the bits depend on B alone, and not on the number of threads.
template <typename T = float>
void mean_loss(const Exec& exec, Matrix<const float> logits, Matrix<const float> labels,
               float* loss, MatrixOf<T> dlogits, const LossOptions& options = {});

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::mean_loss<T>)> mean_loss{"mean_loss"};
}  // namespace kernels

}  // namespace hlite::ops
