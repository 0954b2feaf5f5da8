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
// Expected on an H200, and not measured: 0.43 us a pass for each 1,024 lookups of the longest table,
// while CUB takes 22 us to launch its kernels and 0.05 us for each 1,024 of all lookups. At a batch
// of 4,096 and 26 one-hot slots that is 12 us instead of 28.
#include "embedding/table_sort.cuh"

#include <algorithm>
#include <bit>

#include "embedding/block_scan.cuh"
#include "embedding/find_row.cuh"

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

// A pass over `bits` bits of the rows, from `shift` on: the list `from` becomes `to`.
__device__ inline void sort_by_digit(const uint32_t* rows, const uint16_t* from, uint16_t* to,
                                     uint32_t n, int shift, int bits, uint32_t* counters,
                                     uint32_t* sums) {
  const uint32_t warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const uint32_t share = (n + blockDim.x - 1) / blockDim.x * kWarp, first = warp * share;
  const uint32_t begin = first < n ? first : n, end = share < n - begin ? begin + share : n;
  const auto digit_of = [&](uint32_t lookup) { return rows[lookup] >> shift & ((1u << bits) - 1); };
  uint32_t* const mine = counters + warp * kCounters;
  for (int d = static_cast<int>(lane); d < kDigits; d += kWarp) mine[d] = 0;
  __syncwarp();
  for (uint32_t at = begin + lane; at < end; at += kWarp) atomicAdd(&mine[digit_of(from[at])], 1u);
  __syncthreads();

  // By digit, then by warp.
  const int log_warps = __popc(warps - 1);
  const auto counter = [&](int i) -> uint32_t& {
    const uint32_t at = threadIdx.x * kSumsOfThread + static_cast<uint32_t>(i);
    return counters[(at & (warps - 1)) * kCounters + (at >> log_warps)];
  };
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kSumsOfThread; ++i) sum += counter(i);
  uint32_t place = sum_block(sum, sums).before;
#pragma unroll
  for (int i = 0; i < kSumsOfThread; ++i) {
    const uint32_t count = counter(i);
    counter(i) = place;
    place += count;
  }
  __syncthreads();

  for (uint32_t at = begin; at < end; at += kWarp) {
    const bool takes = at + lane < end;
    const uint32_t lookup = takes ? from[at + lane] : 0, digit = takes ? digit_of(lookup) : 0;
    unsigned equal = __ballot_sync(kAllLanes, takes);
#pragma unroll
    for (int b = 0; b < kDigitBits; ++b) {
      if (b >= bits) break;
      const bool set = (digit >> b & 1) != 0;
      const unsigned all_set = __ballot_sync(kAllLanes, set);
      equal &= set ? all_set : ~all_set;
    }
    const uint32_t next = takes ? mine[digit] : 0;
    const auto before = static_cast<uint32_t>(__popc(equal & ((1u << lane) - 1)));
    __syncwarp();  // all have read
    if (takes) {
      to[next + before] = static_cast<uint16_t>(lookup);
      if (before == 0) mine[digit] = next + static_cast<uint32_t>(__popc(equal));
    }
    __syncwarp();
  }
  __syncthreads();
}

// What the block of a part before has said in this launch.
__device__ inline uint32_t found_in(unsigned long long* progress, uint32_t launch) {
  for (;;) {
    const unsigned long long said = atomicAdd(progress, 0ull);
    if (static_cast<uint32_t>(said >> 32) == launch) return static_cast<uint32_t>(said);
    __nanosleep(100);
  }
}

__global__ void __launch_bounds__(kMaxBlockThreads) sort_by_table_kernel(TableSort sort) {
  BlockSpace& space = *dynamic_shared<BlockSpace>();
  if (threadIdx.x == 0) {
    const unsigned long long started = atomicAdd(sort.progress, 1ull);
    space.part = static_cast<uint32_t>(started % gridDim.x);
    space.launch = static_cast<uint32_t>(started / gridDim.x + 1);
  }
  __syncthreads();
  const uint32_t index = space.part, launch = space.launch;
  if (index == 0 && threadIdx.x == 0)
    *sort.scalars = optimizer::step_scalars(sort.inputs.rule, *sort.inputs.lr, *sort.inputs.step);

  const SlotsRef& slots = sort.slots;
  const Part part = part_of(slots, index);
  const uint32_t n = sort.batch * part.lookups;
  auto* const rows = reinterpret_cast<uint32_t*>(&space + 1);  // in the part; part.rows: none
  auto* from = reinterpret_cast<uint16_t*>(rows + n);
  uint16_t* to = from + n;
  auto* const counters = reinterpret_cast<uint32_t*>(to + n);
  uint32_t mine = 0;
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
    const KeyPlace place = place_in_part(slots, part, i);
    const uint32_t row = find_row(slots.slots[place.slot], sort.keys, place.index, KeyRecorder{});
    rows[i] = row == kNoRow ? part.rows : row - part.first_row;
    from[i] = static_cast<uint16_t>(i);
    mine += row == kNoRow ? 0 : 1;
  }
  const uint32_t found = sum_block(mine, space.sums).all;
  if (threadIdx.x == 0)
    atomicExch(&sort.progress[1 + index], static_cast<unsigned long long>(launch) << 32 | found);

  const uint64_t largest = found == n && n > 0 ? part.rows - 1 : part.rows;
  int width = 0;
  while (largest >> width != 0) ++width;
  for (int shift = 0; shift < width; shift += kDigitBits) {
    sort_by_digit(rows, from, to, n, shift, width - shift < kDigitBits ? width - shift : kDigitBits,
                  counters, space.sums);
    uint16_t* const sorted = to;
    to = from;
    from = sorted;
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
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
    const uint32_t lookup = from[i], row = part.first_row + rows[lookup];
    const KeyPlace place = place_in_part(slots, part, lookup);
    const bool has_row = i < found;
    const uint32_t at = has_row ? begin + i : none_begin + i;
    sort.rows[at] = !has_row ? no_row : sort.lines.line_of ? sort.lines.line_of[row] : row;
    sort.sources[at] = place.sample * static_cast<uint32_t>(slots.count) + place.slot;
    if (sort.touched && has_row) mark_row(sort.touched, row);
  }
}

}  // namespace

size_t table_sort_bytes(int64_t lookups) {
  return sizeof(BlockSpace) + static_cast<size_t>(lookups) * 8 +
         size_t{threads_for(lookups) / kWarp} * kCounters * sizeof(uint32_t);
}

bool sorts_by_table(int64_t part, int64_t all) {
  int device = 0, bytes = 0;
  HLITE_CUDA(cudaGetDevice(&device));
  HLITE_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return part <= std::min(kMaxPartLookups, kLookupsWhileCubStarts + all / kBlocksOfCub) &&
         table_sort_bytes(part) <= static_cast<size_t>(bytes);
}

void sort_by_table(cudaStream_t stream, const TableSort& sort) {
  const int64_t lookups = int64_t{sort.batch} * sort.slots.max_part_lookups();
  launch({.name = "sort_by_table",
          .grid = dim3(static_cast<unsigned>(sort.slots.parts())),
          .block = dim3(threads_for(lookups)),
          .shared_bytes = table_sort_bytes(lookups),
          .stream = stream},
         sort_by_table_kernel, sort);
}

}  // namespace hlite::embedding::gpu
