// Kernels of the lookup.
//
// Bytes at the MLPerf DLRM shape (batch 65,536; 26 one-hot slots; V = 128): keys 6.8 MB, rows 872
// MB (uniform keys; with Criteo's skew the L2 cache serves the majority), output 436 MB in 16
// bits or 872 MB in float: 0.27 ms or 0.37 ms at 4.8 TB/s.
//
// One-hot: a warp makes 32 neighbouring rows of the output. Its lanes find one row each, so that
// keys are read together and divisions are done once a row; then the warp copies the rows, each
// shared by `lanes` lanes with a piece of 16 bytes each, kCopies at a time so that enough bytes are
// on their way: 2 KiB a warp at V = 128. Tables of 16 bits and outputs of 16 bits: 8 elements a lane.
//
// Several keys a slot: the lanes of a row add up the rows of one bag in the order of its columns,
// kAdds on their way at a time, with the next keys read meanwhile. Sums run in one thread in a
// fixed order.
#include "embedding/lookup.h"

#include <algorithm>

#include "embedding/find_row.cuh"
#include "embedding/row_pieces.cuh"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::embedding::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kCopies = 4;
constexpr int kAdds = 4;

template <typename T, typename W, int kPiece>
__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(SlotsRef slots, const W* table, const uint32_t* keys, T* out, uint32_t bags,
                     int lanes, KeyRecorder check) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t mine = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t first = mine - lane;  // of the warp's rows of the output
  if (first >= bags) return;
  const uint32_t row =
      mine < bags ? find_lookup(slots, keys, static_cast<uint32_t>(mine), check).row : kNoRow;
  const int rows = static_cast<int>(bags - first < kWarp ? bags - first : kWarp);

  const int groups = kWarp / lanes, group = lane / lanes;
  const int64_t width = slots.width;
  for (int at = 0; at < rows; at += kCopies * groups) {
    uint32_t source[kCopies];
#pragma unroll
    for (int u = 0; u < kCopies; ++u)
      source[u] = __shfl_sync(0xffffffffu, row, (at + u * groups + group) % kWarp);
    for (int64_t column = lane % lanes * kPiece; column < width; column += lanes * kPiece) {
      Pack<W, kPiece> pieces[kCopies];
#pragma unroll
      for (int u = 0; u < kCopies; ++u)
        pieces[u] = source[u] == kNoRow || at + u * groups + group >= rows
                        ? Pack<W, kPiece>{}
                        : load_pack<kPiece>(table + source[u] * width + column);
#pragma unroll
      for (int u = 0; u < kCopies; ++u) {
        const int r = at + u * groups + group;
        if (r < rows) store_passing(out + (first + r) * width + column, converted<T>(pieces[u]));
      }
    }
  }
}

// Keys of one bag, and the rows they name, kAdds at a time.
struct BagRows {
  const SlotRef slot;
  const int hotness;
  const uint32_t* keys;
  const uint32_t first;  // of the bag's keys in the key matrix
  const KeyRecorder check;

  __device__ void find(int k, uint32_t (&rows)[kAdds]) const {
#pragma unroll
    for (int u = 0; u < kAdds; ++u)
      rows[u] = k + u < hotness ? find_row(slot, keys, first + static_cast<uint32_t>(k + u), check)
                                : kNoRow;
  }
};

template <typename T, typename W, int kPiece>
__global__ void __launch_bounds__(kThreads)
    pool_rows_kernel(SlotsRef slots, const W* table, const uint32_t* keys, T* out, uint32_t bags,
                     int lanes, KeyRecorder check) {
  const auto bag = static_cast<uint32_t>((int64_t{blockIdx.x} * kThreads + threadIdx.x) / lanes);
  if (bag >= bags) return;
  const auto count = static_cast<uint32_t>(slots.count);
  const uint32_t sample = bag / count;
  const uint32_t s = bag - sample * count;
  const SlotRef slot = slots.slots[s];
  const int hotness = slots.hotness(s);
  const int64_t width = slots.width;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (int64_t column = lane * kPiece; column < width; column += lanes * kPiece) {
    // One lane, in its first turn, records keys beyond the table.
    const BagRows bag_rows{
        slot, hotness, keys,
        sample * static_cast<uint32_t>(slots.columns) + static_cast<uint32_t>(slot.column),
        column == 0 ? check : KeyRecorder{}};
    Pack<float, kPiece> sum{};
    int found = 0;
    uint32_t rows[kAdds], next[kAdds];
    bag_rows.find(0, rows);
    for (int k = 0; k < hotness; k += kAdds) {
      Pack<W, kPiece> pieces[kAdds];
#pragma unroll
      for (int u = 0; u < kAdds; ++u)
        pieces[u] = rows[u] == kNoRow ? Pack<W, kPiece>{}
                                      : load_pack<kPiece>(table + rows[u] * width + column);
      bag_rows.find(k + kAdds, next);
#pragma unroll
      for (int u = 0; u < kAdds; ++u) {
        if (rows[u] != kNoRow) {
          const Pack<float, kPiece> row = floats_of(pieces[u]);
          // The first row as it is: added to 0 it would lose the sign of a zero.
#pragma unroll
          for (int j = 0; j < kPiece; ++j)
            sum.value[j] = found == 0 ? row.value[j] : sum.value[j] + row.value[j];
          ++found;
        }
        rows[u] = next[u];
      }
    }
    if (slots.mean && found > 1) {
      const float by = 1 / static_cast<float>(found);
#pragma unroll
      for (int j = 0; j < kPiece; ++j) sum.value[j] *= by;
    }
    store_passing(out + bag * width + column, rounded<T>(sum));
  }
}

}  // namespace

template <typename T>
void lookup_forward(cudaStream_t stream, const SlotsRef& slots, const ConstWeightRows& rows,
                    Matrix<const uint32_t> keys, View<T, 3> out, const KeyRecorder& check) {
  const int64_t batch = keys.dim(0), bags = batch * slots.count;
  if (!indices_fit(slots, batch))
    throw CudaError("lookup: expected fewer than 2^32 keys and rows, found a batch of " +
                    std::to_string(batch));
  with_float_type(rows.type(), [&]<typename W>() {
    const W* const table = rows.as<W>().data();
    const auto start = [&]<int kPiece>() {
      const bool copies = slots.one_hot();
      const int lanes = lanes_for(slots.width, kPiece);
      launch({.name = "lookup_forward",
              .grid = grid_for(copies ? bags : bags * lanes, kThreads, kMaxGridX),
              .block = kThreads,
              .stream = stream},
             copies ? copy_rows_kernel<T, W, kPiece> : pool_rows_kernel<T, W, kPiece>, slots, table,
             keys.data(), out.data(), static_cast<uint32_t>(bags), lanes, check);
    };
    constexpr int kWide = kPackCount<T, W>;  // 8 where both are of 16 bits
    if (kWide > 4 && slots.width % kWide == 0 && starts_pack<kWide>(table) &&
        starts_pack<kWide>(out.data()))
      return start.template operator()<kWide>();
    with_piece(piece_for(slots.width, table, out.data()), start);
  });
}

HLITE_KERNELS(lookup) {
  for_each_float([&]<typename T>() { list.add<lookup_forward<T>>(kernels::lookup_forward<T>); });
}

}  // namespace hlite::embedding::gpu
