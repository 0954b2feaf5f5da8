// The right factor of bf16 matrix products on the CPU, made ready once for many pieces; sums are
// float. As in gemm_piece.h each piece is multiplied on the calling thread.
//
// Where the processor multiplies bf16 (bf16_piece.h) the factor is packed into panels, elsewhere it
// and the pieces of the left one are widened for a product in float.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/gemm.h"

namespace hlite::ops {

class Bf16Factor {
 public:
  // op(b) [k,n], where kYes says that b holds the transpose. What it makes of b, with all threads,
  // lies in memory of the calling one, grown once, which its next factor takes over.
  Bf16Factor(ThreadPool& threads, Transpose transpose, Matrix<const bf16> b);

  // c [m,n] = a op(b), overwritten; a [m,k].
  void multiply(Matrix<const bf16> a, Matrix<float> c) const;
  // The same, where the bits of a row of c depend on its row of a and on op(b) only: AMX is not
  // used, whose library chooses its blocks by size. REQUIRES Transpose::kNo.
  void multiply_rows(Matrix<const bf16> a, Matrix<float> c) const;
  // c [m,n] = a^T op(b) for the m columns of a [k,any] from the `first` one on.
  void multiply_columns(Matrix<const bf16> a, int64_t first, Matrix<float> c) const;

  // op(b) as bf16_piece() takes it; null where the processor multiplies no bf16.
  [[nodiscard]] const bf16* panels() const { return panels_; }

 private:
  [[nodiscard]] bool is_empty(Matrix<const bf16> a, Matrix<float> c) const;
  const Transpose transpose_;
  const int64_t k_, n_;
  const bf16* panels_ = nullptr;  // op(b), or null:
  const float* wide_ = nullptr;   // b
};

}  // namespace hlite::ops
