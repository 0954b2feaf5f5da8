// Kernels of routing: every lookup gets the number of its row; a stable sort brings equal ones
// together, by rank and then row, which is the order of the lists; what is first among its equals
// is an item of a list, and its place there the number of first ones before it. For hashed tables a
// number is that of a table on a rank, and a sort by key comes before the one by number.
//
// Bytes at 6,912 samples of 26 one-hot slots, n = 180 k lookups: the sort's four passes of 16 n,
// 12 MB in all, which stay in the L2 cache; it costs latency.
#include "embedding/routing.h"

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
  space.begin = cutter.cut<uint32_t>(kMaxListRanks + 2);
  space.bytes = cutter.bytes();
  return space;
}

constexpr int kKeyBits = 32;

int sort_bits(uint32_t numbers) { return std::max(1, static_cast<int>(std::bit_width(numbers))); }

// The sorted list.
struct SortedLookups {
  const uint32_t* numbers;
  const uint32_t* sources;
  uint32_t count;
  const uint32_t* keys;  // of the batch, where rows of a number differ by key; else null

  [[nodiscard]] __device__ bool same_row(int64_t i, int64_t j) const {
    return numbers[i] == numbers[j] && (!keys || keys[sources[i]] == keys[sources[j]]);
  }
};

// Marks the first of equal keys in it.
struct Firsts {
  uint8_t* first;
  uint32_t* before;  // such ones before

  // Such ones among the items whose number is below.
  [[nodiscard]] __device__ uint32_t below(const SortedLookups& list, uint32_t number) const {
    uint32_t low = 0, high = list.count;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (list.numbers[middle] < number)
        low = middle + 1;
      else
        high = middle;
    }
    if (low < list.count) return before[low];
    return list.count > 0 ? before[list.count - 1] + first[list.count - 1] : 0;
  }
};

__global__ void __launch_bounds__(kItemThreads)
    number_lookups_kernel(SlotsRef slots, PlacementRef placement, const uint32_t* keys,
                          uint32_t lookups, uint32_t* numbers, uint32_t* sources,
                          KeyRecorder check) {
  const int64_t i = global_thread();
  if (i >= lookups) return;
  const KeyPlace place = place_of_key(slots, static_cast<uint32_t>(i));
  const SlotRef slot = slots.slots[place.slot];
  const uint32_t key = keys[place.index];
  sources[i] = place.index;
  numbers[i] = find_row(slot, keys, place.index, check) == kNoRow
                   ? placement.numbers
                   : placement.number_of(slot, slots.table_of[place.slot], key);
}

// Makes, for hashed tables, what they are sorted by first.
__global__ void __launch_bounds__(kItemThreads)
    list_keys_kernel(SlotsRef slots, const uint32_t* keys, uint32_t lookups, uint32_t* listed,
                     uint32_t* sources) {
  const int64_t i = global_thread();
  if (i >= lookups) return;
  const KeyPlace place = place_of_key(slots, static_cast<uint32_t>(i));
  listed[i] = keys[place.index];
  sources[i] = place.index;
}

// And then.
__global__ void __launch_bounds__(kItemThreads)
    number_sources_kernel(SlotsRef slots, PlacementRef placement, const uint32_t* keys,
                          uint32_t lookups, const uint32_t* sources, uint32_t* numbers) {
  const int64_t i = global_thread();
  if (i >= lookups) return;
  const uint32_t source = sources[i], key = keys[source];
  const uint32_t column =
      source % static_cast<uint32_t>(slots.columns) - static_cast<uint32_t>(slots.first_column);
  const int32_t s = slots.one_hot() ? static_cast<int32_t>(column) : slots.slot_of[column];
  numbers[i] = key == kNoKey ? placement.numbers
                             : placement.number_of(slots.slots[s], slots.table_of[s], key);
}

__global__ void __launch_bounds__(kItemThreads)
    mark_first_kernel(SortedLookups list, uint32_t none, uint8_t* first) {
  const int64_t i = global_thread();
  if (i >= list.count) return;
  first[i] = list.numbers[i] != none && (i == 0 || !list.same_row(i - 1, i)) ? 1 : 0;
}

