// The kernels that sum and apply sorted gradients.
//
// `lanes` lanes share a tile of the list and walk through it together, each with a piece of every
// row: four pairs at a time, so that four gradients, and those rows of table and states that end
// among the four, are on their way at once (at V = 128 and 16-bit gradients 1 to 3 KiB a warp). All
// lanes of a tile take the same branches. Sums run in one thread: by pair, in the list's order.
//
// Rows of a multiple of 128 columns, 16 bytes aligned, are walked through by whole warps, with the
// same sums in the same order, but with gradients further ahead. A random row of memory takes about
// a microsecond to come; 4.1 TB/s are 30 bytes a nanosecond and multiprocessor, so 30 KiB must be
// on their way at any time, which four gradients of 256 bytes in each of 24 warps are only while
// none of these waits for its table rows. So a warp's list lies in shared memory beside a ring of
// gradients (cp.async, 16 bytes a lane: two gradients of 16 bits an instruction), of which 12 (of
// float 8) are ahead of the four that are added: 72 KiB and more a multiprocessor. Rows that end
// among them are asked for into the L2 cache at the same time.
//
// Of a tile's segments only the first can come from the tile before and only the last go on in the
// next one; what they have here goes to entries 2 * tile and 2 * tile + 1 of the carried list. A
// segment that fills the tile has both of its entries: they must be side by side. So must the
// entries of a segment in several tiles, and are: unused ones (no_row) lie only between segments.
//
// Carried lists are short, and their time is that of dependent steps: a launch, and four pairs
// after four others, each at the latency of the L2 cache. A block takes a tile of them at once: its
// groups of lanes walk through up to 32 entries each, then, in shared memory, through what these
// carried, 16 entries a group, until one group is left, whose two entries are those of the block.
// With 1.70 M lookups at V = 128 the 53,248 carried entries are 104 blocks, and their 208 one: two
// launches with 8 and 4 steps of device memory, and 5 each of shared memory. Where tiles begin
// depends on the number of entries and the width alone, so that every sum keeps one order.
#include <cuda_pipeline_primitives.h>

#include <algorithm>

#include "embedding/segment_update.cuh"

namespace hlite::embedding::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kStep = kPairsPerLoad;
constexpr int kCarriedThreads = 512;
constexpr int kCarriedPairs = 32;  // of a group, at most
constexpr int kSharedPairs = 16;   // of a group, in shared memory
static_assert(kCarriedThreads / kWarp * kCarriedPairs == kMinCarriedTile);

struct alignas(16) FourPairs {
  uint32_t row[kStep], source[kStep];
};

// A list as one lane sees it.
template <typename T>
struct LaneList {
  const uint32_t* rows;
  const uint32_t* sources;
  int32_t count;
  const T* gradients;  // [*, stride]
  int64_t stride;
  int64_t column;  // the lane's in them
  const float* scale;
  uint32_t before, after;  // rows of the pairs around the list; no_row: none
};
struct LaneCarried {
  uint32_t* rows;  // null: this lane writes none
  uint32_t* sources;
  float* sums;  // [*, stride]
  int64_t stride;
  int64_t column;
  int32_t first = 0;  // entry of the first tile
};

// A tile of a list, and the rows of the segments that come from the tile before and go on in the
// next one; no_row: none does.
struct Tile {
  int32_t begin, end;
  uint32_t from_left, to_right;
};
__device__ inline Tile tile_of(const uint32_t* rows, int32_t count, uint32_t before, uint32_t after,
                               int32_t index, int32_t pairs) {
  const int32_t begin = index * pairs;
  const int32_t end = pairs < count - begin ? begin + pairs : count;
  return {begin, end, begin > 0 ? rows[begin - 1] : before, end < count ? rows[end] : after};
}

// The pairs at `at`; those from `end` on are passed over.
template <typename T>
__device__ inline FourPairs load_pairs(const LaneList<T>& list, int32_t at, int32_t end,
                                       uint32_t no_row) {
  const auto rows = load_pack<kStep>(list.rows + at);
  const auto sources = load_pack<kStep>(list.sources + at);
  FourPairs pairs;
#pragma unroll
  for (int u = 0; u < kStep; ++u) {
    pairs.row[u] = at + u < end ? rows.value[u] : no_row;
    pairs.source[u] = sources.value[u];
  }
  return pairs;
}

