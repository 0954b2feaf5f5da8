#include "hugectr_lite/ops/gemm.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/gemm_piece.h"

namespace hlite::ops {
namespace {

// Pieces are cut at these multiples: whole cache lines of c, whole register tiles of the libraries.
constexpr int64_t kRowAlign = 8;
constexpr int64_t kColumnAlign = 16;
// Multiplications below which a second thread costs more than it brings (about 5 us of work).
constexpr int64_t kWorthAThread = 1 << 18;

// Cuts [0, n) into `parts` ranges whose edges are multiples of `align`.
int64_t edge(int64_t n, int64_t parts, int64_t part, int64_t align) {
  const int64_t units = (n + align - 1) / align;
  return std::min(n, units * part / parts * align);
}

struct Grid {
  int64_t rows = 1, columns = 1;
};

// The grid with one piece a thread whose largest piece takes the least time: its multiplications
// plus the packing of its panels of a and b, which the library repeats for every piece.
Grid choose_grid(int64_t m, int64_t n, int64_t k, int threads) {
  constexpr double kPackingCost = 16;  // multiplications that packing one element costs
  const int64_t wanted =
      std::min<int64_t>(threads, std::max<int64_t>(1, m * n * k / kWorthAThread));
  const auto largest = [](int64_t size, int64_t parts, int64_t align) {
    const int64_t units = (size + align - 1) / align;
    return std::min(size, (units + parts - 1) / parts * align);
  };
  Grid best;
  double best_cost = 0;
  for (int64_t rows = 1; rows <= wanted; ++rows) {
    const int64_t columns = wanted / rows;
    const double height = static_cast<double>(largest(m, rows, kRowAlign));
    const double width = static_cast<double>(largest(n, columns, kColumnAlign));
    const double cost = static_cast<double>(k) * (height * width + kPackingCost * (height + width));
    if (rows == 1 || cost < best_cost) {
      best_cost = cost;
      best = {rows, columns};
    }
  }
  return best;
}

}  // namespace

void gemm(const Exec& exec, Transpose ta, Transpose tb, float alpha, Matrix<const float> a,
          Matrix<const float> b, float beta, Matrix<float> c) {
  const bool a_turned = ta == Transpose::kYes, b_turned = tb == Transpose::kYes;
  const int64_t m = c.dim(0), n = c.dim(1), k = a.dim(a_turned ? 0 : 1);
  HLITE_CHECK(
      a.dim(a_turned ? 1 : 0) == m && b.dim(b_turned ? 0 : 1) == n && b.dim(b_turned ? 1 : 0) == k,
      "a {}{}, b {}{}, c {}", a.shape(), a_turned ? "^T" : "", b.shape(), b_turned ? "^T" : "",
      c.shape());
  ThreadPool& threads = cpu_threads(exec, "gemm");
  if (m == 0 || n == 0) return;

  const Grid grid = choose_grid(m, n, k, threads.threads());
  threads.run(grid.rows * grid.columns, [&](int64_t piece, int) {
    const int64_t row = piece / grid.columns, column = piece % grid.columns;
    const int64_t top = edge(m, grid.rows, row, kRowAlign);
    const int64_t bottom = edge(m, grid.rows, row + 1, kRowAlign);
    const int64_t left = edge(n, grid.columns, column, kColumnAlign);
    const int64_t right = edge(n, grid.columns, column + 1, kColumnAlign);
    gemm_piece({.ta = ta,
                .tb = tb,
                .m = bottom - top,
                .n = right - left,
                .k = k,
                .alpha = alpha,
                .beta = beta},
               {a.data() + top * (a_turned ? 1 : a.stride()), a.stride()},
               {b.data() + left * (b_turned ? b.stride() : 1), b.stride()},
               {c.data() + top * c.stride() + left, c.stride()});
  });
}

}  // namespace hlite::ops
