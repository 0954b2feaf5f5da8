// Matrix product on packed row-major views: C = alpha op(A) op(B) + beta C.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

enum class Transpose { kNo, kYes };

// c [m,n] = alpha * op(a) op(b) + beta * c, where op(a) is [m,k] and op(b) is [k,n]; kYes says that
// the view holds the transpose ([k,m] or [n,k]). Every size may be 0: k = 0 leaves beta * c. With
// beta = 0, c is written without being read (it may hold NaN). c overlaps neither a nor b.
// How c is cut into pieces, and so its bits, depends on shapes and thread count only.
void gemm(const Exec& exec, Transpose ta, Transpose tb, float alpha, Matrix<const float> a,
          Matrix<const float> b, float beta, Matrix<float> c);

}  // namespace hlite::ops