template <int kPiece>
__device__ inline Pack<float, kPiece> scaled(const Pack<float, kPiece>& sum, float by) {
  Pack<float, kPiece> product;
#pragma unroll
  for (int j = 0; j < kPiece; ++j) product.value[j] = sum.value[j] * by;
  return product;
}

// Gradients of lookups pass once; carried sums lie in the L2 cache, or in shared memory.
template <int kPiece, bool kPassing, typename T>
__device__ inline Pack<T, kPiece> load_gradient(const T* from) {
  if constexpr (kPassing) return load_passing<kPiece>(from);
  return load_pack<kPiece>(from);
}

// Writes whose sums a tile's two carried entries are, from `entry` on: those of the segment that
// comes from the tile before, and of the one that goes on in the next. `first` and `last` are the
// rows of the tile's outermost pairs.
template <typename Carried>
__device__ inline void name_carried(uint32_t first, uint32_t last, const Tile& tile,
                                    uint32_t no_row, int32_t entry, const Carried& carried) {
  const bool left = tile.from_left != no_row && first == tile.from_left;
  const bool right = tile.to_right != no_row && last == tile.to_right;
  carried.rows[entry] = left ? tile.from_left : no_row;
  carried.sources[entry] = static_cast<uint32_t>(entry);
  carried.rows[entry + 1] = right ? tile.to_right : no_row;
  carried.sources[entry + 1] =
      left && tile.from_left == tile.to_right ? kNoSource : static_cast<uint32_t>(entry + 1);
}

// One lane's walk through the index'th tile of the list, by `lanes` lanes; `column` is the lane's
// in the table.
template <optimizer::OptimizerType kRule, RowPart kPart, int kPiece, bool kPassing, typename T,
          typename W>
__device__ inline void walk(const LaneList<T>& list, int32_t index, int32_t pairs_of_tile,
                            const TableRows<W>& table, int64_t column, int lanes,
                            const DeviceStep& step, const LaneCarried& carried) {
  const RowLanes of_row = RowLanes::at(lanes, kPiece, column, table.width);
  const Tile tile = tile_of(list.rows, list.count, list.before, list.after, index, pairs_of_tile);
  const uint32_t no_row = table.no_row;
  Pack<float, kPiece> sum{};
  FourPairs next = load_pairs(list, tile.begin, tile.end, no_row);
  for (int32_t at = tile.begin; at < tile.end; at += kStep) {
    const FourPairs pairs = next;
    if (kStep < tile.end - at)
      next = load_pairs(list, at + kStep, tile.end, no_row);
    else
      next.row[0] = no_row;

    Pack<T, kPiece> gradient[kStep];
    float scale[kStep];
    RowPieces<kRule, W, kPiece, kPart> row[kStep];
    bool ends[kStep], applies[kStep];  // the segment ends here; and lies wholly in this tile
#pragma unroll
    for (int u = 0; u < kStep; ++u) {
      const uint32_t r = pairs.row[u], source = pairs.source[u];
      const bool counts = r != no_row && source != kNoSource;
      gradient[u] = Pack<T, kPiece>{};
      if (counts)
        gradient[u] =
            load_gradient<kPiece, kPassing>(list.gradients + source * list.stride + list.column);
      scale[u] = counts && list.scale ? list.scale[source] : 1.0f;
      ends[u] = r != no_row && r != (u + 1 < kStep ? pairs.row[(u + 1) % kStep] : next.row[0]);
      applies[u] = ends[u] && r != tile.from_left && r != tile.to_right;
      if (applies[u]) row[u].load(table, r, column, of_row);
    }
#pragma unroll
    for (int u = 0; u < kStep; ++u) {
      const Pack<float, kPiece> term = floats_of(gradient[u]);
#pragma unroll
      for (int j = 0; j < kPiece; ++j) sum.value[j] += term.value[j] * scale[u];
      if (!ends[u]) continue;
      if (applies[u]) {
        row[u].update(step.scalars, scaled(sum, step.gradient_scale), table.width, of_row);
        row[u].store(table, pairs.row[u], column, of_row);
      } else {
        const int64_t entry = carried.first + 2 * index + (pairs.row[u] == tile.from_left ? 0 : 1);
        store_pack(carried.sums + entry * carried.stride + carried.column, sum);
      }
      sum = Pack<float, kPiece>{};
    }
  }

  if (carried.rows)
    name_carried(list.rows[tile.begin], list.rows[tile.end - 1], tile, no_row,
                 carried.first + 2 * index, carried);
}

