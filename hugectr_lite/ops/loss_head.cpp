#include "hugectr_lite/ops/loss_head.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"

namespace hlite::ops {

template <typename T>
void loss_head(const Exec& exec, const LossHead<T>& head, const LossOptions& options) {
  const int64_t batch = head.x.dim(0), in = head.x.dim(1);
  HLITE_CHECK(exec.on_gpu() && exec.matmul != nullptr, "loss_head is for GPUs");
  HLITE_CHECK(loss_head_takes(in * int64_t{sizeof(T)}) && options.tasks.count == 0,
              "x {}, {} tasks", head.x.shape(), options.tasks.count);
  HLITE_CHECK(head.w.dim(0) == in && head.dw.dim(0) == in && head.dx.shape() == head.x.shape(),
              "x {}, w {}, dw {}, dx {}", head.x.shape(), head.w.shape(), head.dw.shape(),
              head.dx.shape());
  HLITE_CHECK(head.labels.dim(0) == batch && (head.labels.dim(1) == 1 || head.labels.dim(1) == 2) &&
                  head.logits.dim(0) == batch && head.dlogits.dim(0) == batch,
              "x {}, labels {}, logits {}, dlogits {}", head.x.shape(), head.labels.shape(),
              head.logits.shape(), head.dlogits.shape());
  kernels::loss_head<T>(exec, head, options);
}

HLITE_INSTANTIATE_FLOATS(loss_head)

}  // namespace hlite::ops
