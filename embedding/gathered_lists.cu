// Kernels of gathered lists: routing (routing.cu) of all ranks' lookups at once. A stable sort by
// the numbers of rows, then one by ranks, brings each rank's lookups together in the order of its
// lists. All lists have to be counted, because every rank must know the longest of any.
//
// Bytes at 55,296 samples of 26 one-hot slots, n = 1.4 M lookups: five passes of 16 n and four
// arrays more, about 150 MB on each rank, compared with 12 MB for routing its own samples.
#include "embedding/gathered_lists.h"

#include <algorithm>
#include <bit>
#include <string>

#include "embedding/cutter.h"
#include "embedding/find_row.cuh"
#include "embedding/item_threads.cuh"
#include "hugectr_lite/core/device_sort.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::embedding::gpu {
namespace {

struct Workspace {
  uint32_t* number_of = nullptr;  // of each lookup
  uint32_t* keys[2] = {};
  uint32_t* lookups[2] = {};
  uint8_t* first = nullptr;    // of its equals on its rank, in the sorted list
  uint32_t* before = nullptr;  // such ones before
  uint32_t* begin = nullptr;   // [ranks] of the list that each has for this rank, among them
  size_t bytes = 0;
};

Workspace cut_workspace(int64_t lookups, std::byte* memory) {
  Workspace space;
  Cutter cutter(memory);
  space.number_of = cutter.cut<uint32_t>(lookups);
  for (int i = 0; i < 2; ++i) {
    space.keys[i] = cutter.cut<uint32_t>(lookups);
    space.lookups[i] = cutter.cut<uint32_t>(lookups);
  }
  space.first = cutter.cut<uint8_t>(lookups);
  space.before = cutter.cut<uint32_t>(lookups);
  space.begin = cutter.cut<uint32_t>(kMaxListRanks);
  space.bytes = cutter.bytes();
  return space;
}

int sort_bits(uint32_t numbers) { return std::max(1, static_cast<int>(std::bit_width(numbers))); }

// The lookups by rank, then by number.
struct SortedGathered {
  const uint32_t* lookups;
  const uint32_t* number_of;
  uint32_t count;
  uint32_t of_rank;  // lookups of a rank that has all its samples