// Blocks of a multiprocessor: loads on their way count more here than registers.
template <optimizer::OptimizerType kRule, RowPart kPart, typename T, typename W, int kPiece>
__global__ void __launch_bounds__(
    kThreads, optimizer::state_count(kRule) == 0 && std::is_same_v<W, float> ? 3 : 2)
    update_segments_kernel(SortedList<T> list, TableRows<W> table, StepSource step_source,
                           CarriedList carried, int lanes, unsigned first_slice) {
  const DeviceStep step = load_step(step_source);
  const int64_t tile = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / lanes;
  const int64_t column =
      (int64_t{first_slice + blockIdx.y} * lanes + static_cast<int>(threadIdx.x) % lanes) * kPiece;
  if (step.skips || tile * kTilePairs >= list.count || column >= table.width) return;
  const LaneList<T> mine{.rows = list.rows,
                         .sources = list.sources,
                         .count = static_cast<int32_t>(list.count),
                         .gradients = list.gradients,
                         .stride = table.width,
                         .column = column,
                         .scale = list.scale,
                         .before = table.no_row,
                         .after = table.no_row};
  const bool writes = column == 0 && list.count > kTilePairs;
  walk<kRule, kPart, kPiece, true>(
      mine, static_cast<int32_t>(tile), kTilePairs, table, column, lanes, step,
      {writes ? carried.rows : nullptr, carried.sources, carried.sums, table.width, column});
}

// What a warp has in shared memory: the pairs of its tile, and a ring of steps of gradients.
template <typename T>
struct WarpTile {
  static constexpr int kPiece = 4;
  static constexpr int kColumns = kWarp * kPiece;        // of a slice
  static constexpr int kSteps = sizeof(T) == 2 ? 4 : 3;  // of the ring; one of them is being added
  static constexpr int kChunk = 16 / sizeof(T);          // elements that a lane copies at once
  static constexpr int kCopied = kWarp * kChunk / kColumns;  // gradients that a warp copies at once
  alignas(16) T gradients[kSteps][kStep][kColumns];
  alignas(16) float scales[kTilePairs];
  uint32_t sources[kTilePairs];
  uint32_t rows[kTilePairs + 1];  // no_row from the tile's end on
};

