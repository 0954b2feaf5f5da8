// EvaluationSums: what metrics of an evaluation set are made of, and the kernels that sum it up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::trainer {

struct EvaluationSums {
  unsigned long long positives = 0;
  // Twice the (positive, negative) pairs in which the positive has the higher score; ties count
  // one.
  unsigned long long won_twice = 0;
  // Complement of the index of the first score that is NaN; 0: there is none.
  unsigned long long first_nan = 0;
  double loss = 0;  // binary cross-entropy, summed
};

namespace kernels {
// Bytes of device memory for up to max_samples samples: about 10 a sample. An error for 2^31
// samples and more.
inline const Kernel<size_t(int64_t /*max_samples*/)> evaluation_workspace{"evaluation_workspace"};
// The sums are in page-locked host memory, written by a copy on the stream.
inline const Kernel<void(Vector<const float> /*logits*/, Vector<const float> /*labels*/,
                         std::byte* /*workspace*/, size_t /*workspace_bytes*/, EvaluationSums*)>
    evaluate{"evaluate"};
}  // namespace kernels

}  // namespace hlite::trainer
