// Routing on the CPU: a table's lookups are sorted by key, so that equal ones come together; counts
// of distinct keys by table and rank say where each table begins in each list.
#include "embedding/routing.h"

#include <algorithm>
#include <span>
#include <utility>

#include "embedding/cutter.h"
#include "embedding/gathered_lists.h"
#include "embedding/key_sort.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

// A key of a table: its lookups are the pairs from `begin` to the next one's.
struct DistinctKey {
  uint32_t begin;
  RowPlace place;
};

struct Workspace {
  uint64_t* pairs;        // [lookups * batch] (key, place) by table
  DistinctKey* distinct;  // [lookups * batch] likewise
  int64_t *found, *keys;  // [tables] pairs and distinct keys
  int64_t* ends;          // [tables, ranks + 1] keys of a table in each list; then where they end
  int64_t* listed;        // [ranks + 1] keys of each list
  uint64_t* scratch;      // [threads, batch * max_table_lookups]
  uint32_t* counts;       // [threads, kSortCounts]
  size_t bytes;
};

Workspace cut_workspace(const SlotsRef& slots, int ranks, int64_t batch, int threads,
                        std::byte* memory) {
  Cutter cutter(memory);
  Workspace space{};
  space.pairs = cutter.cut<uint64_t>(slots.lookups * batch);
  space.distinct = cutter.cut<DistinctKey>(slots.lookups * batch);
  space.found = cutter.cut<int64_t>(slots.table_count);
  space.keys = cutter.cut<int64_t>(slots.table_count);
  space.ends = cutter.cut<int64_t>(int64_t{slots.table_count} * (ranks + 1));
  space.listed = cutter.cut<int64_t>(ranks + 1);
  space.scratch = cutter.cut<uint64_t>(threads * batch * slots.max_table_lookups);
  space.counts = cutter.cut<uint32_t>(threads * kSortCounts);
  space.bytes = cutter.bytes();
  return space;
}

// One rank's lookups on the way to lists. List `ranks` is that of the replicated rows.
class Lists {
 public:
  Lists(const Exec& exec, const SlotsRef& slots, const PlacementRef& placement,
        const ExchangeShape& shape, Matrix<const uint32_t> keys, std::byte* workspace, size_t bytes)
      : slots_(slots),
        placement_(placement),
        shape_(shape),
        keys_(keys),
        space_(
            cut_workspace(slots, shape.ranks, keys.dim(0), exec.threads().threads(), workspace)) {
    HLITE_CHECK(space_.bytes <= bytes && keys.dim(1) == slots.columns,
                "routing: keys {} of {} columns, {} bytes of {}", keys.shape(), slots.columns,
                space_.bytes, bytes);
    exec.threads().run(slots.table_count, [&](int64_t t, int worker) { find_keys(t, worker); });
    for (int32_t q = 0; q < lists(); ++q) {
      int64_t next = 0;
      for (int64_t t = 0; t < slots.table_count; ++t)
        next += std::exchange(end(t, q), next);  // where they begin, until for_each_key() moves it
      space_.listed[q] = next;
    }
    longest_ = *std::max_element(space_.listed, space_.listed + shape.ranks);
  }

  [[nodiscard]] int64_t count(int32_t list) const { return space_.listed[list]; }
  [[nodiscard]] int64_t longest() const { return longest_; }
  [[nodiscard]] int64_t found(int64_t table) const { return space_.found[table]; }

  // Calls body(key, list, place in it, its pairs) for each distinct key, on a task a table.
  template <typename Body>
  void for_each_key(const Exec& exec, Body&& body) const {
    exec.threads().run(slots_.table_count, [&](int64_t t, int) {
      const DistinctKey* const keys = distinct(t);
      for (int64_t d = 0; d < space_.keys[t]; ++d) {
        const int32_t q = list_of(keys[d].place);
        const uint32_t stop =
            d + 1 < space_.keys[t] ? keys[d + 1].begin : static_cast<uint32_t>(space_.found[t]);
        body(keys[d].place, q, end(t, q)++,
             std::span<const uint64_t>(pairs(t) + keys[d].begin, pairs(t) + stop));
      }
    });
  }
  // Writes the header of the list for rank q, after for_each_key(). Returns the block's bytes.
  int64_t write_header(int32_t q, uint32_t* block) const {
    block[0] = static_cast<uint32_t>(longest_);
    block[1] = static_cast<uint32_t>(longest_ >> 32);
    for (int64_t t = 0; t < shape_.hashed_tables; ++t)
      block[kListHeader + t] = static_cast<uint32_t>(end(t, q));
    const int64_t listed = longest_ <= shape_.capacity ? count(q) : 0;
    return (shape_.header_words() + listed) * static_cast<int64_t>(sizeof(uint32_t));
  }