// The same as update_segments_kernel() with 32 lanes a tile.
template <optimizer::OptimizerType kRule, RowPart kPart, typename T, typename W>
__global__ void __launch_bounds__(kThreads, 4 - optimizer::state_count(kRule))
    update_by_warps_kernel(SortedList<T> list, TableRows<W> table, StepSource step_source,
                           CarriedList carried, unsigned first_slice) {
  using Shared = WarpTile<T>;
  constexpr int kPiece = Shared::kPiece;
  const DeviceStep step = load_step(step_source);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const auto index = static_cast<int32_t>(blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp);
  if (step.skips || int64_t{index} * kTilePairs >= list.count) return;
  const int64_t slice = int64_t{first_slice + blockIdx.y} * Shared::kColumns;
  const int64_t column = slice + lane * kPiece;
  const RowLanes of_row = RowLanes::at(kWarp, kPiece, column, table.width);
  const uint32_t no_row = table.no_row;
  const Tile tile = tile_of(list.rows, static_cast<int32_t>(list.count), no_row, no_row, index,
                            static_cast<int32_t>(kTilePairs));
  Shared& mine = dynamic_shared<Shared>()[threadIdx.x / kWarp];

  // Two pairs a lane.
  constexpr int kOwn = kTilePairs / kWarp;
  uint32_t row_of[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int p = i * kWarp + lane;
    const bool known = p < tile.end - tile.begin;
    row_of[i] = known ? list.rows[tile.begin + p] : no_row;
    const uint32_t source = known ? list.sources[tile.begin + p] : 0;
    mine.rows[p] = row_of[i];
    mine.sources[p] = source;
    if (list.scale && row_of[i] != no_row)
      __pipeline_memcpy_async(&mine.scales[p], list.scale + source, sizeof(float));
  }
  if (lane == 0) mine.rows[kTilePairs] = no_row;
  __syncwarp();
  // Bit p: a segment ends at the tile's p-th pair; and lies wholly in this tile.
  uint64_t ends = 0, applies = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const uint32_t r = row_of[i];
    const bool last = r != no_row && r != mine.rows[i * kWarp + lane + 1];
    const bool whole = last && r != tile.from_left && r != tile.to_right;
    ends |= uint64_t{__ballot_sync(0xffffffffu, last)} << (i * kWarp);
    applies |= uint64_t{__ballot_sync(0xffffffffu, whole)} << (i * kWarp);
  }

  const int size = tile.end - tile.begin;
  const auto bit = [](uint64_t bits, int p) { return (bits >> p & 1) != 0; };
  // Starts to copy the gradients of the step at pair `at`, if there is one.
  const auto fetch = [&](int at) {
    if (at < size) {
      const int of = lane * Shared::kChunk / Shared::kColumns;
      const int part = lane * Shared::kChunk % Shared::kColumns;
#pragma unroll
      for (int u = of; u - of < kStep; u += Shared::kCopied) {
        T* const to = &mine.gradients[at / kStep % Shared::kSteps][u][part];
        if (mine.rows[at + u] != no_row)
          __pipeline_memcpy_async(
              to, list.gradients + mine.sources[at + u] * table.width + slice + part, 16);
        else
          store_pack(to, Pack<T, Shared::kChunk>{});
      }
#pragma unroll
      for (int u = 0; u < kStep; ++u)
        if (bit(applies, at + u))
          RowPieces<kRule, W, kPiece, kPart>::prefetch(table, mine.rows[at + u], column, of_row);
    }
    __pipeline_commit();
  };
#pragma unroll
  for (int s = 0; s + 1 < Shared::kSteps; ++s) fetch(s * kStep);

  Pack<float, kPiece> sum{};
  for (int at = 0; at < size; at += kStep) {
    RowPieces<kRule, W, kPiece, kPart> row[kStep];
#pragma unroll
    for (int u = 0; u < kStep; ++u)
      if (bit(applies, at + u)) row[u].load(table, mine.rows[at + u], column, of_row);
    __pipeline_wait_prior(Shared::kSteps - 2);
    __syncwarp();  // the step is there, and the one before has been read by all
    fetch(at + (Shared::kSteps - 1) * kStep);
    Pack<float, kStep> scale{{1, 1, 1, 1}};
    if (list.scale) scale = load_pack<kStep>(&mine.scales[at]);
#pragma unroll
    for (int u = 0; u < kStep; ++u) {
      const Pack<float, kPiece> term = floats_of(
          load_pack<kPiece>(&mine.gradients[at / kStep % Shared::kSteps][u][lane * kPiece]));
      const float by = mine.rows[at + u] != no_row ? scale.value[u] : 1.0f;
#pragma unroll
      for (int j = 0; j < kPiece; ++j) sum.value[j] += term.value[j] * by;
      if (!bit(ends, at + u)) continue;
      const uint32_t r = mine.rows[at + u];
      if (bit(applies, at + u)) {
        row[u].update(step.scalars, scaled(sum, step.gradient_scale), table.width, of_row);
        row[u].store(table, r, column, of_row);
      } else {
        const int64_t entry = 2 * int64_t{index} + (r == tile.from_left ? 0 : 1);
        store_whole(carried.sums + entry * table.width + column, sum);
      }
      sum = Pack<float, kPiece>{};
    }
  }
  __pipeline_wait_prior(0);
  if (column == 0 && list.count > kTilePairs)
    name_carried(mine.rows[0], mine.rows[size - 1], tile, no_row, 2 * index, carried);
}

