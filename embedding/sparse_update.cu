// The sparse update: pairs, sort, sums and updates.
//
// Where the lookups of each table fit in the shared memory of a block or a cluster, one kernel makes
// the sorted list (table_sort.cuh). Else kernels make the pairs, CUB sorts them, and rows become
// lines.
//
// Bytes at the MLPerf DLRM shape (batch 65,536; 26 one-hot slots; V = 128; SGD), n = 1.70 M
// lookups, u n distinct rows (u = 0.12 with Criteo's skew, 1 with uniform keys),
// gradients of 16 bits:
//   pairs      keys 4 n read, rows and sources 8 n written                         20 MB
//   sort       by CUB: 28 bits are four passes of 16 n, 4 n for the histogram     116 MB
//              by clusters, with the pairs: in shared memory                         0
//   segments   list 8 n, gradients 256 n at random places, 1024 u n of rows       660 MB, 2.2 GB
//   carried    two rows of 512 bytes for 64 lookups at most, written and read      55 MB
// in all 0.85 GB (0.18 ms at 4.8 TB/s) and 2.4 GB (0.5 ms). The 14 MB of a list stay in the L2
// cache, so the sort costs latency rather than bandwidth, and as it needs keys only, it can be done
// while the network makes the gradients. Together with the lookup (1.3 GB, of which the skew leaves
// 0.55 GB): 1.4 GB or 0.3 ms with skew, 3.7 GB or 0.77 ms without;
// 1.5 G lookups a second are 1.14 ms.
//
// With atomics: gradients 256 n read in order, 512 n added to rows where they lie.
#include "embedding/sparse_update_args.h"

#include <algorithm>
#include <bit>

#include "embedding/cutter.h"
#include "embedding/find_row.cuh"
#include "embedding/item_threads.cuh"
#include "embedding/segment_update.cuh"
#include "embedding/table_sort.cuh"
#include "hugectr_lite/core/device_sort.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::embedding::gpu {
namespace {

using optimizer::OptimizerType;

constexpr int kAdds = 4;
constexpr int kMaxLevels = 8;  // 32^8 tiles

// Memory that the kernels of one step share. The sort's temporary memory follows it.
struct Workspace {
  unsigned long long* progress = nullptr;  // at the front: it begins as 0
  uint32_t* rows[2] = {};
  uint32_t* sources[2] = {};
  float* scale = nullptr;       // [max_batch * slots], for a mean
  uint32_t* touched = nullptr;  // a bit for each row, for sweeps
  size_t touched_bytes = 0;
  CarriedList carried[kMaxLevels] = {};  // [l]: what tiles of level l leave; 0: those of the sort
  size_t bytes = 0;
};

// Bits of a row's number and of total_rows, which stands for none and comes last.
int sort_bits(const SparseUpdateShape& shape) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(shape.total_rows)));
}

Workspace cut_workspace(const SparseUpdateShape& shape, std::byte* memory) {
  Workspace space;
  Cutter cutter(memory);
  if (!shape.atomic) space.progress = cutter.cut<unsigned long long>(1 + int64_t{shape.parts});
  if (shape.scales) space.scale = cutter.cut<float>(shape.max_batch * shape.slots);
  if (!shape.atomic) {
    int64_t count = shape.max_batch * shape.lookups;
    for (int i = 0; i < 2; ++i) {
      space.rows[i] = cutter.cut<uint32_t>(count);
      space.sources[i] = cutter.cut<uint32_t>(count);
    }
    if (shape.sweeps) {
      space.touched_bytes = static_cast<size_t>(shape.total_rows + 31) / 32 * sizeof(uint32_t);
      space.touched = cutter.cut<uint32_t>((shape.total_rows + 31) / 32);
    }
    int64_t tile = kTilePairs;
    for (int level = 0; count > tile; ++level, tile = kMinCarriedTile) {
      count = 2 * tiles_of(count, tile);
      space.carried[level] = {.rows = cutter.cut<uint32_t>(count),
                              .sources = cutter.cut<uint32_t>(count),
                              .sums = cutter.cut<float>(count * shape.width)};
    }
  }
  space.bytes = cutter.bytes();
  return space;
}

