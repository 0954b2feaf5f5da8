// Kernels that copy rows: a thread has a piece of a row, so that neighbours are neighbours in a row.
#include "embedding/row_copies.h"

#include "embedding/piece_moves.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::embedding::gpu {
namespace {

template <typename W, int kPiece>
__global__ void __launch_bounds__(kItemThreads)
    copy_rows_kernel(Matrix<const W> from, Vector<const uint32_t> rows, Matrix<W> to, bool gather,
                     int lanes) {
  const int64_t width = from.dim(1);
  const auto other = [&](int64_t row) { return int64_t{rows.data()[row]}; };
  move_pieces<kPiece>(
      rows.dim(0), width, lanes,
      [&](int64_t row, int64_t column) {
        return load_pack<kPiece>(from.data() + (gather ? other(row) : row) * width + column);
      },
      [&](int64_t row, int64_t column, const Pack<W, kPiece>& piece) {
        store_pack(to.data() + (gather ? row : other(row)) * width + column, piece);
      });
}

void copy_rows(cudaStream_t stream, const ConstWeightRows& from, Vector<const uint32_t> rows,
               const WeightRows& to, bool gather) {
  with_float_type(from.type(), [&]<typename W>() {
    const Matrix<const W> source = from.as<W>();
    move_rows(gather ? "gather_rows" : "scatter_rows", rows.dim(0), from.dim(1),
              piece_for(from.dim(1), source.data(), to.as<W>().data()), stream,
              [&]<int kPiece>(const LaunchShape& shape, int lanes) {
                launch(shape, copy_rows_kernel<W, kPiece>, source, rows, to.as<W>(), gather, lanes);
              });
  });
}

}  // namespace

void gather_rows(cudaStream_t stream, const ConstWeightRows& table, Vector<const uint32_t> rows,
                 const WeightRows& out) {
  copy_rows(stream, table, rows, out, true);
}
void scatter_rows(cudaStream_t stream, const ConstWeightRows& in, Vector<const uint32_t> rows,
                  const WeightRows& table) {
  copy_rows(stream, in, rows, table, false);
}

HLITE_KERNELS(row_copies) {
  list.add<gather_rows>(kernels::gather_rows);
  list.add<scatter_rows>(kernels::scatter_rows);
}

}  // namespace hlite::embedding::gpu
