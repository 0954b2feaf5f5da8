// The kernel that sorts by table.
//
// Rows ascend from table to table, so the sorted list of all lookups is that of the tables one after
// the other, and a table's rows have few bits: a stable radix sort from the lowest digit of eight
// bits takes one pass for a small table and four for the largest, all of them in shared memory. The
// rows stay where they are. What moves are their numbers, of 16 bits: 8 bytes a lookup, 24,927
// lookups in 227 KB. In a pass each warp takes a range of the list and counts its digits; sums over
// digits, then warps, say where it puts the first of each; then it puts 32 lookups at a time, of
// which ballots find the equal ones.
//
// Lookups without a row come last in the list, so a table's place in it depends on how many lookups
// have a row in the tables before. A block says its number once it has read its keys, and asks for
// the others' when it is done: it takes the next table when it starts, so those before have started.
// Lookups without a row fill the list from its end.
//
// Where they are too many for a block, the four of a cluster have a share of the list each, and rows
// move with the numbers, in two buffers: 12 bytes a lookup, 231 KB a block for 65,536, which is all
// that 16 bits number. In a pass each block sorts its share by the digit, says where digits begin,
// and, when all have, writes its lookups to their places in the whole list: those of a digit are
// neighbours there, too, while single lookups would each cross the network between multiprocessors.
//
// Expected on an H200, and not measured: 0.43 us a pass for each 1,024 lookups of the longest table,
// while CUB takes 22 us to launch its kernels and 0.05 us for each 1,024 of all lookups. At a batch
// of 4,096 and 26 one-hot slots that is 12 us instead of 28. A cluster takes 1 to 3 us a pass more
// than its blocks alone: at a batch of 65,536 and four passes 30 to 45 us instead of 108, of one
// launch instead of nine.
#include "embedding/table_sort.cuh"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "embedding/block_scan.cuh"
#include "embedding/find_row.cuh"
#include "hugectr_lite/core/cluster.cuh"