 private:
  [[nodiscard]] int32_t lists() const { return shape_.ranks + 1; }
  [[nodiscard]] int32_t list_of(const RowPlace& place) const {
    return place.rank < 0 ? shape_.ranks : place.rank;
  }
  [[nodiscard]] int64_t& end(int64_t t, int32_t q) const { return space_.ends[t * lists() + q]; }
  [[nodiscard]] int64_t first(int64_t t) const {
    return slots_.tables[t].first_lookup * keys_.dim(0);
  }
  [[nodiscard]] uint64_t* pairs(int64_t t) const { return space_.pairs + first(t); }
  [[nodiscard]] DistinctKey* distinct(int64_t t) const { return space_.distinct + first(t); }

  void find_keys(int64_t t, int worker) const {
    const TableRef& table = slots_.tables[t];
    const bool hashed = shape_.hashed_tables > 0;
    uint64_t* const pairs = this->pairs(t);
    const int64_t n = sort_places({keys_, slots_, t, hashed ? int64_t{kNoKey} : table.rows}, pairs,
                                  space_.scratch + worker * keys_.dim(0) * slots_.max_table_lookups,
                                  space_.counts + worker * kSortCounts);
    std::fill_n(space_.ends + t * lists(), lists(), 0);
    DistinctKey* out = distinct(t);
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0 && key_of(pairs[i]) == key_of(pairs[i - 1])) continue;
      const auto key = static_cast<uint32_t>(key_of(pairs[i]));
      const RowPlace place = hashed
                                 ? RowPlace{hashed_rank(placement_.by, t, key, shape_.ranks), key}
                                 : placement_.locate(table.first_row, static_cast<int32_t>(t), key);
      *out++ = {static_cast<uint32_t>(i), place};
      ++end(t, list_of(place));
    }
    space_.found[t] = n;
    space_.keys[t] = out - distinct(t);
  }

  const SlotsRef& slots_;
  const PlacementRef& placement_;
  const ExchangeShape& shape_;
  const Matrix<const uint32_t> keys_;
  const Workspace space_;
  int64_t longest_ = 0;
};

void route_on_cpu(const Exec& exec, const RouteArgs& args) {
  const ExchangeShape& shape = args.shape;
  const Lists found(exec, args.slots, args.placement, shape, args.keys, args.workspace,
                    args.workspace_bytes);
  const int64_t batch = args.keys.dim(0);
  exec.threads().run(args.slots.count, [&](int64_t s, int) {
    const int64_t t = args.slots.table_of[s], hotness = args.slots.hotness(s);
    const int64_t lookups =
        args.slots.tables[t + 1].first_lookup - args.slots.tables[t].first_lookup;
    for (int64_t b = 0; b < batch && found.found(t) < batch * lookups; ++b)
      std::fill_n(args.entries.row(b) + args.slots.slots[s].column, hotness, kNoKey);
  });
  HLITE_CHECK(batch * args.slots.columns < int64_t{1} << 32, "routing: keys {}", args.keys.shape());
  found.for_each_key(
      exec, [&](const RowPlace& place, int32_t q, int64_t at, std::span<const uint64_t> pairs) {
        const bool replicated = q == shape.ranks;
        const bool fits = at < (replicated ? shape.replicated_capacity : shape.capacity);
        if (fits)
          (replicated ? args.lists.replicated
                      : args.lists.blocks + q * shape.block_words() + shape.header_words())[at] =
              place.row;
        const uint32_t entry = fits ? static_cast<uint32_t>(q * shape.capacity + at)
                               : args.slots.complete ? 0
                                                     : kNoKey;
        for (const uint64_t pair : pairs) args.entries.data()[number_of(pair)] = entry;
      });
  for (int32_t q = 0; q <= shape.ranks; ++q) {
    const int64_t capacity = q < shape.ranks ? shape.capacity : shape.replicated_capacity;
    args.lists.counts[q] = static_cast<uint32_t>(std::min(found.count(q), capacity));
    if (q == shape.ranks) break;
    args.lists.list_bytes[q] = found.write_header(q, args.lists.blocks + q * shape.block_words());
    args.lists.vector_bytes[q] = int64_t{args.lists.counts[q]} * shape.row_bytes();
  }
}

