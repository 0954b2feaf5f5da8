// The kernels that sum and apply sorted gradients.
//
// `lanes` lanes share a tile of the list and walk through it together, each with a piece of every
// row: four pairs at a time, so that four gradients, and those rows of table and states that end
// among the four, are on their way at once (at V = 128 and 16-bit gradients 1 to 3 KiB a warp). All
// lanes of a tile take the same branches. Sums run in one thread: by pair, in the list's order.
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
template <typename T>
__device__ inline Tile tile_of(const LaneList<T>& list, int32_t index, int32_t pairs) {
  const int32_t begin = index * pairs;
  const int32_t end = pairs < list.count - begin ? begin + pairs : list.count;
  return {begin, end, begin > 0 ? list.rows[begin - 1] : list.before,
          end < list.count ? list.rows[end] : list.after};
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
// comes from the tile before, and of the one that goes on in the next.
template <typename T>
__device__ inline void name_carried(const LaneList<T>& list, const Tile& tile, uint32_t no_row,
                                    int32_t entry, const LaneCarried& carried) {
  const bool left = tile.from_left != no_row && list.rows[tile.begin] == tile.from_left;
  const bool right = tile.to_right != no_row && list.rows[tile.end - 1] == tile.to_right;
  carried.rows[entry] = left ? tile.from_left : no_row;
  carried.sources[entry] = static_cast<uint32_t>(entry);
  carried.rows[entry + 1] = right ? tile.to_right : no_row;
  carried.sources[entry + 1] =
      left && tile.from_left == tile.to_right ? kNoSource : static_cast<uint32_t>(entry + 1);
}

// One lane's walk through the index'th tile of the list, by `lanes` lanes; `column` is the lane's
// in the table.
template <optimizer::OptimizerType kRule, RowPart kPart, int kPiece, bool kPassing, typename T>
__device__ inline void walk(const LaneList<T>& list, int32_t index, int32_t pairs_of_tile,
                            const TableRows& table, int64_t column, int lanes,
                            const DeviceStep& step, const LaneCarried& carried) {
  const RowLanes of_row = RowLanes::at(lanes, kPiece, column, table.width);
  const Tile tile = tile_of(list, index, pairs_of_tile);
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
    RowPieces<kRule, kPiece, kPart> row[kStep];
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

  if (carried.rows) name_carried(list, tile, no_row, carried.first + 2 * index, carried);
}

// Blocks of a multiprocessor: loads on their way count more here than registers.
template <optimizer::OptimizerType kRule, RowPart kPart, typename T, int kPiece>
__global__ void __launch_bounds__(kThreads, optimizer::state_count(kRule) == 0 ? 3 : 2)
    update_segments_kernel(SortedList<T> list, TableRows table, StepSource step_source,
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
// without a state by spilling some.
template <optimizer::OptimizerType kRule, RowPart kPart, int kPiece>
__global__ void __launch_bounds__(
    kCarriedThreads, kPart == RowPart::kState || optimizer::state_count(kRule) == 0 ? 1 : 0)
    update_carried_kernel(CarriedList list, int32_t count, int32_t pairs, TableRows table,
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

template <typename T>
void update_segments(cudaStream_t stream, optimizer::OptimizerType rule, const SortedList<T>& list,
                     const TableRows& table, const StepSource& step, const CarriedList& carried) {
  const int piece =
      piece_for(table.width, list.gradients, table.w, table.state0, table.state1, carried.sums);
  const int lanes = lanes_for(table.width, piece);
  const dim3 tiles = grid_for(tiles_of(list.count) * lanes, kThreads, kMaxGridX);
  const dim3 columns = grid_for(table.width, int64_t{lanes} * piece, kMaxGridYZ);
  optimizer::with_rule_type(rule, [&]<optimizer::OptimizerType kRule>() {
    with_piece(piece, [&]<int kPiece>() {
      in_parts<kRule>(columns.x, [&]<RowPart kPart>(unsigned first_slice, unsigned slices) {
        launch({.name = "update_segments",
                .grid = dim3(tiles.x, slices),
                .block = kThreads,
                .stream = stream},
               update_segments_kernel<kRule, kPart, T, kPiece>, list, table, step, carried, lanes,
               first_slice);
      });
    });
  });
}

int64_t update_carried(cudaStream_t stream, optimizer::OptimizerType rule, const CarriedList& list,
                       int64_t count, const TableRows& table, const StepSource& step,
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
               update_carried_kernel<kRule, kPart, kPiece>, list, static_cast<int32_t>(count),
               static_cast<int32_t>(pairs), table, step, carried, lanes, first_slice);
      });
    });
  });
  return blocks == 1 ? 0 : 2 * blocks;
}

#define HLITE_INSTANTIATE(T)                                                                     \
  template void update_segments<T>(cudaStream_t, optimizer::OptimizerType, const SortedList<T>&, \
                                   const TableRows&, const StepSource&, const CarriedList&);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::embedding::gpu