// A thread writes the pair of one lookup; neighbours write neighbouring pairs. Lookups without a
// row get the row total_rows. The first thread also makes the step's scalars.
__global__ void __launch_bounds__(kItemThreads)
    write_pairs_kernel(SlotsRef slots, const uint32_t* keys, uint32_t lookups, uint32_t* rows,
                       uint32_t* sources, uint32_t* touched, StepInputs in,
                       optimizer::StepScalars* scalars) {
  const int64_t i = global_thread();
  if (i == 0) *scalars = optimizer::step_scalars(in.rule, *in.lr, *in.step);
  if (i >= lookups) return;
  const Lookup lookup = find_lookup(slots, keys, static_cast<uint32_t>(i), KeyRecorder{});
  rows[i] = lookup.row == kNoRow ? static_cast<uint32_t>(slots.total_rows) : lookup.row;
  sources[i] = lookup.bag;
  if (touched && lookup.row != kNoRow) mark_row(touched, lookup.row);
}

// Replaces the rows of a sorted list by their lines and keeps its order. no_row becomes the number
// after the last line.
__global__ void __launch_bounds__(kItemThreads)
    take_lines_kernel(LineOfRow lines, uint32_t* rows, uint32_t lookups, uint32_t no_row) {
  const int64_t i = global_thread();
  if (i < lookups) rows[i] = rows[i] == no_row ? lines.lines : lines.line_of[rows[i]];
}

// A thread a bag: 1 / the number of its keys.
__global__ void __launch_bounds__(kItemThreads)
    scale_kernel(SlotsRef slots, const uint32_t* keys, uint32_t bags, float* scale) {
  const int64_t bag = global_thread();
  if (bag >= bags) return;
  const int64_t sample = bag / slots.count;
  const int64_t s = bag - sample * slots.count;
  const SlotRef slot = slots.slots[s];
  const int hotness = slots.hotness(s);
  const uint32_t* key = keys + sample * slots.columns + slot.column;
  int found = 0;
  for (int k = 0; k < hotness; ++k) found += slot.row_of(key[k]) != kNoRow || key[k] == kUnseen;
  scale[bag] = 1 / static_cast<float>(found > 1 ? found : 1);
}

// Rows without a lookup, with gradient 0: `lanes` lanes a row, rows in turn. Without a minimum of
// blocks per multiprocessor, ptxas saves registers of narrow rows by spilling some.
template <OptimizerType kRule, typename W, int kPiece>
__global__ void __launch_bounds__(kItemThreads, std::is_same_v<W, float> ? 0 : 1)
    sweep_kernel(TableRows<W> table, const uint32_t* touched, StepSource step_source, int lanes) {
  const DeviceStep step = load_step(step_source);
  const int64_t groups = int64_t{gridDim.x} * kItemThreads / lanes;
  const int64_t first = static_cast<int64_t>(threadIdx.x) % lanes * kPiece;
  if (step.skips || first >= table.width) return;
  for (int64_t row = global_thread() / lanes; row < table.no_row; row += groups) {
    if ((touched[row / 32] >> (row % 32) & 1u) != 0) continue;
    update_whole_row<kRule, kPiece, true>(step.scalars, table, row, lanes, first,
                                          [](int64_t) { return Pack<float, kPiece>{}; });
  }
}

__device__ inline void add_to_row(float* to, const Pack<float, 1>& term) {
  atomicAdd(to, term.value[0]);
}
__device__ inline void add_to_row(float* to, const Pack<float, 4>& term) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float4*>(to),
            make_float4(term.value[0], term.value[1], term.value[2], term.value[3]));
#else
#pragma unroll
  for (int j = 0; j < 4; ++j) atomicAdd(to + j, term.value[j]);
#endif
}

// The factor that SGD multiplies gradients by.
struct Descent {
  const float* lr;
  optimizer::GradientScale gradient_scale;
};

