#include "embedding/key_routing.h"

#include <algorithm>

#include "embedding/key_sort.h"

namespace hlite::embedding {

KeyRouting::KeyRouting(const RowPlacement& placement, int64_t max_batch, int threads)
    : placement_(placement), max_batch_(max_batch) {
  HLITE_CHECK(max_batch >= 0 && threads >= 1, "batch {}, {} threads", max_batch, threads);
  const auto slots = static_cast<size_t>(layout().slots());
  const auto ranks = static_cast<size_t>(placement.ranks());
  int64_t longest = 0;
  for (size_t s = 0; s < slots; ++s) {
    const auto slot = static_cast<int64_t>(s);
    first_.push_back(max_batch * (layout().column(slot) - layout().column(0)));
    longest = std::max(longest, max_batch * layout().hotness(slot));
  }
  const auto lookups = static_cast<size_t>(max_batch * layout().columns());
  count_.assign(slots, 0);
  wanted_.assign(slots * ranks, 0);
  list_begin_.assign(ranks + 1, 0);
  distinct_.resize(lookups);
  rank_.resize(lookups);
  rows_.resize(lookups);
  pairs_.resize(lookups);
  scratch_ = Tensor<uint64_t, 2>(threads, longest);
  counts_ = Tensor<uint32_t, 2>(threads, kSortCounts);
}

// Sorts a slot's lookups; names its distinct keys, with the row that each has on its rank as the
// entry, and counts them by rank.
void KeyRouting::find_distinct(Matrix<const uint32_t> keys, int64_t slot, int worker) {
  const auto s = static_cast<size_t>(slot);
  uint64_t* pairs = pairs_.data() + first_[s];
  const int64_t n =
      sort_pairs(keys, layout().column(slot), layout().hotness(slot), layout().rows[s], pairs,
                 scratch_.view().row(worker), counts_.view().row(worker));
  const auto ranks = static_cast<size_t>(placement_.ranks());
  int64_t* wanted = wanted_.data() + s * ranks;
  std::fill_n(wanted, ranks, 0);
  Distinct* out = distinct_.data() + first_[s];
  int* rank = rank_.data() + first_[s];
  for (int64_t i = 0; i < n;) {
    int64_t end = i + 1;
    while (end < n && key_of(pairs[end]) == key_of(pairs[i])) ++end;
    const RowPlace place = placement_.locate(slot, static_cast<uint32_t>(key_of(pairs[i])));
    *out++ = {static_cast<uint32_t>(i), static_cast<uint32_t>(end), place.row, place.rank < 0};
    *rank++ = place.rank;
    if (place.rank >= 0) ++wanted[place.rank];
    i = end;
  }
  count_[s] = out - (distinct_.data() + first_[s]);
}

void KeyRouting::route(const Exec& exec, Matrix<const uint32_t> keys, int64_t block) {
  HLITE_CHECK(keys.dim(0) <= max_batch_ && keys.dim(1) == layout().keys.columns,
              "keys {}, expected at most {} samples of {} columns", keys.shape(), max_batch_,
              layout().keys.columns);
  block_ = block;
  const int64_t slots = layout().slots();
  const auto ranks = static_cast<size_t>(placement_.ranks());
  exec.threads().run(slots, [&](int64_t s, int worker) { find_distinct(keys, s, worker); });

  // Counts become places: by rank, then slot.
  int64_t next = 0;
  for (size_t q = 0; q < ranks; ++q) {
    list_begin_[q] = next;
    for (int64_t s = 0; s < slots; ++s) {
      int64_t& place = wanted_[static_cast<size_t>(s) * ranks + q];
      next += std::exchange(place, next);
    }
  }
  list_begin_[ranks] = next;
  exec.threads().run(slots, [&](int64_t slot, int) {
    const auto s = static_cast<size_t>(slot);
    int64_t* place = wanted_.data() + s * ranks;
    for (int64_t d = first_[s]; d < first_[s] + count_[s]; ++d) {
      Distinct& key = distinct_[static_cast<size_t>(d)];
      if (key.copied) continue;
      const int rank = rank_[static_cast<size_t>(d)];
      const int64_t at = place[rank]++;
      rows_[static_cast<size_t>(at)] = key.entry;
      key.entry = static_cast<uint32_t>(rank * block_ + at - list_begin(rank));
    }
  });
}

}  // namespace hlite::embedding
