// Kernels of hashed tables.
//
// Insertion: every lookup searches for its key, and takes its row if it has one. A thread that finds
// an empty place claims it (an atomic compare and swap), so that one thread lists each new key. The
// list, in the order in which threads came, is sorted by table and key, and its keys get the next
// rows in that order: rows do not depend on threads. Where in the table a key lies does, and shows
// nowhere. The host does not know how many keys are new, but the kernels that sort them do: they
// end at once where there are none, as in most iterations.
#include "embedding/hashed_args.h"

#include <string>
#include <utility>

#include "embedding/find_row.cuh"
#include "embedding/item_threads.cuh"
#include "embedding/piece_moves.cuh"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::embedding::gpu {
namespace {

constexpr unsigned long long kEmpty = ~0ull;

// Of kernels whose amount of work the host does not know: usually few rows are new.
constexpr int64_t kBlocks = 1024;
// New keys that a block sorts, in shared memory; sorted lists that a pass then merges into one.
constexpr int64_t kPieceKeys = 4096, kMergedRuns = 16;
constexpr int kSortThreads = 512;

// Other threads may write the key meanwhile, so every load goes past the first-level cache.
template <typename Table>
__device__ inline unsigned long long key_at(const Table& table, uint64_t at) {
  return *static_cast<const volatile unsigned long long*>(table.keys + at);
}

// Returns the place of a key, or the empty place where it would go; past the end in a full table.
template <typename Table>
__device__ inline uint64_t probe(const Table& table, unsigned long long key) {
  uint64_t at = home_of(key, table.shift);
  for (uint64_t steps = 0; steps <= table.mask(); ++steps, at = (at + 1) & table.mask()) {
    const unsigned long long found = key_at(table, at);
    if (found == key || found == kEmpty) return at;
  }
  return table.mask() + 1;
}

// Makes sure that a key has a place. True for the one thread that took it.
template <typename Table>
__device__ inline bool claim(const Table& table, unsigned long long key) {
  for (uint64_t at = probe(table, key); at <= table.mask(); at = probe(table, key)) {
    if (key_at(table, at) == key) return false;
    const unsigned long long found = atomicCAS(&table.keys[at], kEmpty, key);
    if (found == kEmpty || found == key) return found == kEmpty;
  }
  return false;
}

// Counts a use, once an iteration. Returns the count for the one thread that did so, else 0.
__device__ inline uint32_t touch(RowUse& use, uint32_t iteration) {
  if (*static_cast<const volatile uint32_t*>(&use.last) == iteration) return 0;
  if (atomicExch(&use.last, iteration) == iteration) return 0;
  return ++use.count;
}

// KeyCounter::count().
__device__ inline uint32_t count_key(const KeyCounts& counts, unsigned long long key,
                                     uint32_t iteration) {
  uint64_t at = probe(counts, key);
  if (at > counts.mask()) return 0;
  if (key_at(counts, at) != key) {
    if (counts.state->open == 0) return 0;
    if (claim(counts, key)) atomicAdd(&counts.state->size, 1u);
    at = probe(counts, key);
    if (at > counts.mask()) return 0;
  }
  return touch(counts.uses[at], iteration);
}

// Returns true if the rules let this thread give a row to a key of the batch that had none.
__device__ inline bool admits(const HashedInsertArgs& args, unsigned long long key) {
  const HashedTable& table = args.batch.table;
  const AdmissionArgs& by = args.admission;
  const uint32_t iteration = iteration_after(args.step);
  const bool full = by.may_be_full && table.counts->size == table.capacity;
  if (by.type == AdmissionType::kCount)
    return count_key(by.counts, key, iteration) >= by.threshold && !full;
  return !full && (by.type == AdmissionType::kAll ||
                   admits_by_chance(args.first, key, iteration, by.probability));
}

__device__ inline uint32_t find(const HashedTable& table, unsigned long long key) {
  const uint64_t at = probe(table, key);
  return at <= table.mask() && table.keys[at] == key ? table.rows[at] : kUnseen;
}

// The table of lookup i, or the one that a list says, and its place in the key matrix.
struct TablePlace {
  uint32_t table, index;
};
__device__ inline TablePlace table_place(const HashedArgs& args, uint32_t i) {
  const KeyPlace place = place_of_key(args.slots, i);
  if (args.requested_tables) return {args.requested_tables[i], place.index};
  return {static_cast<uint32_t>(args.slots.table_of[place.slot]), place.index};
}

// Also finds the rows of the keys that have one. The others read kNoRow until rows_kernel().
__global__ void __launch_bounds__(kItemThreads)
    claim_kernel(HashedInsertArgs insert, uint32_t lookups, unsigned long long* new_keys) {
  const int64_t i = global_thread();
  if (i >= lookups) return;
  const HashedArgs& args = insert.batch;
  const TablePlace place = table_place(args, static_cast<uint32_t>(i));
  const uint32_t key = args.keys.data()[place.index];
  const unsigned long long both = table_key(place.table, key);
  const uint64_t at = key == kNoKey ? kEmpty : probe(args.table, both);
  const bool there = at <= args.table.mask() && key_at(args.table, at) == both;
  args.rows.data()[place.index] = there ? args.table.rows[at] : kNoRow;
  if (there || key == kNoKey) return;
  if (insert.admission.refuses && !admits(insert, both)) return;
  if (claim(args.table, both)) new_keys[atomicAdd(&args.table.counts->claimed, 1u)] = both;
}

// A block sorts a piece of the new keys (a bitonic sort).
__global__ void __launch_bounds__(kSortThreads)
    sort_pieces_kernel(const HashedCounts* counts, unsigned long long* keys) {
  __shared__ unsigned long long piece[kPieceKeys];
  const int64_t n = counts->claimed;
  for (int64_t first = blockIdx.x * kPieceKeys; first < n; first += gridDim.x * kPieceKeys) {
    const auto count = static_cast<uint32_t>(n - first < kPieceKeys ? n - first : kPieceKeys);
    uint32_t sorted = 2;
    while (sorted < count) sorted *= 2;
    for (uint32_t i = threadIdx.x; i < sorted; i += kSortThreads)
      piece[i] = i < count ? keys[first + i] : kEmpty;
    __syncthreads();
    for (uint32_t size = 2; size <= sorted; size *= 2)
      for (uint32_t step = size / 2; step > 0; step /= 2) {
        for (uint32_t pair = threadIdx.x; pair < sorted / 2; pair += kSortThreads) {
          const uint32_t low = 2 * pair - (pair & (step - 1)), high = low + step;
          const unsigned long long a = piece[low], b = piece[high];
          if ((a > b) != ((low & size) == 0)) continue;
          piece[low] = b;
          piece[high] = a;
        }
        __syncthreads();
      }
    for (uint32_t i = threadIdx.x; i < count; i += kSortThreads) keys[first + i] = piece[i];
    __syncthreads();
  }
}

// Merges kMergedRuns sorted runs of `run` new keys at a time. As many keys come before one as
// there are smaller ones in each run.
__global__ void __launch_bounds__(kItemThreads)
    merge_runs_kernel(const HashedCounts* counts, const unsigned long long* from,
                      unsigned long long* to, int64_t run) {
  const int64_t n = counts->claimed;
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    const unsigned long long key = from[i];
    const int64_t first = i / (run * kMergedRuns) * (run * kMergedRuns),
                  end = first + run * kMergedRuns < n ? first + run * kMergedRuns : n;
    int64_t place = first;
    for (int64_t begin = first; begin < end; begin += run) {
      int64_t low = begin, high = begin + run < end ? begin + run : end;
      if (low <= i && i < high) low = high = i;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (from[middle] < key)
          low = middle + 1;
        else
          high = middle;
      }
      place += low - begin;
    }
    to[place] = key;
  }
}

