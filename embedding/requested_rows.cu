// A thread an element, or in updates a piece, so that neighbours are neighbours in a row.
#include "embedding/requested_rows.h"

#include "embedding/item_threads.cuh"
#include "embedding/row_update.cuh"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/no_key.h"

namespace hlite::embedding::gpu {
namespace {

// The element of a row that a thread works on.
struct Element {
  int64_t row, column;
};
__device__ inline Element element_of(int64_t width) {
  const int64_t i = global_thread(), row = i / width;
  return {row, i - row * width};
}

__global__ void __launch_bounds__(kItemThreads)
    gather_requested_kernel(Matrix<const float> table, Vector<const uint32_t> rows,
                            const uint32_t* count, Matrix<float> out) {
  const int64_t width = out.dim(1);
  const auto [row, column] = element_of(width);
  if (row >= rows.dim(0) || (count && row >= *count)) return;
  const uint32_t from = rows.data()[row];
  if (from != kNoKey)
    out.data()[row * width + column] = table.data()[int64_t{from} * width + column];
}

template <typename From, typename To>
__global__ void __launch_bounds__(kItemThreads)
    convert_requested_kernel(ExchangeShape shape, const uint32_t* counts, const From* from,
                             To* to) {
  const auto [row, column] = element_of(shape.width);
  if (row >= shape.list_capacity()) return;
  const int64_t list = row / shape.capacity, i = row * shape.width + column;
  if (row - list * shape.capacity < counts[list]) to[i] = from_float<To>(to_float(from[i]));
}

__global__ void __launch_bounds__(kItemThreads) scatter_scaled_kernel(ScatterArgs args) {
  const int64_t width = args.in.dim(1);
  const auto [row, column] = element_of(width);
  if (row >= args.rows.dim(0) || row >= *args.count) return;
  const int64_t to = args.rows.data()[row];
  const float factor = args.factor ? *args.factor : 1.0f;
  args.out.data()[to * width + column] = args.in.data()[row * width + column] * factor;
  if (args.touched && column == 0) args.touched[to] = 1;
}

// `lanes` lanes a row, rows in turn.
template <optimizer::OptimizerType kRule, int kPiece>
__global__ void __launch_bounds__(kItemThreads) update_rows_kernel(RowsUpdateArgs args, int lanes) {
  if (args.scale.skips()) return;
  args.rule.type = kRule;
  __shared__ optimizer::StepScalars shared;
  if (threadIdx.x == 0) shared = optimizer::step_scalars(args.rule, *args.lr, *args.step);
  __syncthreads();
  const optimizer::StepScalars scalars = shared;
  const float inverse = args.scale.inverse ? *args.scale.inverse : 1.0f;
  const UpdatedRows& rows = args.rows;
  const int64_t width = rows.w.dim(1), first = (threadIdx.x & (lanes - 1u)) * kPiece;
  const TableRows table{rows.w.floats(), rows.state0.data(), rows.state1.data(), width, kNoKey};
  if (first >= width) return;
  for (int64_t row = global_thread() / lanes; row < rows.w.dim(0); row += grid_threads() / lanes) {
    if (args.touched && args.touched[row] == 0) continue;
    update_whole_row<kRule, kPiece, false>(scalars, table, row, lanes, first, [&](int64_t column) {
      auto g = load_pack<kPiece>(args.gradients + row * width + column);
#pragma unroll
      for (int j = 0; j < kPiece; ++j) g.value[j] *= inverse;
      return g;
    });
  }
}

}  // namespace

void gather_requested(cudaStream_t stream, const ConstWeightRows& table,
                      Vector<const uint32_t> rows, const uint32_t* count, Matrix<float> out) {
  launch(item_shape("gather_requested", rows.dim(0) * out.dim(1), stream), gather_requested_kernel,
         table.as<float>(), rows, count, out);
}

void round_requested(cudaStream_t stream, const ExchangeShape& shape, const uint32_t* counts,
                     Matrix<const float> rows, Matrix<bf16> narrow) {
  launch(item_shape("round_requested", shape.list_capacity() * shape.width, stream),
         convert_requested_kernel<float, bf16>, shape, counts, rows.data(), narrow.data());
}

void widen_requested(cudaStream_t stream, const ExchangeShape& shape, const uint32_t* counts,
                     Matrix<const bf16> narrow, Matrix<float> rows) {
  launch(item_shape("widen_requested", shape.list_capacity() * shape.width, stream),
         convert_requested_kernel<bf16, float>, shape, counts, narrow.data(), rows.data());
}

void scatter_scaled(cudaStream_t stream, const ScatterArgs& args) {
  launch(item_shape("scatter_scaled", args.rows.dim(0) * args.in.dim(1), stream),
         scatter_scaled_kernel, args);
}

void update_rows(cudaStream_t stream, const RowsUpdateArgs& args) {
  constexpr int64_t kMaxBlocks = 132 * 8;  // powers of a step are taken once a block
  const UpdatedRows& rows = args.rows;
  const int piece = piece_for(rows.w.dim(1), args.gradients, rows.w.floats(), rows.state0.data(),
                              rows.state1.data());
  const int lanes = lanes_for(rows.w.dim(1), piece);
  optimizer::with_rule_type(args.rule.type, [&]<optimizer::OptimizerType kRule>() {
    with_piece(piece, [&]<int kPiece>() {
      launch(item_shape("update_rows", rows.w.dim(0) * lanes, stream, kMaxBlocks),
             update_rows_kernel<kRule, kPiece>, args, lanes);
    });
  });
}

HLITE_KERNELS(requested_rows) {
  list.add<gather_requested>(kernels::gather_requested);
  list.add<round_requested>(kernels::round_requested);
  list.add<widen_requested>(kernels::widen_requested);
  list.add<scatter_scaled>(kernels::scatter_scaled);
  list.add<update_rows>(kernels::update_rows);
}

}  // namespace hlite::embedding::gpu
