// Kernels of batch normalisation (column_term_kernels.cuh).
#include "hugectr_lite/ops/batch_norm.h"

#include "hugectr_lite/ops/batch_norm_columns.h"
#include "hugectr_lite/ops/column_term_kernels.cuh"

namespace hlite::ops::gpu {

HLITE_KERNELS(batch_norm) {
  add_columns<batch_norm::FromSums>(list);
  add_columns<batch_norm::FromRunning>(list);
  add_columns<batch_norm::GradientMeans>(list);
  add_columns<batch_norm::ParameterGradients>(list);
  add_columns<batch_norm::Running>(list);
  for_each_float([&]<typename T>() {
    add_sums<batch_norm::ValueTerms<T>>(list);
    add_sums<batch_norm::BatchNormGradientTerms<T>>(list);
    add_elements<batch_norm::BatchNormForward<T>>(list);
    add_elements<batch_norm::BatchNormBackward<T>>(list);
  });
}

}  // namespace hlite::ops::gpu