// Makes the list that each rank would have sent.
void list_on_cpu(const Exec& exec, const GatheredListsArgs& args) {
  const ExchangeShape& shape = args.shape;
  for (int32_t from = 0; from < shape.ranks; ++from) {
    const int64_t begin = std::min(args.keys.dim(0), from * args.samples_of_rank),
                  end = std::min(args.keys.dim(0), begin + args.samples_of_rank);
    const Lists found(exec, args.slots, args.placement, shape, args.keys.rows(begin, end),
                      args.workspace, args.workspace_bytes);
    uint32_t* const block = args.blocks + from * shape.block_words();
    found.for_each_key(
        exec, [&](const RowPlace& place, int32_t q, int64_t at, std::span<const uint64_t>) {
          if (q == args.rank && at < shape.capacity) block[shape.header_words() + at] = place.row;
        });
    args.received_bytes[from] = found.write_header(args.rank, block);
  }
}

void count_exchanges(const TakeArgs& args, int32_t q, bool fits) {
  PeerCounts& c = args.counts[q];
  c.keys.sent += args.lists.list_bytes[q];
  c.keys.messages += 1;
  c.keys.calls += 1;
  c.keys.received += args.received_bytes[q];
  if (!fits) return;
  const int64_t own = args.lists.counts[q] * args.shape.row_bytes(),
                requested = args.requested.counts[q] * args.shape.row_bytes();
  const auto add = [](ExchangeCounts& to, int64_t sent, int64_t received) {
    to.sent += sent;
    to.messages += sent > 0 ? 1 : 0;
    to.received += received;
    to.calls += 1;
  };
  add(c.rows, requested, own);
  if (args.training) add(c.grads, own, requested);
}

void take_on_cpu(const TakeArgs& args) {
  const ExchangeShape& shape = args.shape;
  const auto block_of = [&](int32_t q) { return args.blocks + q * shape.block_words(); };
  int64_t needed = 0;
  for (int32_t q = 0; q < shape.ranks; ++q) {
    const uint32_t* const header = block_of(q);
    needed = std::max(needed, static_cast<int64_t>(header[0] | uint64_t{header[1]} << 32));
  }
  const bool fits = needed <= shape.capacity, hashed = shape.hashed_tables > 0;
  *args.requested.needed = needed;
  if (!fits) *args.capacity_exceeded = 1;
  for (int32_t q = 0; q < shape.ranks; ++q) {
    const int64_t received = args.received_bytes[q] / static_cast<int64_t>(sizeof(uint32_t)),
                  count = fits ? received - shape.header_words() : 0, first = q * shape.capacity;
    uint32_t* const to = (hashed ? args.requested.keys : args.requested.rows) + first;
    std::copy_n(block_of(q) + shape.header_words(), count, to);
    std::fill(to + count, to + shape.capacity, kNoKey);
    int64_t at = 0;
    for (int64_t t = 0; t < shape.hashed_tables && fits; ++t)
      for (const int64_t end = block_of(q)[kListHeader + t]; at < end; ++at)
        args.requested.tables[first + at] = static_cast<uint32_t>(t);
    args.requested.counts[q] = static_cast<uint32_t>(count);
    args.requested.vector_bytes[q] = count * shape.row_bytes();
    count_exchanges(args, q, fits);
  }
}

// Estimates for a GPU that is not present.
constexpr size_t kRoutedBytes = 30, kGatheredBytes = 34;  // moved per lookup

}  // namespace

size_t routing_workspace(const Exec& exec, const SlotsRef& slots, int ranks, int64_t max_batch,
                         uint32_t numbers, int threads) {
  if (!exec.on_gpu()) return cut_workspace(slots, ranks, max_batch, threads, nullptr).bytes;
  const int64_t lookups = max_batch * slots.lookups;
  if (!kernels::routing_workspace.is_in(*exec.cuda))
    return static_cast<size_t>(lookups) * kRoutedBytes;
  return kernels::routing_workspace(exec, lookups, numbers);
}

size_t gathered_workspace(const Exec& exec, const SlotsRef& slots, int ranks,
                          int64_t samples_of_rank, uint32_t numbers, int threads) {
  if (!exec.on_gpu())
    return routing_workspace(exec, slots, ranks, samples_of_rank, numbers, threads);
  const int64_t lookups = ranks * samples_of_rank * slots.lookups;
  if (!kernels::gathered_workspace.is_in(*exec.cuda))
    return static_cast<size_t>(lookups) * kGatheredBytes;
  return kernels::gathered_workspace(exec, lookups, numbers);
}

void route_keys(const Exec& exec, const RouteArgs& args) {
  if (exec.on_gpu()) return kernels::route_keys(exec, args);
  route_on_cpu(exec, args);
}

void take_lists(const Exec& exec, const TakeArgs& args) {
  if (exec.on_gpu()) return kernels::take_lists(exec, args);
  take_on_cpu(args);
}

void list_gathered(const Exec& exec, const GatheredListsArgs& args) {
  if (exec.on_gpu()) return kernels::list_gathered(exec, args);
  list_on_cpu(exec, args);
}

}  // namespace hlite::embedding