// A warp takes 32 neighbouring lookups: its lanes find a row each, then add the gradients, each
// shared by `lanes` lanes, kAdds on their way at a time. Gradients are read in their own order.
template <typename T, int kPiece>
__global__ void __launch_bounds__(kItemThreads)
    add_gradients_kernel(SlotsRef slots, const uint32_t* keys, uint32_t lookups, const T* dout,
                         const float* scale, float* table, Descent descent, int lanes) {
  const optimizer::GradientScale& loss_scale = descent.gradient_scale;
  if (loss_scale.skips()) return;
  const float rate = -*descent.lr * (loss_scale.inverse ? *loss_scale.inverse : 1.0f);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t mine = global_thread();
  Lookup own{kNoRow, 0};
  if (mine < lookups) own = find_lookup(slots, keys, static_cast<uint32_t>(mine), KeyRecorder{});
  const int groups = kWarp / lanes, group = lane / lanes;
  const int64_t width = slots.width;
  for (int at = 0; at < kWarp; at += kAdds * groups) {
    Lookup lookup[kAdds];
    float by[kAdds];
#pragma unroll
    for (int u = 0; u < kAdds; ++u) {
      const int from = at + u * groups + group;
      lookup[u].row = __shfl_sync(0xffffffffu, own.row, from % kWarp);
      lookup[u].bag = __shfl_sync(0xffffffffu, own.bag, from % kWarp);
      if (from >= kWarp) lookup[u].row = kNoRow;
      by[u] = lookup[u].row != kNoRow && scale ? rate * scale[lookup[u].bag] : rate;
    }
    for (int64_t column = lane % lanes * kPiece; column < width; column += lanes * kPiece) {
      Pack<T, kPiece> gradient[kAdds];
#pragma unroll
      for (int u = 0; u < kAdds; ++u)
        gradient[u] = lookup[u].row == kNoRow
                          ? Pack<T, kPiece>{}
                          : load_passing<kPiece>(dout + lookup[u].bag * width + column);
#pragma unroll
      for (int u = 0; u < kAdds; ++u) {
        if (lookup[u].row == kNoRow) continue;
        Pack<float, kPiece> term = floats_of(gradient[u]);
#pragma unroll
        for (int j = 0; j < kPiece; ++j) term.value[j] *= by[u];
        add_to_row(table + lookup[u].row * width + column, term);
      }
    }
  }
}

template <typename T>
void add_gradients(cudaStream_t stream, const SparseUpdateArgs<T>& args, int64_t lookups,
                   const Workspace& space) {
  const SparseSortArgs& of = args.sorted;
  const int piece = piece_for(of.shape.width, args.dout.data(), args.rows.w.floats());
  with_piece(piece, [&]<int kPiece>() {
    launch(item_shape("add_gradients", lookups, stream), add_gradients_kernel<T, kPiece>, of.slots,
           of.keys.data(), static_cast<uint32_t>(lookups), args.dout.data(), space.scale,
           args.rows.w.floats(), Descent{of.lr, args.gradient_scale},
           lanes_for(of.shape.width, piece));
  });
}

template <typename W>
void sweep(cudaStream_t stream, OptimizerType rule, const TableRows<W>& table,
           const StepSource& step, const Workspace& space) {
  const int piece = piece_for(table.width, table.w, table.state0, table.state1);
  const int lanes = lanes_for(table.width, piece);
  optimizer::with_rule_type(rule, [&]<OptimizerType kRule>() {
    if constexpr (optimizer::may_move_without_gradient(kRule))
      with_piece(piece, [&]<int kPiece>() {
        launch(item_shape("sweep", int64_t{table.no_row} * lanes, stream, int64_t{1} << 16),
               sweep_kernel<kRule, W, kPiece>, table, space.touched, step, lanes);
      });
  });
}

// The list of all lookups, then what its tiles carry, until one tile is left.
template <typename T, typename W>
void update_all_segments(cudaStream_t stream, OptimizerType rule, const SortedList<T>& lookups,
                         const TableRows<W>& table, const StepSource& step,
                         const Workspace& space) {
  update_segments(stream, rule, lookups, table, step, space.carried[0]);
  int64_t count = lookups.count > kTilePairs ? 2 * tiles_of(lookups.count) : 0;
  for (int level = 0; count > 0; ++level)
    count = update_carried(stream, rule, space.carried[level], count, table, step,
                           space.carried[level + 1]);
}

}  // namespace

