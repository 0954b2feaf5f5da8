// Binary cross-entropy of logits, mean over the batch:
//
//   loss = 1/B sum_i [ max(z,0) - z y + log(1 + exp(-|z|)) ],   dloss/dz_i = (sigmoid(z_i) - y_i) /
//   B
//
// The form with |z| neither overflows nor loses digits for any finite z. Labels are usually 0 or 1;
// any value in between is allowed.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// logits [B,1], labels [B,1]; *loss overwritten (0 for B = 0). dlogits [B,1] overwritten, null
// data: loss only; it may be the very view logits. A NaN logit makes the loss NaN. Summed in double
// over fixed blocks: the same bits for any thread count.
void bce_loss(const Exec& exec, Matrix<const float> logits, Matrix<const float> labels, float* loss,
              Matrix<float> dlogits);

}  // namespace hlite::ops