  __device__ uint32_t number(int64_t at) const { return number_of[lookups[at]]; }
  __device__ uint32_t begin_of(uint32_t rank) const {
    const uint64_t begin = uint64_t{rank} * of_rank;
    return begin < count ? static_cast<uint32_t>(begin) : count;
  }
};

__global__ void __launch_bounds__(kItemThreads)
    number_gathered_kernel(SlotsRef slots, PlacementRef placement, const uint32_t* keys,
                           uint32_t count, uint32_t* number_of, uint32_t* numbers,
                           uint32_t* lookups) {
  const int64_t i = global_thread();
  if (i >= count) return;
  const KeyPlace place = place_of_key(slots, static_cast<uint32_t>(i));
  const SlotRef slot = slots.slots[place.slot];
  // A key beyond its table is reported by the rank that has it.
  const uint32_t number =
      find_row(slot, keys, place.index, KeyRecorder{}) == kNoRow
          ? placement.numbers
          : placement.number_of(slot, slots.table_of[place.slot], keys[place.index]);
  number_of[i] = number;
  numbers[i] = number;
  lookups[i] = static_cast<uint32_t>(i);
}

__global__ void __launch_bounds__(kItemThreads)
    rank_gathered_kernel(const uint32_t* lookups, uint32_t count, uint32_t of_rank,
                         uint32_t* ranks) {
  const int64_t i = global_thread();
  if (i < count) ranks[i] = lookups[i] / of_rank;
}

__global__ void __launch_bounds__(kItemThreads)
    mark_gathered_kernel(SortedGathered list, uint32_t none, uint8_t* first) {
  const int64_t i = global_thread();
  if (i >= list.count) return;
  const uint32_t number = list.number(i);
  const bool begins = i % list.of_rank == 0;  // its rank's
  first[i] = number != none && (begins || list.number(i - 1) != number) ? 1 : 0;
}

// A block per requesting rank, a thread per owner and one more.
__global__ void __launch_bounds__(kMaxListRanks + 1)
    find_gathered_kernel(SortedGathered list, GatheredListsArgs args, const uint8_t* first,
                         const uint32_t* before, uint32_t* begins) {
  __shared__ uint32_t begin[kMaxListRanks + 1];
  const ExchangeShape& shape = args.shape;
  const uint32_t from = blockIdx.x;
  const auto q = static_cast<int32_t>(threadIdx.x);
  if (q <= shape.ranks) {
    uint32_t low = list.begin_of(from), high = list.begin_of(from + 1);
    while (low < high) {  // the first item whose number is not below
      const uint32_t middle = low + (high - low) / 2;
      if (list.number(middle) < args.placement.first_number[q])
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
  if (q != 0) return;
  int64_t longest = 0;
  for (int32_t r = 0; r < shape.ranks; ++r) {
    const int64_t n = begin[r + 1] - begin[r];
    longest = n > longest ? n : longest;
  }
  const int64_t listed =
      longest <= shape.capacity ? begin[args.rank + 1] - begin[args.rank] : int64_t{0};
  uint32_t* const block = args.blocks + from * shape.block_words();
  block[0] = static_cast<uint32_t>(longest);
  block[1] = static_cast<uint32_t>(longest >> 32);
  args.received_bytes[from] = (kListHeader + listed) * static_cast<int64_t>(sizeof(uint32_t));
  begins[from] = begin[args.rank];
}

__global__ void __launch_bounds__(kItemThreads)
    write_gathered_kernel(SortedGathered list, GatheredListsArgs args, const uint8_t* first,
                          const uint32_t* before, const uint32_t* begins) {
  const int64_t i = global_thread();
  if (i >= list.count || first[i] == 0) return;
  const uint32_t number = list.number(i), mine = args.placement.first_number[args.rank];
  if (number < mine || number >= args.placement.first_number[args.rank + 1]) return;
  const int64_t from = i / list.of_rank, at = before[i] - begins[from];
  if (at < args.shape.capacity)  // else the run will count for nothing
    args.blocks[from * args.shape.block_words() + kListHeader + at] = number - mine;
}

}  // namespace

size_t gathered_workspace(int64_t lookups, uint32_t numbers) {
  if (lookups >= int64_t{1} << 31)
    throw CudaError("keys of all ranks: expected fewer than 2^31 lookups a batch, found " +
                    std::to_string(lookups));
  const auto n = static_cast<uint32_t>(lookups);
  size_t more = 0;
  if (n > 0)
    more = std::max({hlite::gpu::sort_pairs_bytes<uint32_t>(n, sort_bits(numbers)),
                     hlite::gpu::sort_pairs_bytes<uint32_t>(n, sort_bits(kMaxListRanks - 1)),
                     hlite::gpu::exclusive_sums_bytes(n)});
  return cut_workspace(lookups, nullptr).bytes + more;
}

void list_gathered(cudaStream_t stream, const GatheredListsArgs& args) {
  if (!indices_fit(args.slots, args.keys.dim(0)))
    throw CudaError("keys of all ranks: expected fewer than 2^32, found a batch of " +
                    std::to_string(args.keys.dim(0)));
  const int64_t lookups = args.keys.dim(0) * args.slots.lookups;
  const auto n = static_cast<uint32_t>(lookups),
             of_rank = static_cast<uint32_t>(args.samples_of_rank * args.slots.lookups),
             none = args.placement.numbers;
  const Workspace space = cut_workspace(lookups, args.workspace);
  const hlite::gpu::Temporary temporary{args.workspace + space.bytes,
                                        args.workspace_bytes - space.bytes};
  launch(item_shape("number_gathered", lookups, stream), number_gathered_kernel, args.slots,
         args.placement, args.keys.data(), n, space.number_of, space.keys[0], space.lookups[0]);
  const auto sort = [&](int from, uint32_t most) {
    const int to = 1 - from;
    const int sorted = hlite::gpu::sort_pairs(
        stream, temporary,
        hlite::gpu::SortPairs<uint32_t>{
            {space.keys[from], space.keys[to]}, {space.lookups[from], space.lookups[to]}, n},
        sort_bits(most));
    return sorted == 0 ? from : to;
  };
  int now = sort(0, none);
  launch(item_shape("rank_gathered", lookups, stream), rank_gathered_kernel, space.lookups[now], n,
         of_rank, space.keys[now]);
  now = sort(now, static_cast<uint32_t>(args.shape.ranks - 1));
  const SortedGathered list{space.lookups[now], space.number_of, n, of_rank};
  launch(item_shape("mark_gathered", lookups, stream), mark_gathered_kernel, list, none,
         space.first);
  hlite::gpu::exclusive_sums(stream, temporary, space.first, space.before, n);
  launch({.name = "find_gathered",
          .grid = dim3(static_cast<unsigned>(args.shape.ranks)),
          .block = dim3(kMaxListRanks + 1),
          .stream = stream},
         find_gathered_kernel, list, args, space.first, space.before, space.begin);
  launch(item_shape("write_gathered", lookups, stream), write_gathered_kernel, list, args,
         space.first, space.before, space.begin);
}

HLITE_KERNELS(gathered_lists) {
  list.add<gathered_workspace>(kernels::gathered_workspace);
  list.add<list_gathered>(kernels::list_gathered);
}

}  // namespace hlite::embedding::gpu