namespace hlite::embedding::gpu {
namespace {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
// Of a warp. One more than the digits: neighbours in a sum, which are of several warps, lie in
// different banks.
constexpr int kCounters = kDigits + 1;
constexpr int kSumsOfThread = kDigits / kWarp;  // counters of all warps, for each of their threads
constexpr int64_t kLookupsOfThread = 4;         // or more
// What a block sorts while CUB starts its kernels, and how many blocks are as fast as CUB is then.
constexpr int64_t kLookupsWhileCubStarts = 12 * 1024, kBlocksOfCub = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct BlockSpace {
  uint32_t sums[kWarp];
  uint32_t part, launch;
  // Then: uint32_t rows[n], uint16_t order[2][n], uint32_t counters[warps][kCounters]
};
struct ClusterSpace : BlockSpace {
  uint32_t found[kClusterBlocks];  // of each block
  uint32_t starts[kDigits + 1];    // in the list of the block's own lookups, by the digit of a pass
  // Then: uint32_t rows[2][each], uint16_t order[2][each], uint32_t counters[warps][kCounters]
};
template <unsigned kBlocks>
using SpaceOf = std::conditional_t<kBlocks == 1, BlockSpace, ClusterSpace>;

// Of a block. At least two: the reciprocal of one has no 32 bits.
int64_t lookups_of_block(unsigned blocks, int64_t lookups) {
  return blocks == 1 ? lookups : std::max<int64_t>(2, (lookups + blocks - 1) / blocks);
}

// A power of two.
unsigned threads_for(int64_t lookups) {
  const auto threads = static_cast<unsigned>(lookups / kLookupsOfThread);
  return std::clamp(std::bit_ceil(threads), unsigned{kWarp}, kMaxBlockThreads);
}

// The part of the lookups that a block sorts.
struct Part {
  uint32_t first_row, rows;
  uint32_t lookups;        // of a sample
  uint32_t before;         // of a sample, in the parts before
  const int32_t* columns;  // of its lookups; null: all of the layer
};
__device__ inline Part part_of(const SlotsRef& slots, uint32_t index) {
  if (!slots.ascending)
    return {0, static_cast<uint32_t>(slots.total_rows), static_cast<uint32_t>(slots.lookups), 0,
            nullptr};
  const TableRef& table = slots.tables[index];
  const auto before = static_cast<uint32_t>(table.first_lookup);
  return {static_cast<uint32_t>(table.first_row), static_cast<uint32_t>(table.rows),
          static_cast<uint32_t>(slots.tables[index + 1].first_lookup) - before, before,
          slots.table_columns + before};
}
__device__ inline KeyPlace place_in_part(const SlotsRef& slots, const Part& part, uint32_t lookup) {
  const uint32_t sample = lookup / part.lookups, c = lookup - sample * part.lookups;
  return place_of_key(slots, sample, part.columns ? static_cast<uint32_t>(part.columns[c]) : c);
}

// A list of a part's lookups: all of it, or what lies in a block of a cluster. A block alone leaves
// the rows where they are, by lookup; in a cluster they move along.
template <unsigned kBlocks>
struct PartList {
  uint32_t* rows;
  uint16_t* lookups;
  __device__ uint32_t row(uint32_t at) const { return kBlocks == 1 ? rows[lookups[at]] : rows[at]; }
};

// The shares of a cluster's blocks in a list of n lookups.
template <unsigned kBlocks>
struct Shares {
  uint32_t n, each, begin, count;  // of all, of a block, of this block
  uint32_t reciprocal;             // 2^32 / each, rounded up: right for 2^16 places
  __device__ Shares(uint32_t lookups, uint32_t rank) : n(lookups), reciprocal(0) {
    if constexpr (kBlocks == 1) {
      each = count = n;
      begin = 0;
    } else {
      each = (n + kBlocks - 1) / kBlocks;
      if (each < 2) each = 2;
      begin = rank * each < n ? rank * each : n;
      count = n - begin < each ? n - begin : each;
      reciprocal = 0xffffffffu / each + 1;
    }
  }
  __device__ uint32_t block_of(uint32_t place) const {
    return static_cast<uint32_t>(uint64_t{place} * reciprocal >> 32);
  }
};

// The digit of a pass: `bits` bits of a row, from `shift` on.
struct Digit {
  int shift, bits;
  __device__ uint32_t of(uint32_t row) const { return row >> shift & ((1u << bits) - 1); }
};

// A block's part of a pass: its list `from` of n lookups becomes `to`. In a cluster, `starts` becomes
// where in `to` those of a digit begin.
template <unsigned kBlocks>
__device__ inline void sort_by_digit(const PartList<kBlocks>& from, const PartList<kBlocks>& to,
                                     uint32_t n, Digit digits, uint32_t* counters, uint32_t* sums,
                                     uint32_t* starts) {
  const uint32_t warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const uint32_t share = (n + blockDim.x - 1) / blockDim.x * kWarp, first = warp * share;
  const uint32_t begin = first < n ? first : n, end = share < n - begin ? begin + share : n;
  uint32_t* const mine = counters + warp * kCounters;
  for (int d = static_cast<int>(lane); d < kDigits; d += kWarp) mine[d] = 0;
  __syncwarp();
  for (uint32_t at = begin + lane; at < end; at += kWarp)
    atomicAdd(&mine[digits.of(from.row(at))], 1u);
  __syncthreads();

  // By digit, then by warp.
  const int log_warps = __popc(warps - 1);
  const uint32_t first_counter = threadIdx.x * kSumsOfThread;
  const auto counter = [&](uint32_t i) -> uint32_t& {
    return counters[(i & (warps - 1)) * kCounters + (i >> log_warps)];
  };
  uint32_t sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < kSumsOfThread; ++i) sum += counter(first_counter + i);
  uint32_t place = sum_block(sum, sums).before;
#pragma unroll
  for (uint32_t i = first_counter; i < first_counter + kSumsOfThread; ++i) {
    const uint32_t count = counter(i);
    counter(i) = place;
    if (kBlocks > 1 && (i & (warps - 1)) == 0) starts[i >> log_warps] = place;
    place += count;
  }
  if (kBlocks > 1 && threadIdx.x == 0) starts[kDigits] = n;
  __syncthreads();