// The values that the groups of a block carry. Pieces of kPiece floats: an entry has one for each
// lane.
template <int kPiece, int kPieces>
struct SharedList {
  alignas(16) uint32_t rows[kPieces];
  alignas(16) uint32_t sources[kPieces];
  alignas(16) float sums[kPieces * kPiece];
};

// `pairs`: entries that a group takes, so that the block's groups reach one tile of the list.
// Without a minimum of blocks per multiprocessor, ptxas saves registers of kState and of rules
// with fewer than two states by spilling some.
template <optimizer::OptimizerType kRule, RowPart kPart, typename W, int kPiece>
__global__ void __launch_bounds__(
    kCarriedThreads, kPart == RowPart::kState || optimizer::state_count(kRule) <= 1 ? 1 : 0)
    update_carried_kernel(CarriedList list, int32_t count, int32_t pairs, TableRows<W> table,
                          StepSource step_source, CarriedList carried, int lanes,
                          unsigned first_slice) {
  // Two entries a group; then two for 16 of those, and so on, to and fro.
  __shared__ SharedList<kPiece, 2 * kCarriedThreads> first;
  __shared__ SharedList<kPiece, 4 * kCarriedThreads / kSharedPairs> second;
  const DeviceStep step = load_step(step_source);
  if (step.skips) return;
  const int group = static_cast<int>(threadIdx.x) / lanes;
  const int piece = static_cast<int>(threadIdx.x) % lanes * kPiece;
  const int64_t column = int64_t{first_slice + blockIdx.y} * lanes * kPiece + piece;
  const int32_t tile = kCarriedThreads / lanes * pairs, begin = blockIdx.x * tile;
  const int32_t end = tile < count - begin ? begin + tile : count;
  LaneList<float> mine{.rows = list.rows + begin,
                       .sources = list.sources + begin,  // entries of the whole list
                       .count = end - begin,
                       .gradients = list.sums,
                       .stride = table.width,
                       .column = column,
                       .scale = nullptr,
                       .before = begin > 0 ? list.rows[begin - 1] : table.no_row,
                       .after = end < count ? list.rows[end] : table.no_row};
  for (bool odd = false;; odd = !odd, pairs = kSharedPairs) {
    const int32_t tiles = (mine.count + pairs - 1) / pairs;
    uint32_t* const rows = odd ? second.rows : first.rows;
    uint32_t* const sources = odd ? second.sources : first.sources;
    float* const sums = odd ? second.sums : first.sums;
    const int64_t stride = int64_t{lanes} * kPiece;
    const bool last = tiles == 1;
    LaneCarried to{piece == 0 ? rows : nullptr, sources, sums, stride, piece};
    if (last)
      to = {column == 0 && gridDim.x > 1 ? carried.rows : nullptr,
            carried.sources,
            carried.sums,
            table.width,
            column,
            2 * static_cast<int32_t>(blockIdx.x)};
    if (group < tiles && column < table.width)
      walk<kRule, kPart, kPiece, false>(mine, group, pairs, table, column, lanes, step, to);
    if (last) return;
    __syncthreads();
    mine.rows = rows;
    mine.sources = sources;
    mine.count = 2 * tiles;
    mine.gradients = sums;
    mine.stride = stride;
    mine.column = piece;
  }
}

// Calls launch.template operator()<part>(first slice, slices) for the launches that a rule takes
// for rows of so many slices. Each walks through the same lists and carries the same sums.
template <optimizer::OptimizerType kRule, typename Launch>
void in_parts(unsigned slices, Launch&& launch) {
  if constexpr (optimizer::is_row_wise(kRule)) {
    if (slices > 1) {
      for (unsigned s = 0; s < slices; ++s) launch.template operator()<RowPart::kState>(s, 1);
      return launch.template operator()<RowPart::kWeights>(0, slices);
    }
  }
  launch.template operator()<RowPart::kAll>(0, slices);
}

}  // namespace

