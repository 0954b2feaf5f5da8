// Kernels that copy rows: a thread an element, so that neighbours are neighbours in a row.
#include "embedding/row_copies.h"

#include "embedding/item_threads.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::embedding::gpu {
namespace {

__global__ void __launch_bounds__(kItemThreads)
    copy_rows_kernel(Matrix<const float> from, Vector<const uint32_t> rows, Matrix<float> to,
                     bool gather) {
  const int64_t i = global_thread();
  const int64_t width = from.dim(1), row = i / width, column = i - row * width;
  if (row >= rows.dim(0)) return;
  const int64_t other = int64_t{rows.data()[row]} * width + column;
  to.data()[gather ? i : other] = from.data()[gather ? other : i];
}

void copy_rows(cudaStream_t stream, Matrix<const float> from, Vector<const uint32_t> rows,
               Matrix<float> to, bool gather) {
  launch(item_shape(gather ? "gather_rows" : "scatter_rows", rows.dim(0) * from.dim(1), stream),
         copy_rows_kernel, from, rows, to, gather);
}

}  // namespace

void gather_rows(cudaStream_t stream, Matrix<const float> table, Vector<const uint32_t> rows,
                 Matrix<float> out) {
  copy_rows(stream, table, rows, out, true);
}
void scatter_rows(cudaStream_t stream, Matrix<const float> in, Vector<const uint32_t> rows,
                  Matrix<float> table) {
  copy_rows(stream, in, rows, table, false);
}

HLITE_KERNELS(row_copies) {
  list.add<gather_rows>(kernels::gather_rows);
  list.add<scatter_rows>(kernels::scatter_rows);
}

}  // namespace hlite::embedding::gpu