  for (uint32_t at = begin; at < end; at += kWarp) {
    const bool takes = at + lane < end;
    const uint32_t lookup = takes ? from.lookups[at + lane] : 0;
    const uint32_t row = takes ? from.row(at + lane) : 0, digit = digits.of(row);
    unsigned equal = __ballot_sync(kAllLanes, takes);
#pragma unroll
    for (int b = 0; b < kDigitBits; ++b) {
      if (b >= digits.bits) break;
      const bool set = (digit >> b & 1) != 0;
      const unsigned all_set = __ballot_sync(kAllLanes, set);
      equal &= set ? all_set : ~all_set;
    }
    const uint32_t next = takes ? mine[digit] : 0;
    const auto before = static_cast<uint32_t>(__popc(equal & ((1u << lane) - 1)));
    __syncwarp();  // all have read
    if (takes) {
      to.lookups[next + before] = static_cast<uint16_t>(lookup);
      if (kBlocks > 1) to.rows[next + before] = row;
      if (before == 0) mine[digit] = next + static_cast<uint32_t>(__popc(equal));
    }
    __syncwarp();
  }
  if (kBlocks == 1) __syncthreads();
}

// A cluster's part of a pass: lists that each block has sorted by the digit become one. `offsets`
// [kDigits]: for the block's use.
template <unsigned kBlocks>
__device__ inline void exchange_by_digit(const PartList<kBlocks>& from, const PartList<kBlocks>& to,
                                         const Shares<kBlocks>& shares, Digit digits,
                                         uint32_t* offsets, uint32_t* starts, uint32_t rank) {
  cluster_sync();
  // Before a lookup come, of other blocks, those of smaller digits, and of the blocks before those
  // of the same digit.
  for (uint32_t d = threadIdx.x; d < 1u << digits.bits; d += blockDim.x) {
    uint32_t others = 0;
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b)
      if (b != rank) others += cluster_load(&starts[d + (b < rank ? 1 : 0)], b);
    offsets[d] = others;
  }
  __syncthreads();
  // Those of a digit go to neighbouring places, so few requests cross the network.
  for (uint32_t i = threadIdx.x; i < shares.count; i += blockDim.x) {
    const uint32_t row = from.rows[i], place = i + offsets[digits.of(row)];
    const uint32_t block = shares.block_of(place), in_block = place - block * shares.each;
    cluster_store(&to.rows[in_block], block, row);
    cluster_store(&to.lookups[in_block], block, from.lookups[i]);
  }
  cluster_sync();
}

// What the block of a part before has said in this launch.
__device__ inline uint32_t found_in(unsigned long long* progress, uint32_t launch) {
  for (;;) {
    const unsigned long long said = atomicAdd(progress, 0ull);
    if (static_cast<uint32_t>(said >> 32) == launch) return static_cast<uint32_t>(said);
    __nanosleep(100);
  }
}

// By kBlocks blocks, which are a cluster where they are several.
template <unsigned kBlocks>
__device__ inline void sort_part(const TableSort& sort) {
  using Space = SpaceOf<kBlocks>;
  Space& space = *dynamic_shared<Space>();
  uint32_t rank = 0;
  if constexpr (kBlocks > 1) rank = cluster_rank();
  if (rank == 0 && threadIdx.x == 0) {
    const unsigned long long started = atomicAdd(sort.progress, 1ull);
    const unsigned parts = gridDim.x / kBlocks;
    space.part = static_cast<uint32_t>(started % parts);
    space.launch = static_cast<uint32_t>(started / parts + 1);
  }
  uint32_t index = 0, launch = 0;
  if constexpr (kBlocks == 1) {
    __syncthreads();
    index = space.part, launch = space.launch;
  } else {
    cluster_sync();
    index = cluster_load(&space.part, 0), launch = cluster_load(&space.launch, 0);
  }
  if (index == 0 && rank == 0 && threadIdx.x == 0)
    *sort.scalars = optimizer::step_scalars(sort.inputs.rule, *sort.inputs.lr, *sort.inputs.step);

  const SlotsRef& slots = sort.slots;
  const Part part = part_of(slots, index);
  const Shares<kBlocks> shares(sort.batch * part.lookups, rank);
  const uint32_t n = shares.n;
  // In the part; part.rows: none.
  auto* const rows = reinterpret_cast<uint32_t*>(&space + 1);
  constexpr uint32_t kRowLists = kBlocks == 1 ? 1 : 2;
  auto* const order = reinterpret_cast<uint16_t*>(rows + kRowLists * shares.each);
  PartList<kBlocks> from{rows, order};
  PartList<kBlocks> to{rows + (kRowLists - 1) * shares.each, order + shares.each};
  auto* const counters = reinterpret_cast<uint32_t*>(order + 2 * shares.each);
  uint32_t found = 0;
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < shares.count; i += blockDim.x) {
    const uint32_t lookup = shares.begin + i;
    const KeyPlace place = place_in_part(slots, part, lookup);
    const uint32_t row = find_row(slots.slots[place.slot], sort.keys, place.index, KeyRecorder{});
    from.rows[i] = row == kNoRow ? part.rows : row - part.first_row;
    from.lookups[i] = static_cast<uint16_t>(lookup);
    found += row == kNoRow ? 0 : 1;
  }
  found = sum_block(found, space.sums).all;
  if constexpr (kBlocks > 1) {
    if (threadIdx.x < kBlocks) cluster_store(&space.found[rank], threadIdx.x, found);
    cluster_sync();
    found = 0;
    for (uint32_t b = 0; b < kBlocks; ++b) found += space.found[b];
  }
  if (rank == 0 && threadIdx.x == 0)
    atomicExch(&sort.progress[1 + index], static_cast<unsigned long long>(launch) << 32 | found);

  const uint64_t largest = found == n && n > 0 ? part.rows - 1 : part.rows;
  int width = 0;
  while (largest >> width != 0) ++width;
  for (int shift = 0; shift < width; shift += kDigitBits) {
    const Digit digits{shift, width - shift < kDigitBits ? width - shift : kDigitBits};
    if constexpr (kBlocks == 1) {
      sort_by_digit<1>(from, to, n, digits, counters, space.sums, nullptr);
      const PartList<1> sorted = to;
      to = from;
      from = sorted;
    } else {
      sort_by_digit<kBlocks>(from, to, shares.count, digits, counters, space.sums, space.starts);
      exchange_by_digit<kBlocks>(to, from, shares, digits, counters, space.starts, rank);
    }
  }

  uint32_t in_others = 0;
  for (uint32_t i = threadIdx.x; i < index; i += blockDim.x)
    in_others += found_in(&sort.progress[1 + i], launch);
  const uint32_t begin = sum_block(in_others, space.sums).all;
  // Lookups without a row, in the parts before, fill the list's end.
  const uint32_t all = sort.batch * static_cast<uint32_t>(slots.lookups);
  const uint32_t none_begin = all - (sort.batch * part.before - begin) - n;
  const uint32_t no_row =
      sort.lines.line_of ? sort.lines.lines : static_cast<uint32_t>(slots.total_rows);
  for (uint32_t i = threadIdx.x; i < shares.count; i += blockDim.x) {
    const uint32_t lookup = from.lookups[i], row = part.first_row + from.row(i);
    const uint32_t in_part = shares.begin + i;
    const KeyPlace place = place_in_part(slots, part, lookup);
    const bool has_row = in_part < found;
    const uint32_t at = has_row ? begin + in_part : none_begin + in_part;
    sort.rows[at] = !has_row ? no_row : sort.lines.line_of ? sort.lines.line_of[row] : row;
    sort.sources[at] = place.sample * static_cast<uint32_t>(slots.count) + place.slot;
    if (sort.touched && has_row) mark_row(sort.touched, row);
  }
}

