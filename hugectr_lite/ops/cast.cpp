#include "hugectr_lite/ops/cast.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/ops/copy.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {
constexpr int64_t kCastGrain = 1 << 14;  // elements worth waking a thread for
}

template <typename T>
void cast_from_float(const Exec& exec, Vector<const float> x, VectorOf<T> out) {
  HLITE_CHECK(x.dim(0) == out.dim(0), "cast_from_float: {} to {}", x.shape(), out.shape());
  if (exec.on_gpu()) return kernels::cast_from_float<T>(exec, x, out);
  if constexpr (std::is_same_v<T, float>)
    copy(exec, x, out);
  else if constexpr (kOnCpu<T>)
    wide_for<T>(exec, "cast_from_float", x.size(), kCastGrain, [&](int64_t begin, int64_t end) {
      narrow(x.data() + begin, end - begin, out.data() + begin);
    });
  else
    needs_gpu("cast_from_float");
}

template <typename T>
void cast_to_float(const Exec& exec, VectorOf<const T> x, Vector<float> out) {
  HLITE_CHECK(x.dim(0) == out.dim(0), "cast_to_float: {} to {}", x.shape(), out.shape());
  if (exec.on_gpu()) return kernels::cast_to_float<T>(exec, x, out);
  if constexpr (std::is_same_v<T, float>)
    copy(exec, x, out);
  else if constexpr (kOnCpu<T>)
    wide_for<T>(exec, "cast_to_float", x.size(), kCastGrain, [&](int64_t begin, int64_t end) {
      widen(x.data() + begin, end - begin, out.data() + begin);
    });
  else
    needs_gpu("cast_to_float");
}

template <typename T>
void affine_to_float(const Exec& exec, const Affine& f, VectorOf<const T> x, Vector<float> out) {
  HLITE_CHECK(x.dim(0) == out.dim(0), "affine_to_float: {} to {}", x.shape(), out.shape());
  if (exec.on_gpu()) return kernels::affine_to_float<T>(exec, f, x, out);
  wide_for<T>(exec, "affine_to_float", x.size(), kCastGrain, [=](int64_t begin, int64_t end) {
    const T* const from = x.data();
    float* const __restrict to = out.data();
    for (int64_t i = begin; i < end; ++i) to[i] = f(to_float(from[i]));
  });
}

template <typename T>
void cast_padded(const Exec& exec, Matrix<const float> x, MatrixOf<T> out) {
  const int64_t rows = x.dim(0), width = x.dim(1), columns = out.dim(1);
  HLITE_CHECK(rows == out.dim(0) && width <= columns, "cast_padded: {} to {}", x.shape(),
              out.shape());
  if (width == columns)
    return cast_from_float<T>(exec, {x.data(), x.size()}, {out.data(), out.size()});
  if (exec.on_gpu()) return kernels::cast_padded<T>(exec, x, out);
  if constexpr (kOnCpu<T>) {
    constexpr int64_t kRows = 1 << 10;  // worth waking a thread for
    wide_for<T>(exec, "cast_padded", rows, kRows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* const to = out.data() + row * columns;
        narrow(x.data() + row * width, width, to);
        std::fill_n(to + width, columns - width, T{});
      }
    });
  } else {
    needs_gpu("cast_padded");
  }
}

HLITE_INSTANTIATE_FLOATS(cast_from_float)
HLITE_INSTANTIATE_FLOATS(cast_to_float)
HLITE_INSTANTIATE_FLOATS(affine_to_float)
HLITE_INSTANTIATE_FLOATS(cast_padded)

}  // namespace hlite::ops