// Gives the i-th new key its row.
__global__ void __launch_bounds__(kItemThreads)
    number_kernel(HashedInsertArgs args, const unsigned long long* new_keys) {
  const HashedTable& table = args.batch.table;
  const AdmissionArgs& by = args.admission;
  const bool counted = by.type == AdmissionType::kCount;
  const int64_t n = table.counts->claimed;
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    const unsigned long long key = new_keys[i];
    const int64_t row = int64_t{table.counts->size} + i;
    const bool fits = row < table.capacity;
    const uint64_t at = probe(table, key);
    table.rows[at] = fits ? static_cast<uint32_t>(row) : kUnseen;
    if (fits) table.key_of_row[row] = key;
    // Counted for this batch when its rows are looked up.
    if (fits && args.uses) args.uses[row] = {counted ? by.threshold - 1 : 0, 0};
    if (fits && counted) atomicAdd(&by.counts.state->size, ~0u);
    if (row == table.capacity && table.counts->full == 0 && !by.may_be_full) {
      table.counts->full = 1;
      table.counts->full_key = key;
    }
  }
}

__global__ void count_kernel(HashedTable table, int32_t* capacity_exceeded) {
  HashedCounts& counts = *table.counts;
  if (capacity_exceeded && counts.full != 0) *capacity_exceeded = 1;
  const uint32_t free = table.capacity - counts.size;
  counts.before = counts.size;
  counts.size += counts.claimed < free ? counts.claimed : free;
  counts.inserted += counts.size - counts.before;
  counts.claimed = 0;
}

