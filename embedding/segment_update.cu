// The kernel that sums and applies sorted gradients.
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
#include "embedding/row_pieces.cuh"
#include "embedding/segment_update.cuh"

namespace hlite::embedding::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kStep = kPairsPerLoad;

struct alignas(16) FourPairs {
  uint32_t row[kStep], source[kStep];
};

// The pairs at `at`; those from `end` on are passed over.
template <typename T>
__device__ inline FourPairs load_pairs(const SortedList<T>& list, int64_t at, int64_t end,
                                       uint32_t no_row) {
  const auto rows = load_piece<kStep>(list.rows + at);
  const auto sources = load_piece<kStep>(list.sources + at);
  FourPairs pairs;
#pragma unroll
  for (int u = 0; u < kStep; ++u) {
    pairs.row[u] = at + u < end ? rows.at[u] : no_row;
    pairs.source[u] = sources.at[u];
  }
  return pairs;
}

// A row's piece of the table and of as many states as the rule keeps.
template <optimizer::OptimizerType kRule, int kPiece>
struct RowPieces {
  static constexpr int kStates = optimizer::state_count(kRule);
  Piece<float, kPiece> w{}, state0{}, state1{};

  __device__ void load(const TableRows& table, int64_t at) {
    w = load_piece<kPiece>(table.w + at);
    if constexpr (kStates > 0) state0 = load_piece<kPiece>(table.state0 + at);
    if constexpr (kStates > 1) state1 = load_piece<kPiece>(table.state1 + at);
  }
  __device__ void update(const DeviceStep& step, const Piece<float, kPiece>& sum) {
#pragma unroll
    for (int j = 0; j < kPiece; ++j)
      optimizer::update_element<kRule>(step.scalars, sum.at[j] * step.gradient_scale, w.at[j],
                                       state0.at[j], state1.at[j]);
  }
  __device__ void store(const TableRows& table, int64_t at) const {
    store_piece<kPiece>(table.w + at, w);
    if constexpr (kStates > 0) store_piece<kPiece>(table.state0 + at, state0);
    if constexpr (kStates > 1) store_piece<kPiece>(table.state1 + at, state1);
  }
};

template <optimizer::OptimizerType kRule, typename T, int kPiece>
__global__ void __launch_bounds__(kThreads)
    update_segments_kernel(SortedList<T> list, TableRows table, const DeviceStep* device_step,
                           CarriedList carried, int lanes) {
  const DeviceStep step = *device_step;
  const int64_t tile = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / lanes;
  const int64_t begin = tile * kTilePairs;
  const int64_t column =
      (int64_t{blockIdx.y} * lanes + static_cast<int>(threadIdx.x) % lanes) * kPiece;
  if (step.skip != 0 || begin >= list.count || column >= table.width) return;
  const int64_t end = begin + kTilePairs < list.count ? begin + kTilePairs : list.count;
  const uint32_t no_row = table.no_row;
  // Rows of the segments that come from the tile before, and that go on in the next one.
  const uint32_t from_left = begin > 0 ? list.rows[begin - 1] : no_row;
  const uint32_t to_right = end < list.count ? list.rows[end] : no_row;

  Piece<float, kPiece> sum{};
  FourPairs next = load_pairs(list, begin, end, no_row);
  for (int64_t at = begin; at < end; at += kStep) {
    const FourPairs pairs = next;
    if (at + kStep < end)
      next = load_pairs(list, at + kStep, end, no_row);
    else
      next.row[0] = no_row;

    Piece<T, kPiece> gradient[kStep];
    float scale[kStep];
    RowPieces<kRule, kPiece> row[kStep];
    bool ends[kStep], applies[kStep];  // the segment ends here; and lies wholly in this tile
#pragma unroll
    for (int u = 0; u < kStep; ++u) {
      const uint32_t r = pairs.row[u], source = pairs.source[u];
      const bool counts = r != no_row && source != kNoSource;
      gradient[u] = counts ? load_passing<kPiece>(list.gradients + source * table.width + column)
                           : Piece<T, kPiece>{};
      scale[u] = counts && list.scale ? list.scale[source] : 1.0f;
      ends[u] = r != no_row && r != (u + 1 < kStep ? pairs.row[(u + 1) % kStep] : next.row[0]);
      applies[u] = ends[u] && r != from_left && r != to_right;
      if (applies[u]) row[u].load(table, r * table.width + column);
    }
#pragma unroll
    for (int u = 0; u < kStep; ++u) {
      const Piece<float, kPiece> term = floats_of(gradient[u]);
#pragma unroll
      for (int j = 0; j < kPiece; ++j) sum.at[j] += term.at[j] * scale[u];
      if (!ends[u]) continue;
      if (applies[u]) {
        row[u].update(step, sum);
        row[u].store(table, pairs.row[u] * table.width + column);
      } else {
        const int64_t entry = 2 * tile + (pairs.row[u] == from_left ? 0 : 1);
        store_piece<kPiece>(carried.sums + entry * table.width + column, sum);
      }
      sum = Piece<float, kPiece>{};
    }
  }

  if (column != 0 || list.count <= kTilePairs) return;
  const bool left = from_left != no_row && list.rows[begin] == from_left;
  const bool right = to_right != no_row && list.rows[end - 1] == to_right;
  carried.rows[2 * tile] = left ? from_left : no_row;
  carried.sources[2 * tile] = static_cast<uint32_t>(2 * tile);
  carried.rows[2 * tile + 1] = right ? to_right : no_row;
  carried.sources[2 * tile + 1] =
      left && from_left == to_right ? kNoSource : static_cast<uint32_t>(2 * tile + 1);
}

}  // namespace

template <typename T>
void update_segments(cudaStream_t stream, optimizer::OptimizerType rule, const SortedList<T>& list,
                     const TableRows& table, const DeviceStep* step, const CarriedList& carried) {
  const int piece =
      piece_for(table.width, list.gradients, table.w, table.state0, table.state1, carried.sums);
  const int lanes = lanes_for(table.width, piece);
  const dim3 tiles = grid_for(tiles_of(list.count) * lanes, kThreads, kMaxGridX);
  const dim3 columns = grid_for(table.width, int64_t{lanes} * piece, kMaxGridYZ);
  optimizer::with_rule_type(rule, [&]<optimizer::OptimizerType kRule>() {
    with_piece(piece, [&]<int kPiece>() {
      launch({.name = "update_segments",
              .grid = dim3(tiles.x, columns.x),
              .block = kThreads,
              .stream = stream},
             update_segments_kernel<kRule, T, kPiece>, list, table, step, carried, lanes);
    });
  });
}

#define HLITE_INSTANTIATE(T)                                                                     \
  template void update_segments<T>(cudaStream_t, optimizer::OptimizerType, const SortedList<T>&, \
                                   const TableRows&, const DeviceStep*, const CarriedList&);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::embedding::gpu