size_t sparse_update_workspace(const SparseUpdateShape& shape) {
  const int64_t lookups = shape.max_batch * shape.lookups;
  if (lookups >= int64_t{1} << 31)
    throw CudaError("sparse update: expected fewer than 2^31 lookups a batch, found " +
                    std::to_string(lookups));
  const size_t bytes = cut_workspace(shape, nullptr).bytes;
  if (shape.atomic || lookups == 0) return bytes;
  return bytes +
         hlite::gpu::sort_pairs_bytes<uint32_t>(static_cast<uint32_t>(lookups), sort_bits(shape));
}

int sparse_sort(cudaStream_t stream, const SparseSortArgs& args) {
  const SparseUpdateShape& shape = args.shape;
  const int64_t batch = args.keys.dim(0), lookups = batch * shape.lookups;
  if (!indices_fit(args.slots, batch))
    throw CudaError("sparse update: expected fewer than 2^32 keys and rows, found a batch of " +
                    std::to_string(batch));
  const Workspace space = cut_workspace(shape, args.workspace);
  const int64_t bags = batch * shape.slots;
  if (shape.scales)
    launch(item_shape("bag_scale", bags, stream), scale_kernel, args.slots, args.keys.data(),
           static_cast<uint32_t>(bags), space.scale);
  if (shape.atomic) return 0;
  if (shape.sweeps) HLITE_CUDA(cudaMemsetAsync(space.touched, 0, space.touched_bytes, stream));
  const StepInputs inputs{args.rule, args.lr, args.step};
  const unsigned blocks =
      shape.parts > 0 ? table_sort_blocks(batch * shape.max_part_lookups, lookups) : 0;
  if (blocks > 0) {
    sort_by_table(stream,
                  {.slots = args.slots,
                   .keys = args.keys.data(),
                   .batch = static_cast<uint32_t>(batch),
                   .lines = args.lines,
                   .rows = space.rows[0],
                   .sources = space.sources[0],
                   .touched = space.touched,
                   .progress = space.progress,
                   .inputs = inputs,
                   .scalars = args.scalars},
                  blocks);
    return 0;
  }
  launch(item_shape("write_pairs", std::max<int64_t>(lookups, 1), stream), write_pairs_kernel,
         args.slots, args.keys.data(), static_cast<uint32_t>(lookups), space.rows[0],
         space.sources[0], space.touched, inputs, args.scalars);
  const hlite::gpu::Temporary temporary{args.workspace + space.bytes,
                                        args.workspace_bytes - space.bytes};
  const hlite::gpu::SortPairs<uint32_t> pairs{{space.rows[0], space.rows[1]},
                                              {space.sources[0], space.sources[1]},
                                              static_cast<uint32_t>(lookups)};
  const int buffer = hlite::gpu::sort_pairs(stream, temporary, pairs, sort_bits(shape));
  if (args.lines.line_of)
    launch(item_shape("take_lines", lookups, stream), take_lines_kernel, args.lines,
           space.rows[buffer], static_cast<uint32_t>(lookups),
           static_cast<uint32_t>(shape.total_rows));
  return buffer;
}

template <typename T>
void sparse_update(cudaStream_t stream, const SparseUpdateArgs<T>& args) {
  const SparseSortArgs& of = args.sorted;
  const SparseUpdateShape& shape = of.shape;
  const int64_t lookups = of.keys.dim(0) * shape.lookups;
  if (shape.atomic) return add_gradients(stream, args, lookups, cut_workspace(shape, of.workspace));
  const uint32_t no_row =
      of.lines.line_of ? of.lines.lines : static_cast<uint32_t>(shape.total_rows);
  with_float_type(args.rows.w.type(), [&]<typename W>() {
    const Workspace space = cut_workspace(shape, of.workspace);
    const auto table = table_rows<W>(args.rows, no_row, of.step);
    const StepSource step{of.scalars, args.gradient_scale};
    const SortedList<T> list{space.rows[args.buffer], space.sources[args.buffer], lookups,
                             args.dout.data(), space.scale};
    update_all_segments(stream, of.rule.type, list, table, step, space);
    if (shape.sweeps) sweep(stream, of.rule.type, table, step, space);
  });
}

HLITE_KERNELS(sparse_update) {
  list.add<sparse_update_workspace>(kernels::sparse_update_workspace);
  list.add<sparse_sort>(kernels::sparse_sort);
  for_each_float([&]<typename T>() { list.add<sparse_update<T>>(kernels::sparse_update<T>); });
}

}  // namespace hlite::embedding::gpu