// One block, a thread a rank and two more.
__global__ void __launch_bounds__(kMaxListRanks + 2)
    find_lists_kernel(SortedLookups list, PlacementRef placement, Firsts firsts, uint32_t* begin,
                      ExchangeShape shape, RequestLists lists) {
  const auto q = static_cast<int32_t>(threadIdx.x);
  if (q <= shape.ranks + 1) begin[q] = firsts.below(list, placement.first_number[q]);
  __syncthreads();
  if (q > shape.ranks) return;
  const int64_t count = begin[q + 1] - begin[q];
  const int64_t capacity = q < shape.ranks ? shape.capacity : shape.replicated_capacity;
  lists.counts[q] = static_cast<uint32_t>(count < capacity ? count : capacity);
  if (q == shape.ranks) return;
  int64_t longest = 0;
  for (int32_t r = 0; r < shape.ranks; ++r) {
    const int64_t n = begin[r + 1] - begin[r];
    longest = n > longest ? n : longest;
  }
  uint32_t* const block = lists.blocks + q * shape.block_words();
  block[0] = static_cast<uint32_t>(longest);
  block[1] = static_cast<uint32_t>(longest >> 32);
  const int64_t listed = longest <= shape.capacity ? count : 0;
  lists.list_bytes[q] = (shape.header_words() + listed) * static_cast<int64_t>(sizeof(uint32_t));
  lists.vector_bytes[q] = int64_t{lists.counts[q]} * shape.row_bytes();
}

// A thread a table of a list: where it ends there.
__global__ void __launch_bounds__(kItemThreads)
    find_table_ends_kernel(SortedLookups list, Firsts firsts, const uint32_t* begin,
                           ExchangeShape shape, uint32_t* blocks) {
  const int64_t number = global_thread();
  if (number >= shape.ranks * shape.hashed_tables) return;
  const int64_t q = number / shape.hashed_tables, t = number - q * shape.hashed_tables;
  blocks[q * shape.block_words() + kListHeader + t] =
      firsts.below(list, static_cast<uint32_t>(number + 1)) - begin[q];
}

__global__ void __launch_bounds__(kItemThreads)
    write_lists_kernel(SortedLookups list, PlacementRef placement, Firsts firsts,
                       const uint32_t* begin, ExchangeShape shape, RequestLists lists,
                       uint32_t* entries) {
  const int64_t i = global_thread();
  if (i >= list.count) return;
  const uint32_t number = list.numbers[i], source = list.sources[i];
  if (number == placement.numbers) {
    entries[source] = kNoKey;
    return;
  }
  int32_t q = 0;  // the last rank, or the replicated rows, whose numbers begin here or before
  while (q < shape.ranks && placement.first_number[q + 1] <= number) ++q;
  const int64_t at = int64_t{firsts.before[i]} + firsts.first[i] - 1 - begin[q];
  const bool replicated = q == shape.ranks;
  if (at >= (replicated ? shape.replicated_capacity : shape.capacity)) {
    entries[source] = kNoKey;  // the run will count for nothing
    return;
  }
  entries[source] = static_cast<uint32_t>(q * shape.capacity + at);
  if (firsts.first[i] == 0) return;
  uint32_t* const block = lists.blocks + q * shape.block_words();
  uint32_t* const to = replicated ? lists.replicated : block + shape.header_words();
  to[at] = list.keys ? list.keys[source] : number - placement.first_number[q];
}

// The table of a list's item, by where tables end.
__device__ inline uint32_t table_of_item(const uint32_t* ends, int64_t tables, int64_t item) {
  int64_t low = 0, high = tables - 1;  // the first one that ends after it
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (ends[middle] <= item)
      low = middle + 1;
    else
      high = middle;
  }
  return static_cast<uint32_t>(low);
}

// A thread per row of all lists' capacity; the first threads also do the work that is once per
// rank.
__global__ void __launch_bounds__(kItemThreads) take_lists_kernel(TakeArgs args) {
  const ExchangeShape& shape = args.shape;
  const int64_t i = global_thread(), words = shape.block_words();
  int64_t needed = 0;
  for (int32_t q = 0; q < shape.ranks; ++q) {
    const uint32_t* const header = args.blocks + q * words;
    const auto longest = static_cast<int64_t>(header[0] | uint64_t{header[1]} << 32);
    needed = longest > needed ? longest : needed;
  }
  const bool fits = needed <= shape.capacity;
  const auto count_of = [&](int64_t q) {
    const int64_t received = args.received_bytes[q] / static_cast<int64_t>(sizeof(uint32_t));
    return fits ? received - shape.header_words() : 0;
  };
  if (i < shape.list_capacity()) {
    const int64_t q = i / shape.capacity, at = i - q * shape.capacity;
    const uint32_t* const block = args.blocks + q * words;
    const bool listed = at < count_of(q);
    const bool hashed = shape.hashed_tables > 0;
    (hashed ? args.requested.keys : args.requested.rows)[i] =
        listed ? block[shape.header_words() + at] : kNoKey;
    if (hashed)
      args.requested.tables[i] =
          listed ? table_of_item(block + kListHeader, shape.hashed_tables, at) : 0;
  }
  if (i == 0) {
    *args.requested.needed = needed;
    if (!fits) *args.capacity_exceeded = 1;
  }
  if (i >= shape.ranks) return;
  const int64_t requested = count_of(i), row_bytes = shape.row_bytes();
  args.requested.counts[i] = static_cast<uint32_t>(requested);
  args.requested.vector_bytes[i] = requested * row_bytes;
  PeerCounts& c = args.counts[i];
  c.keys.sent += args.lists.list_bytes[i];
  c.keys.messages += 1;
  c.keys.calls += 1;
  c.keys.received += args.received_bytes[i];
  if (!fits) return;
  const int64_t own = args.lists.counts[i];
  c.rows.sent += requested * row_bytes;
  c.rows.messages += requested > 0 ? 1 : 0;
  c.rows.received += own * row_bytes;
  c.rows.calls += 1;
  if (!args.training) return;
  c.grads.sent += own * row_bytes;
  c.grads.messages += own > 0 ? 1 : 0;
  c.grads.received += requested * row_bytes;
  c.grads.calls += 1;
}