template <unsigned kBlocks>
__global__ void __launch_bounds__(kMaxBlockThreads) sort_by_table_kernel(TableSort sort) {
  if constexpr (kBlocks == 1 || kCodeHasClusters) sort_part<kBlocks>(sort);
}

LaunchShape table_sort_shape(unsigned blocks, int64_t part, unsigned parts) {
  return {.name = "sort_by_table",
          .grid = dim3(parts * blocks),
          .block = dim3(threads_for(lookups_of_block(blocks, part))),
          .shared_bytes = table_sort_bytes(part, blocks),
          .cluster = blocks};
}

}  // namespace

size_t table_sort_bytes(int64_t lookups, unsigned blocks) {
  const int64_t each = lookups_of_block(blocks, lookups);
  return (blocks == 1 ? sizeof(BlockSpace) + static_cast<size_t>(each) * 8
                      : sizeof(ClusterSpace) + static_cast<size_t>(each) * 12) +
         size_t{threads_for(each) / kWarp} * kCounters * sizeof(uint32_t);
}

unsigned table_sort_blocks(int64_t part, int64_t all) {
  const int64_t as_fast = kLookupsWhileCubStarts + all / kBlocksOfCub;
  if (part > kMaxPartLookups) return 0;
  int device = 0, bytes = 0;
  HLITE_CUDA(cudaGetDevice(&device));
  HLITE_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (part <= as_fast && table_sort_bytes(part) <= static_cast<size_t>(bytes)) return 1;
  const bool fast = lookups_of_block(kClusterBlocks, part) <= as_fast;
  return fast && runs_clusters(table_sort_shape(kClusterBlocks, part, 1),
                               sort_by_table_kernel<kClusterBlocks>)
             ? kClusterBlocks
             : 0;
}

void sort_by_table(cudaStream_t stream, const TableSort& sort, unsigned blocks) {
  LaunchShape shape = table_sort_shape(blocks, int64_t{sort.batch} * sort.slots.max_part_lookups(),
                                       static_cast<unsigned>(sort.slots.parts()));
  shape.stream = stream;
  if (blocks == 1)
    launch(shape, sort_by_table_kernel<1>, sort);
  else
    launch(shape, sort_by_table_kernel<kClusterBlocks>, sort);
}

}  // namespace hlite::embedding::gpu
