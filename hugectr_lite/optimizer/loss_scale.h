// Dynamic loss scale: the loss is multiplied by a power of two, so that small gradients do not
// vanish in 16 bits. As large as it goes: doubled after many iterations without overflow, halved
// after one, whose update is left out. (Micikevicius et al.,
// "Mixed precision training", ICLR 2018.)
//
// An iteration: the loss's gradient is multiplied by `scale`; the step that makes a gradient checks
// it for overflow, or flag_non_finite() does afterwards; update_loss_scale() decides; then the
// optimizers run, with `inverse` and `skip` as their GradientScale. Several ranks add up what they
// have found before they decide.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/optimizer/gradient_scale.h"

namespace hlite::optimizer {

// Lives in memory of the device. A fixed scale is one that update_loss_scale() never sees.
struct LossScale {
  float scale = 1;    // of the next backward pass
  float inverse = 1;  // 1 / the scale of the gradients that were decided on last
  int32_t skip = 0;   // 1: the gradients at hand overflowed
  int32_t good = 0;   // iterations without overflow since `scale` last changed
  // 1: a gradient of this iteration has overflowed, as flag_non_finite() or the gradient's maker
  // found.
  int32_t gradient_overflow = 0;
  int32_t lost = 0;  // iterations that overflowed at the least scale, where halving cannot help
  float next_inverse = 1;  // 1 / scale: of gradients that nothing has been decided on
};

inline constexpr float kMinLossScale = 1;
inline constexpr float kMaxLossScale = 0x1p24f;

inline LossScale loss_scale_from(float scale) {
  return {.scale = scale, .inverse = 1 / scale, .next_inverse = 1 / scale};
}
// Returns the factor that undoes it, by address: the numbers themselves stay in the device's
// memory.
inline GradientScale gradient_scale(const LossScale& state) {
  return {.inverse = &state.inverse, .skip = &state.skip};
}
// The same before the decision.
inline GradientScale undecided_scale(const LossScale& state) {
  return {.inverse = &state.next_inverse};
}

// The scale after an iteration; `grow_after` >= 1: iterations without overflow before it doubles.
HLITE_HD inline LossScale next_loss_scale(const LossScale& now, int32_t grow_after) {
  LossScale next;
  next.inverse = 1 / now.scale;
  next.skip = now.gradient_overflow != 0 ? 1 : 0;
  next.good = next.skip ? 0 : now.good + 1;
  next.lost = now.lost + (next.skip && now.scale <= kMinLossScale ? 1 : 0);
  next.scale = next.skip ? now.scale / 2 : now.scale;
  if (next.scale < kMinLossScale) next.scale = kMinLossScale;
  if (next.good >= grow_after) {
    next.good = 0;
    if (next.scale * 2 <= kMaxLossScale) next.scale *= 2;
  }
  next.next_inverse = 1 / next.scale;
  return next;
}

// Facts that several ranks, which decide alike, know of an iteration; in memory of the op's device.
struct RanksVerdict {
  // The sum over ranks of report_gradient_overflow(); null on one rank.
  const float* gradient_overflow = nullptr;
  // Not 0: an exchange's capacity was exceeded, so the run is repeated and counts for nothing.
  const int32_t* capacity_exceeded = nullptr;
};
HLITE_HD inline LossScale next_loss_scale(LossScale now, int32_t grow_after,
                                          const RanksVerdict& ranks) {
  if (ranks.capacity_exceeded && *ranks.capacity_exceeded != 0) {
    now.gradient_overflow = 0;
    return now;
  }
  if (ranks.gradient_overflow) now.gradient_overflow = *ranks.gradient_overflow > 0 ? 1 : 0;
  return next_loss_scale(now, grow_after);
}

// *state = next_loss_scale(*state, grow_after, ranks), in memory of the op's device.
void update_loss_scale(const Exec& exec, int32_t grow_after, LossScale* state,
                       const RanksVerdict& ranks = {});
// *word = 1 if a gradient of this rank has overflowed, else 0; in memory of the op's device, too.
void report_gradient_overflow(const Exec& exec, const LossScale* state, float* word);

namespace kernels {
inline const KernelOf<decltype(optimizer::update_loss_scale)> update_loss_scale{
    "update_loss_scale"};
inline const KernelOf<decltype(optimizer::report_gradient_overflow)> report_gradient_overflow{
    "report_gradient_overflow"};
}  // namespace kernels

}  // namespace hlite::optimizer