// Buffer `from` by `bits` of its numbers; returns the buffer that holds the result.
int sort_by_number(cudaStream_t stream, const hlite::gpu::Temporary& temporary,
                   const Workspace& space, int from, uint32_t n, int bits) {
  const int other = 1 - from;
  const hlite::gpu::SortPairs<uint32_t> pairs{
      {space.numbers[from], space.numbers[other]}, {space.sources[from], space.sources[other]}, n};
  return hlite::gpu::sort_pairs(stream, temporary, pairs, bits) == 0 ? from : other;
}

// The n lookups by number, and of hashed tables those of a number by key.
SortedLookups sort_lookups(cudaStream_t stream, const RouteArgs& args, const Workspace& space,
                           const hlite::gpu::Temporary& temporary, uint32_t n) {
  const uint32_t* const keys = args.keys.data();
  const bool hashed = args.shape.hashed_tables > 0;
  int sorted = 0;
  if (hashed) {
    launch(item_shape("list_keys", n, stream), list_keys_kernel, args.slots, keys, n,
           space.numbers[0], space.sources[0]);
    sorted = sort_by_number(stream, temporary, space, 0, n, kKeyBits);
    launch(item_shape("number_sources", n, stream), number_sources_kernel, args.slots,
           args.placement, keys, n, space.sources[sorted], space.numbers[sorted]);
  } else {
    launch(item_shape("number_lookups", n, stream), number_lookups_kernel, args.slots,
           args.placement, keys, n, space.numbers[0], space.sources[0], args.check);
  }
  sorted = sort_by_number(stream, temporary, space, sorted, n, sort_bits(args.placement.numbers));
  return {space.numbers[sorted], space.sources[sorted], n, hashed ? keys : nullptr};
}

}  // namespace

size_t routing_workspace(int64_t lookups, uint32_t numbers) {
  if (lookups >= int64_t{1} << 31)
    throw CudaError("routing: expected fewer than 2^31 lookups a batch, found " +
                    std::to_string(lookups));
  const auto n = static_cast<uint32_t>(lookups);
  const size_t space = cut_workspace(lookups, nullptr).bytes;
  if (n == 0) return space;
  return space + std::max({hlite::gpu::sort_pairs_bytes<uint32_t>(n, sort_bits(numbers)),
                           hlite::gpu::sort_pairs_bytes<uint32_t>(n, kKeyBits),
                           hlite::gpu::exclusive_sums_bytes(n)});
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
  const SortedLookups list = sort_lookups(stream, args, space, temporary, n);
  const Firsts firsts{space.first, space.before};
  launch(item_shape("mark_first", lookups, stream), mark_first_kernel, list, args.placement.numbers,
         space.first);
  hlite::gpu::exclusive_sums(stream, temporary, space.first, space.before, n);
  launch({.name = "find_lists", .block = dim3(kMaxListRanks + 2), .stream = stream},
         find_lists_kernel, list, args.placement, firsts, space.begin, args.shape, args.lists);
  if (args.shape.hashed_tables > 0)
    launch(item_shape("find_table_ends", args.shape.ranks * args.shape.hashed_tables, stream),
           find_table_ends_kernel, list, firsts, space.begin, args.shape, args.lists.blocks);
  launch(item_shape("write_lists", lookups, stream), write_lists_kernel, list, args.placement,
         firsts, space.begin, args.shape, args.lists, args.entries.data());
}

void take_lists(cudaStream_t stream, const TakeArgs& args) {
  launch(item_shape("take_lists", std::max<int64_t>(args.shape.list_capacity(), args.shape.ranks),
                    stream),
         take_lists_kernel, args);
}

HLITE_KERNELS(routing) {
  list.add<routing_workspace>(kernels::routing_workspace);
  list.add<route_keys>(kernels::route_keys);
  list.add<take_lists>(kernels::take_lists);
}

}  // namespace hlite::embedding::gpu