// Decides whether the batch at hand may bring keys to count, once an iteration.
__global__ void open_counts_kernel(KeyCounts counts, const int64_t* step) {
  const uint32_t iteration = iteration_after(step);
  if (counts.state->step == iteration) return;
  counts.state->step = iteration;
  counts.state->open = counts.state->size < counts.capacity ? 1 : 0;
}

// Those of all keys, or, after claim_kernel(), of those that had none. Counts, with `uses`, the uses
// of rows and the keys that have none.
__global__ void __launch_bounds__(kItemThreads)
    rows_kernel(HashedArgs args, uint32_t lookups, bool claimed, RowUse* uses,
                const int64_t* step) {
  const int64_t i = global_thread();
  if (i >= lookups) return;
  const TablePlace place = table_place(args, static_cast<uint32_t>(i));
  uint32_t row = claimed ? args.rows.data()[place.index] : kNoRow;
  if (row == kNoRow) {
    const uint32_t key = args.keys.data()[place.index];
    row = key == kNoKey ? kNoRow : find(args.table, table_key(place.table, key));
    args.rows.data()[place.index] = row;
  }
  if (!uses) return;
  if (row < kUnseen) touch(uses[row], iteration_after(step));
  if (row == kUnseen) atomicAdd(&args.table.counts->refused, 1ull);
}

template <typename W, int kPiece>
__global__ void __launch_bounds__(kItemThreads)
    gather_kernel(HashedArgs list, const W* table, InitialValues first, Matrix<float> out,
                  int lanes) {
  const int64_t width = out.dim(1);
  struct Found {
    bool there = false;
    Pack<float, kPiece> values = {};
  };
  move_pieces<kPiece>(
      out.dim(0), width, lanes,
      [&](int64_t i, int64_t column) {
        Found found;
        const uint32_t row = list.rows.data()[i];
        found.there = row != kNoKey;
        if (row == kUnseen)
          for (int j = 0; j < kPiece; ++j)
            found.values.value[j] =
                first.at(list.requested_tables[i], list.keys.data()[i], width, column + j);
        else if (found.there)
          found.values = floats_of(load_pack<kPiece>(table + row * width + column));
        return found;
      },
      [&](int64_t i, int64_t column, const Found& found) {
        if (found.there) store_pack(out.data() + i * width + column, found.values);
      });
}

// Element by element of rows [first, end), or of those that came last.
template <typename W>
__global__ void __launch_bounds__(kItemThreads)
    initial_values_kernel(HashedTable table, UpdatedRows rows, InitialValues values, int64_t first,
                          int64_t end, bool came_last) {
  if (came_last) {
    first = table.counts->before;
    end = table.counts->size;
  }
  const int64_t width = rows.w.dim(1);
  for (int64_t i = first * width + global_thread(); i < end * width; i += grid_threads()) {
    const int64_t row = i / width;
    const unsigned long long key = table.key_of_row[row];
    const int64_t column = i - row * width;
    rows.w.as<W>().data()[i] = from_float<W>(
        values.at(static_cast<int64_t>(key >> 32), static_cast<uint32_t>(key), width, column));
    if (column < rows.state0.dim(1)) rows.state0.row(row)[column] = values.state;
    if (column < rows.state1.dim(1)) rows.state1.row(row)[column] = values.state;
  }
}

__global__ void __launch_bounds__(kItemThreads) assign_kernel(HashedTable table, uint32_t count) {
  const int64_t row = global_thread();
  if (row >= count) return;
  const unsigned long long key = table.key_of_row[row];
  claim(table, key);
  table.rows[probe(table, key)] = static_cast<uint32_t>(row);
}

// A thread an element of the output; bags without an unseen key stay as they are.
template <typename T, typename W>
__global__ void __launch_bounds__(kItemThreads)
    pool_unseen_kernel(HashedArgs args, const W* table, InitialValues first, T* out,
                       int64_t elements) {
  const int64_t i = global_thread();
  if (i >= elements) return;
  const int64_t width = args.slots.width, bag = i / width, column = i - bag * width;
  const int64_t sample = bag / args.slots.count, s = bag - sample * args.slots.count;
  const int32_t of = args.slots.table_of[s];
  const int64_t first_key = sample * args.slots.columns + args.slots.slots[s].column;
  const int hotness = args.slots.hotness(s);
  const uint32_t* rows = args.rows.data() + first_key;
  bool unseen = false;
  for (int k = 0; k < hotness; ++k) unseen |= rows[k] == kUnseen;
  if (!unseen) return;
  float sum = 0;
  int found = 0;
  for (int k = 0; k < hotness; ++k) {
    if (rows[k] == kNoKey) continue;
    const float value = rows[k] == kUnseen
                            ? first.at(of, args.keys.data()[first_key + k], width, column)
                            : to_float(table[rows[k] * width + column]);
    sum = found == 0 ? value : sum + value;
    ++found;
  }
  if (args.slots.mean && found > 1) sum *= 1 / static_cast<float>(found);
  out[i] = from_float<T>(sum);
}

