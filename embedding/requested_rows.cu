// A thread has a piece of a row, so that neighbours are neighbours in a row.
#include "embedding/requested_rows.h"

#include "embedding/piece_moves.cuh"
#include "embedding/row_update.cuh"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/no_key.h"

namespace hlite::embedding::gpu {
namespace {

template <typename W, int kPiece>
struct FoundPiece {
  bool there = false;
  Pack<W, kPiece> values = {};
};

// A minimum of one block: without one ptxas saves registers by spilling some.
template <typename W, int kPiece>
__global__ void __launch_bounds__(kItemThreads, 1)
    gather_requested_kernel(Matrix<const W> table, Vector<const uint32_t> rows,
                            const uint32_t* count, Matrix<float> out, int lanes) {
  const int64_t width = out.dim(1);
  const int64_t n = count && *count < rows.dim(0) ? *count : rows.dim(0);
  move_pieces<kPiece>(
      n, width, lanes,
      [&](int64_t row, int64_t column) {
        FoundPiece<W, kPiece> found;
        const uint32_t from = rows.data()[row];
        found.there = from != kNoKey;
        if (found.there)
          found.values = load_pack<kPiece>(table.data() + int64_t{from} * width + column);
        return found;
      },
      [&](int64_t row, int64_t column, const FoundPiece<W, kPiece>& found) {
        if (found.there) store_pack(out.data() + row * width + column, floats_of(found.values));
      });
}

// Block row y of the grid: the list of rank y.
template <int kPiece, typename From, typename To>
__global__ void __launch_bounds__(kItemThreads)
    convert_requested_kernel(ExchangeShape shape, const uint32_t* counts, const From* from, To* to,
                             int lanes) {
  const int64_t width = shape.width, start = blockIdx.y * shape.capacity * width;
  const int64_t listed = counts[blockIdx.y];
  move_pieces<kPiece>(
      listed < shape.capacity ? listed : shape.capacity, width, lanes,
      [&](int64_t row, int64_t column) {
        return load_pack<kPiece>(from + start + row * width + column);
      },
      [&](int64_t row, int64_t column, const Pack<From, kPiece>& piece) {
        store_pack(to + start + row * width + column, rounded<To>(floats_of(piece)));
      });
}

template <int kPiece>
__global__ void __launch_bounds__(kItemThreads) scatter_scaled_kernel(ScatterArgs args, int lanes) {
  const int64_t width = args.in.dim(1);
  const int64_t n = *args.count < args.rows.dim(0) ? *args.count : args.rows.dim(0);
  const float factor = args.factor ? *args.factor : 1.0f;
  move_pieces<kPiece>(
      n, width, lanes,
      [&](int64_t row, int64_t column) {
        return load_pack<kPiece>(args.in.data() + row * width + column);
      },
      [&](int64_t row, int64_t column, Pack<float, kPiece> piece) {
        const int64_t to = args.rows.data()[row];
#pragma unroll
        for (int j = 0; j < kPiece; ++j) piece.value[j] *= factor;
        store_pack(args.out.data() + to * width + column, piece);
        if (args.touched && column == 0) args.touched[to] = 1;
      });
}

// `lanes` lanes a row, rows in turn.
template <optimizer::OptimizerType kRule, typename W, int kPiece>
__global__ void __launch_bounds__(kItemThreads)
    update_rows_kernel(RowsUpdateArgs args, TableRows<W> table, int lanes) {
  if (args.scale.skips()) return;
  args.rule.type = kRule;
  __shared__ optimizer::StepScalars shared;
  if (threadIdx.x == 0) shared = optimizer::step_scalars(args.rule, *args.lr, *args.step);
  __syncthreads();
  const optimizer::StepScalars scalars = shared;
  const float inverse = args.scale.inverse ? *args.scale.inverse : 1.0f;
  const int64_t width = table.width, first = (threadIdx.x & (lanes - 1u)) * kPiece;
  if (first >= width) return;
  for (int64_t row = global_thread() / lanes; row < args.rows.w.dim(0);
       row += grid_threads() / lanes) {
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
  with_float_type(table.type(), [&]<typename W>() {
    const Matrix<const W> from = table.as<W>();
    move_rows("gather_requested", rows.dim(0), out.dim(1),
              piece_for(out.dim(1), from.data(), out.data()), stream,
              [&]<int kPiece>(const LaunchShape& shape, int lanes) {
                launch(shape, gather_requested_kernel<W, kPiece>, from, rows, count, out, lanes);
              });
  });
}

template <typename From, typename To>
static void convert_requested(const char* name, cudaStream_t stream, const ExchangeShape& shape,
                              const uint32_t* counts, const From* from, To* to) {
  move_rows(name, shape.capacity, shape.width, piece_for(shape.width, from, to), stream,
            [&]<int kPiece>(LaunchShape launched, int lanes) {
              launched.grid.y = static_cast<unsigned>(shape.ranks);
              launch(launched, convert_requested_kernel<kPiece, From, To>, shape, counts, from, to,
                     lanes);
            });
}

void round_requested(cudaStream_t stream, const ExchangeShape& shape, const uint32_t* counts,
                     Matrix<const float> rows, Matrix<bf16> narrow) {
  convert_requested("round_requested", stream, shape, counts, rows.data(), narrow.data());
}

void widen_requested(cudaStream_t stream, const ExchangeShape& shape, const uint32_t* counts,
                     Matrix<const bf16> narrow, Matrix<float> rows) {
  convert_requested("widen_requested", stream, shape, counts, narrow.data(), rows.data());
}

void scatter_scaled(cudaStream_t stream, const ScatterArgs& args) {
  const int64_t width = args.in.dim(1);
  move_rows("scatter_scaled", args.rows.dim(0), width,
            piece_for(width, args.in.data(), args.out.data()), stream,
            [&]<int kPiece>(const LaunchShape& shape, int lanes) {
              launch(shape, scatter_scaled_kernel<kPiece>, args, lanes);
            });
}

void update_rows(cudaStream_t stream, const RowsUpdateArgs& args) {
  constexpr int64_t kMaxBlocks = 132 * 8;  // powers of a step are taken once a block
  with_float_type(args.rows.w.type(), [&]<typename W>() {
    const auto table = table_rows<W>(args.rows, kNoKey, args.step);
    const int piece = piece_for(table.width, args.gradients, table.w, table.state0, table.state1);
    const int lanes = lanes_for(table.width, piece);
    optimizer::with_rule_type(args.rule.type, [&]<optimizer::OptimizerType kRule>() {
      with_piece(piece, [&]<int kPiece>() {
        launch(item_shape("update_rows", args.rows.w.dim(0) * lanes, stream, kMaxBlocks),
               update_rows_kernel<kRule, W, kPiece>, args, table, lanes);
      });
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
