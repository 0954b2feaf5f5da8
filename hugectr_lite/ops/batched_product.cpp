#include "hugectr_lite/ops/batched_product.h"

#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/gemm_piece.h"
#include "hugectr_lite/ops/small_product.h"
#include "hugectr_lite/ops/transpose.h"

namespace hlite::ops {
namespace {

// One sample's product, of matrices one after another in memory.
void multiply_sample(const Product& p, const float* a, const float* b, float* c) {
  // From here on a library, which packs its factors, is faster.
  constexpr int64_t kSmall = int64_t{1} << 18;
  const bool of_columns = p.ta == Transpose::kYes, of_rows = p.tb == Transpose::kYes;
  const StridedMatrix<const float> left{a, of_columns ? p.m : p.k}, right{b, of_rows ? p.k : p.n};
  if (p.m * p.n * p.k > kSmall)
    gemm_piece(p, left, right, {c, p.n});
  else if (of_rows)
    small_product_of_rows(p.m, p.n, p.k, left, right, {c, p.n});
  else
    small_product(p.m, p.n, p.k, of_columns ? LeftFactor{a, 1, p.m} : LeftFactor{a, p.k, 1}, right,
                  {c, p.n});
}

// The memory of one thread for a sample's matrices in float.
class FloatMatrix {
 public:
  float* of_size(int64_t n) {
    if (values_.size() < static_cast<size_t>(n)) values_.resize(static_cast<size_t>(n));
    return values_.data();
  }
  template <typename T>
  const float* widened(const T* from, int64_t n) {
    float* const to = of_size(n);
    wide([&] { widen(from, n, to); });
    return to;
  }

 private:
  std::vector<float> values_;
};

}  // namespace

template <typename T>
void batched_product(const Exec& exec, Transpose ta, Transpose tb, ViewOf<const T, 3> a,
                     ViewOf<const T, 3> b, ViewOf<T, 3> c) {
  constexpr const char* kName = "batched_product";
  const bool a_turned = ta == Transpose::kYes, b_turned = tb == Transpose::kYes;
  const int64_t m = c.dim(1), n = c.dim(2), k = a.dim(a_turned ? 1 : 2);
  HLITE_CHECK(!(a_turned && b_turned) && a.dim(0) == c.dim(0) && b.dim(0) == c.dim(0) &&
                  a.dim(a_turned ? 2 : 1) == m && b.dim(b_turned ? 2 : 1) == k &&
                  b.dim(b_turned ? 1 : 2) == n,
              "{}: {}{} times {}{} to {}", kName, a.shape(), a_turned ? "^T" : "", b.shape(),
              b_turned ? "^T" : "", c.shape());
  if (exec.on_gpu()) return kernels::batched_product<T>(exec, ta, tb, a, b, c);
  const Product product{.ta = ta, .tb = tb, .m = m, .n = n, .k = k};
  cpu_threads_for<T>(exec, kName)
      .parallel_for(c.dim(0), kElementGrain / (m * n * k + 1) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s) {
          if constexpr (std::is_same_v<T, float>) {
            multiply_sample(product, a.row(s), b.row(s), c.row(s));
          } else if constexpr (kOnCpu<T>) {
            thread_local FloatMatrix left, right, result;
            float* const sums = result.of_size(m * n);
            multiply_sample(product, left.widened(a.row(s), m * k), right.widened(b.row(s), k * n),
                            sums);
            wide([&] { narrow(sums, m * n, c.row(s)); });
          }
        }
      });
}

template <typename T>
void batched_transpose(const Exec& exec, ViewOf<const T, 3> x, ViewOf<T, 3> y) {
  constexpr const char* kName = "batched_transpose";
  const int64_t m = x.dim(1), n = x.dim(2);
  HLITE_CHECK(y.dim(0) == x.dim(0) && y.dim(1) == n && y.dim(2) == m, "{}: {} to {}", kName,
              x.shape(), y.shape());
  if (exec.on_gpu()) return kernels::batched_transpose<T>(exec, x, y);
  wide_for<T>(exec, kName, x.dim(0), kElementGrain / (m * n + 1) + 1,
              [&](int64_t begin, int64_t end) {
                if constexpr (kOnCpu<T>)
                  for (int64_t s = begin; s < end; ++s)
                    transpose({x.row(s), n}, m, n, {y.row(s), m});
              });
}

HLITE_INSTANTIATE_FLOATS(batched_product)
HLITE_INSTANTIATE_FLOATS(batched_transpose)

}  // namespace hlite::ops