uint32_t lookups_of(const HashedArgs& args) {
  const int64_t batch = args.keys.dim(0);
  if (!indices_fit(args.slots, batch))
    throw CudaError("hashed tables: expected fewer than 2^32 keys, found a batch of " +
                    std::to_string(batch));
  return static_cast<uint32_t>(batch * args.slots.lookups);
}

void fill_initial_values(cudaStream_t stream, const HashedTable& table, const UpdatedRows& rows,
                         const InitialValues& values, int64_t first, int64_t end, bool came_last) {
  const int64_t most = came_last ? rows.w.size() : (end - first) * rows.w.dim(1);
  with_float_type(rows.w.type(), [&]<typename W>() {
    launch(item_shape("hashed_initial_values", most, stream, kBlocks), initial_values_kernel<W>,
           table, rows, values, first, end, came_last);
  });
}

}  // namespace

void hashed_find(cudaStream_t stream, const HashedArgs& args) {
  const uint32_t n = lookups_of(args);
  launch(item_shape("hashed_rows", n, stream), rows_kernel, args, n, false,
         static_cast<RowUse*>(nullptr), static_cast<const int64_t*>(nullptr));
}

void hashed_insert(cudaStream_t stream, const HashedInsertArgs& args) {
  const HashedArgs& batch = args.batch;
  const uint32_t n = lookups_of(batch);
  if (n == 0) return;
  unsigned long long *keys = args.workspace, *merged = keys + n;
  HashedCounts* const counts = batch.table.counts;
  if (args.admission.type == AdmissionType::kCount)
    launch({.name = "open_counts", .stream = stream}, open_counts_kernel, args.admission.counts,
           args.step);
  launch(item_shape("hashed_claim", n, stream), claim_kernel, args, n, keys);
  launch({.name = "hashed_sort",
          .grid = grid_for(n, kPieceKeys, kBlocks),
          .block = kSortThreads,
          .stream = stream},
         sort_pieces_kernel, counts, keys);
  for (int64_t run = kPieceKeys; run < n; run *= kMergedRuns, std::swap(keys, merged))
    launch(item_shape("hashed_merge", n, stream, kBlocks), merge_runs_kernel, counts, keys, merged,
           run);
  launch(item_shape("hashed_number", n, stream, kBlocks), number_kernel, args, keys);
  launch({.name = "hashed_count", .stream = stream}, count_kernel, batch.table,
         args.capacity_exceeded);
  fill_initial_values(stream, batch.table, args.own, args.first, 0, 0, true);
  launch(item_shape("hashed_rows", n, stream), rows_kernel, batch, n, true, args.uses, args.step);
}

void hashed_assign(cudaStream_t stream, const HashedTable& table, uint32_t count) {
  launch(item_shape("hashed_assign", count, stream), assign_kernel, table, count);
}

void hashed_initial_values(cudaStream_t stream, const HashedTable& table, const UpdatedRows& rows,
                           const InitialValues& values, uint32_t first, uint32_t end) {
  fill_initial_values(stream, table, rows, values, first, end, false);
}

void hashed_gather(cudaStream_t stream, const HashedArgs& list, const ConstWeightRows& rows,
                   const InitialValues& first, Matrix<float> out) {
  with_float_type(rows.type(), [&]<typename W>() {
    const W* const table = rows.as<W>().data();
    move_rows("hashed_gather", out.dim(0), out.dim(1), piece_for(out.dim(1), table, out.data()),
              stream, [&]<int kPiece>(const LaunchShape& shape, int lanes) {
                launch(shape, gather_kernel<W, kPiece>, list, table, first, out, lanes);
              });
  });
}

template <typename T>
void pool_unseen(cudaStream_t stream, const HashedArgs& args, const ConstWeightRows& table,
                 const InitialValues& first, View<T, 3> out) {
  with_float_type(table.type(), [&]<typename W>() {
    launch(item_shape("pool_unseen", out.size(), stream), pool_unseen_kernel<T, W>, args,
           table.as<W>().data(), first, out.data(), out.size());
  });
}

HLITE_KERNELS(hashed_index) {
  list.add<hashed_insert>(kernels::hashed_insert);
  list.add<hashed_find>(kernels::hashed_find);
  list.add<hashed_gather>(kernels::hashed_gather);
  list.add<hashed_assign>(kernels::hashed_assign);
  list.add<hashed_initial_values>(kernels::hashed_initial_values);
  for_each_float([&]<typename T>() { list.add<pool_unseen<T>>(kernels::pool_unseen<T>); });
}

}  // namespace hlite::embedding::gpu
