#include "hugectr_lite/ops/cast.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/plugin_table.h"
#include "hugectr_lite/ops/copy.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {

template <typename T>
void cast_from_float(const Exec& exec, Vector<const float> x, Vector<std::type_identity_t<T>> out) {
  HLITE_CHECK(x.dim(0) == out.dim(0), "cast_from_float: {} to {}", x.shape(), out.shape());
  if (exec.on_gpu()) return exec.cuda->typed<T>().cast_from_float(exec.stream, x, out);
  if constexpr (std::is_same_v<T, float>)
    copy(exec, x, out);
  else
    needs_gpu("cast_from_float");
}

template <typename T>
void cast_to_float(const Exec& exec, Vector<const std::type_identity_t<T>> x, Vector<float> out) {
  HLITE_CHECK(x.dim(0) == out.dim(0), "cast_to_float: {} to {}", x.shape(), out.shape());
  if (exec.on_gpu()) return exec.cuda->typed<T>().cast_to_float(exec.stream, x, out);
  if constexpr (std::is_same_v<T, float>)
    copy(exec, x, out);
  else
    needs_gpu("cast_to_float");
}

#define HLITE_INSTANTIATE(T)                                                     \
  template void cast_from_float<T>(const Exec&, Vector<const float>, Vector<T>); \
  template void cast_to_float<T>(const Exec&, Vector<const T>, Vector<float>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops
