// Kernels of routing: every lookup gets the number of its row; a stable sort brings equal ones
// together, by rank and then row, which is the order of the lists; what is first among its equals
// is an item of a list, and its place there the number of first ones before it.
//
// Bytes at 6,912 samples of 26 one-hot slots, n = 180 k lookups: the sort's four passes of 16 n,
// 12 MB in all, which stay in the L2 cache; it costs latency.
#include "embedding/routing_args.h"

#include <algorithm>
#include <bit>

#include "embedding/cutter.h"
#include "embedding/find_row.cuh"
#include "embedding/item_threads.cuh"
#include "hugectr_lite/core/device_sort.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::embedding::gpu {
namespace {

struct Workspace {
  uint32_t* numbers[2] = {};
  uint32_t* sources[2] = {};   // places in the key matrix
  uint8_t* first = nullptr;    // of its equals, in the sorted list
  uint32_t* before = nullptr;  // such ones before
  uint32_t* begin = nullptr;   // [ranks + 2] of each list among them
  size_t bytes = 0;
};

Workspace cut_workspace(int64_t lookups, std::byte* memory) {
  Workspace space;
  Cutter cutter(memory);
  for (int i = 0; i < 2; ++i) {
    space.numbers[i] = cutter.cut<uint32_t>(lookups);
    space.sources[i] = cutter.cut<uint32_t>(lookups);
  }
  space.first = cutter.cut<uint8_t>(lookups);
  space.before = cutter.cut<uint32_t>(lookups);
  space.begin = cutter.cut<uint32_t>(kMostListed + 2);
  space.bytes = cutter.bytes();
  return space;
}

int sort_bits(uint32_t numbers) { return std::max(1, static_cast<int>(std::bit_width(numbers))); }

// The sorted list.
struct Sorted {
  const uint32_t* numbers;
  const uint32_t* sources;
  uint32_t count;
};

__global__ void __launch_bounds__(kItemThreads)
    number_lookups_kernel(SlotsRef slots, PlacementRef placement, const uint32_t* keys,
                          uint32_t lookups, uint32_t* numbers, uint32_t* sources, KeyCheck check) {
  const int64_t i = global_thread();
  if (i >= lookups) return;
  const KeyPlace place = place_of_key(slots, static_cast<uint32_t>(i));
  const SlotRef slot = slots.slots[place.slot];
  const uint32_t key = keys[place.index];
  sources[i] = place.index;
  numbers[i] = find_row(slot, keys, place.index, check) == kNoRow
                   ? placement.numbers
                   : placement.number_of(slot, static_cast<int32_t>(place.slot), key);
}

__global__ void __launch_bounds__(kItemThreads)
    mark_first_kernel(Sorted list, uint32_t none, uint8_t* first) {
  const int64_t i = global_thread();
  if (i >= list.count) return;
  const uint32_t number = list.numbers[i];
  first[i] = number != none && (i == 0 || list.numbers[i - 1] != number) ? 1 : 0;
}

// One block, a thread a rank and two more.
__global__ void __launch_bounds__(kMostListed + 2)
    find_lists_kernel(Sorted list, PlacementRef placement, const uint8_t* first,
                      const uint32_t* before, uint32_t* begin, PoolShape pool, WantedLists lists) {
  const auto q = static_cast<int32_t>(threadIdx.x);
  if (q <= pool.ranks + 1) {
    uint32_t low = 0, high = list.count;  // the first item whose number is not below
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (list.numbers[middle] < placement.first_number[q])
        low = middle + 1;
      else
        high = middle;
    }
    uint32_t at = 0;
    if (low < list.count)
      at = before[low];
    else if (list.count > 0)
      at = before[list.count - 1] + first[list.count - 1];
    begin[q] = at;
  }
  __syncthreads();
  if (q > pool.ranks) return;
  const int64_t count = begin[q + 1] - begin[q];
  const int64_t room = q < pool.ranks ? pool.capacity : pool.copied_capacity;
  lists.counts[q] = static_cast<uint32_t>(count < room ? count : room);
  if (q == pool.ranks) return;
  int64_t longest = 0;
  for (int32_t r = 0; r < pool.ranks; ++r) {
    const int64_t n = begin[r + 1] - begin[r];
    longest = n > longest ? n : longest;
  }
  uint32_t* const block = lists.blocks + q * pool.block_words();
  block[0] = static_cast<uint32_t>(longest);
  block[1] = static_cast<uint32_t>(longest >> 32);
  const int64_t listed = longest <= pool.capacity ? count : 0;
  lists.list_bytes[q] = (kListHeader + listed) * static_cast<int64_t>(sizeof(uint32_t));
  lists.vector_bytes[q] = int64_t{lists.counts[q]} * pool.row_bytes();
}

__global__ void __launch_bounds__(kItemThreads)
    write_lists_kernel(Sorted list, PlacementRef placement, const uint8_t* first,
                       const uint32_t* before, const uint32_t* begin, PoolShape pool,
                       WantedLists lists, uint32_t* entries) {
  const int64_t i = global_thread();
  if (i >= list.count) return;
  const uint32_t number = list.numbers[i], source = list.sources[i];
  if (number == placement.numbers) {
    entries[source] = kNoKey;
    return;
  }
  int32_t q = 0;  // the last rank, or the copied rows, whose numbers begin here or before
  while (q < pool.ranks && placement.first_number[q + 1] <= number) ++q;
  const int64_t at = int64_t{before[i]} + first[i] - 1 - begin[q];
  const bool copied = q == pool.ranks;
  if (at >= (copied ? pool.copied_capacity : pool.capacity)) {
    entries[source] = kNoKey;  // the run will count for nothing
    return;
  }
  entries[source] = static_cast<uint32_t>(q * pool.capacity + at);
  if (first[i] == 0) return;
  uint32_t* const to = copied ? lists.copied : lists.blocks + q * pool.block_words() + kListHeader;
  to[at] = number - placement.first_number[q];
}

// A thread a row that may be asked for; the first ones also do what is once a rank.
__global__ void __launch_bounds__(kItemThreads) take_lists_kernel(TakeArgs args) {
  const PoolShape& pool = args.pool;
  const int64_t i = global_thread(), words = pool.block_words();
  int64_t needed = 0;
  for (int32_t q = 0; q < pool.ranks; ++q) {
    const uint32_t* const header = args.blocks + q * words;
    const auto longest = static_cast<int64_t>(header[0] | uint64_t{header[1]} << 32);
    needed = longest > needed ? longest : needed;
  }
  const bool fits = needed <= pool.capacity;
  const auto count_of = [&](int64_t q) {
    return fits ? args.received_bytes[q] / static_cast<int64_t>(sizeof(uint32_t)) - kListHeader : 0;
  };
  if (i < pool.listed_rows()) {
    const int64_t q = i / pool.capacity, at = i - q * pool.capacity;
    args.asked.rows[i] = at < count_of(q) ? args.blocks[q * words + kListHeader + at] : kNoKey;
  }
  if (i == 0) {
    *args.asked.needed = needed;
    if (!fits) *args.overflow = 1;
  }
  if (i >= pool.ranks) return;
  const int64_t asked = count_of(i), row_bytes = pool.row_bytes();
  args.asked.counts[i] = static_cast<uint32_t>(asked);
  args.asked.vector_bytes[i] = asked * row_bytes;
  PeerCounts& c = args.counts[i];
  c.keys.sent += args.lists.list_bytes[i];
  c.keys.messages += 1;
  c.keys.calls += 1;
  c.keys.received += args.received_bytes[i];
  if (!fits) return;
  const int64_t wanted = args.lists.counts[i];
  c.rows.sent += asked * row_bytes;
  c.rows.messages += asked > 0 ? 1 : 0;
  c.rows.received += wanted * row_bytes;
  c.rows.calls += 1;
  if (!args.training) return;
  c.grads.sent += wanted * row_bytes;
  c.grads.messages += wanted > 0 ? 1 : 0;
  c.grads.received += asked * row_bytes;
  c.grads.calls += 1;
}

}  // namespace

size_t routing_workspace(int64_t lookups, uint32_t numbers) {
  if (lookups >= int64_t{1} << 31)
    throw CudaError("routing: expected fewer than 2^31 lookups a batch, found " +
                    std::to_string(lookups));
  const auto n = static_cast<uint32_t>(lookups);
  const size_t sort = n == 0 ? 0 : hlite::gpu::sort_pairs_bytes<uint32_t>(n, sort_bits(numbers));
  const size_t sums = n == 0 ? 0 : hlite::gpu::exclusive_sums_bytes(n);
  return cut_workspace(lookups, nullptr).bytes + std::max(sort, sums);
}

void route_keys(cudaStream_t stream, const RouteArgs& args) {
  if (!indices_fit(args.slots, args.keys.dim(0)))
    throw CudaError("routing: expected fewer than 2^32 keys, found a batch of " +
                    std::to_string(args.keys.dim(0)));
  const int64_t lookups = args.keys.dim(0) * args.slots.lookups;
  const auto n = static_cast<uint32_t>(lookups);
  const Workspace space = cut_workspace(lookups, args.workspace);
  const hlite::gpu::Temporary temporary{args.workspace + space.bytes,
                                        args.workspace_bytes - space.bytes};
  launch(item_shape("number_lookups", lookups, stream), number_lookups_kernel, args.slots,
         args.placement, args.keys.data(), n, space.numbers[0], space.sources[0], args.check);
  const int sorted = hlite::gpu::sort_pairs(
      stream, temporary,
      hlite::gpu::SortPairs<uint32_t>{
          {space.numbers[0], space.numbers[1]}, {space.sources[0], space.sources[1]}, n},
      sort_bits(args.placement.numbers));
  const Sorted list{space.numbers[sorted], space.sources[sorted], n};
  launch(item_shape("mark_first", lookups, stream), mark_first_kernel, list, args.placement.numbers,
         space.first);
  hlite::gpu::exclusive_sums(stream, temporary, space.first, space.before, n);
  launch({.name = "find_lists", .block = dim3(kMostListed + 2), .stream = stream},
         find_lists_kernel, list, args.placement, space.first, space.before, space.begin, args.pool,
         args.lists);
  launch(item_shape("write_lists", lookups, stream), write_lists_kernel, list, args.placement,
         space.first, space.before, space.begin, args.pool, args.lists, args.entries.data());
}

void take_lists(cudaStream_t stream, const TakeArgs& args) {
  launch(
      item_shape("take_lists", std::max<int64_t>(args.pool.listed_rows(), args.pool.ranks), stream),
      take_lists_kernel, args);
}

HLITE_KERNELS(routing) {
  list.add<routing_workspace>(kernels::routing_workspace);
  list.add<route_keys>(kernels::route_keys);
  list.add<take_lists>(kernels::take_lists);
}

}  // namespace hlite::embedding::gpu