template <typename T, typename W>
void update_segments(cudaStream_t stream, optimizer::OptimizerType rule, const SortedList<T>& list,
                     const TableRows<W>& table, const StepSource& step,
                     const CarriedList& carried) {
  const int piece =
      piece_for(table.width, list.gradients, table.w, table.state0, table.state1, carried.sums);
  const int lanes = lanes_for(table.width, piece);
  const dim3 tiles = grid_for(tiles_of(list.count) * lanes, kThreads, kMaxGridX);
  const dim3 columns = grid_for(table.width, int64_t{lanes} * piece, kMaxGridYZ);
  const bool by_warps = piece == WarpTile<T>::kPiece && table.width % WarpTile<T>::kColumns == 0 &&
                        starts_pack<WarpTile<T>::kChunk>(list.gradients);
  optimizer::with_rule_type(rule, [&]<optimizer::OptimizerType kRule>() {
    if (by_warps)
      return in_parts<kRule>(columns.x, [&]<RowPart kPart>(unsigned first_slice, unsigned slices) {
        launch({.name = "update_segments",
                .grid = dim3(tiles.x, slices),
                .block = kThreads,
                .shared_bytes = kThreads / kWarp * sizeof(WarpTile<T>),
                .stream = stream},
               update_by_warps_kernel<kRule, kPart, T, W>, list, table, step, carried, first_slice);
      });
    with_piece(piece, [&]<int kPiece>() {
      in_parts<kRule>(columns.x, [&]<RowPart kPart>(unsigned first_slice, unsigned slices) {
        launch({.name = "update_segments",
                .grid = dim3(tiles.x, slices),
                .block = kThreads,
                .stream = stream},
               update_segments_kernel<kRule, kPart, T, W, kPiece>, list, table, step, carried,
               lanes, first_slice);
      });
    });
  });
}

template <typename W>
int64_t update_carried(cudaStream_t stream, optimizer::OptimizerType rule, const CarriedList& list,
                       int64_t count, const TableRows<W>& table, const StepSource& step,
                       const CarriedList& carried) {
  const int piece =
      piece_for(table.width, list.sums, table.w, table.state0, table.state1, carried.sums);
  const int lanes = lanes_for(table.width, piece);
  const int64_t groups = kCarriedThreads / lanes;
  const int64_t pairs =
      std::min<int64_t>(kCarriedPairs, tiles_of(count, groups * kPairsPerLoad) * kPairsPerLoad);
  const int64_t blocks = tiles_of(count, groups * pairs);
  const dim3 columns = grid_for(table.width, int64_t{lanes} * piece, kMaxGridYZ);
  optimizer::with_rule_type(rule, [&]<optimizer::OptimizerType kRule>() {
    with_piece(piece, [&]<int kPiece>() {
      in_parts<kRule>(columns.x, [&]<RowPart kPart>(unsigned first_slice, unsigned slices) {
        launch({.name = "update_carried",
                .grid = dim3(static_cast<unsigned>(blocks), slices),
                .block = kCarriedThreads,
                .stream = stream},
               update_carried_kernel<kRule, kPart, W, kPiece>, list, static_cast<int32_t>(count),
               static_cast<int32_t>(pairs), table, step, carried, lanes, first_slice);
      });
    });
  });
  return blocks == 1 ? 0 : 2 * blocks;
}

#define HLITE_INSTANTIATE_UPDATE(T, W)                                           \
  template void update_segments<T, W>(cudaStream_t, optimizer::OptimizerType,    \
                                      const SortedList<T>&, const TableRows<W>&, \
                                      const StepSource&, const CarriedList&);
#define HLITE_INSTANTIATE(W)                                                                     \
  HLITE_INSTANTIATE_UPDATE(float, W)                                                             \
  HLITE_INSTANTIATE_UPDATE(bf16, W)                                                              \
  HLITE_INSTANTIATE_UPDATE(fp16, W)                                                              \
  template int64_t update_carried<W>(cudaStream_t, optimizer::OptimizerType, const CarriedList&, \
                                     int64_t, const TableRows<W>&, const StepSource&,            \
                                     const CarriedList&);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE
#undef HLITE_INSTANTIATE_UPDATE

}  // namespace hlite::embedding::gpu
