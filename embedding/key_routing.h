// What one rank's share of a batch needs from where: the distinct keys of each slot, which rank
// each of them lives on, and the lookups that refer to it. Made once an iteration; the forward
// pass, the exchange and the backward pass all go by it.
//
//   lookups of slot s    (key, sample) pairs by key, then sample
//   distinct keys        of slot 0 ascending, of slot 1, ...; each a segment of its slot's lookups
//   lists                for each rank the rows that are wanted of it, each once, in the order of
//                        the distinct keys. Keys that are copied everywhere are on no list
//
// The list for rank q is what is sent to q; what comes back are the rows in the same order, a block
// of fixed size for each rank: `entry` says where in that a distinct key's row lies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "embedding/row_placement.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

class KeyRouting {
 public:
  // Takes all memory that route() needs for up to max_batch samples on up to `threads` threads.
  // `placement` must outlive it.
  KeyRouting(const RowPlacement& placement, int64_t max_batch, int threads);

  // keys [batch, layout.keys.columns] of this rank's samples, checked by the reader. The i-th entry
  // of the list for rank q is q * block + i; of a list longer than `block` entries say nothing.
  void route(const Exec& exec, Matrix<const uint32_t> keys, int64_t block);

  // A distinct key: its lookups are pairs [begin, end) of its slot.
  struct Distinct {
    uint32_t begin, end;
    uint32_t entry;  // in what comes back from all ranks; of a copied key: its row among these
    bool copied;
  };
  [[nodiscard]] std::span<const Distinct> distinct(int64_t slot) const {
    const auto s = static_cast<size_t>(slot);
    return {distinct_.data() + first_[s], static_cast<size_t>(count_[s])};
  }
  // (key, sample) as key_sort.h packs them.
  [[nodiscard]] const uint64_t* pairs(int64_t slot) const {
    return pairs_.data() + first_[static_cast<size_t>(slot)];
  }
  // Rows of rank `rank` that this batch wants.
  [[nodiscard]] std::span<const uint32_t> list(int rank) const {
    const auto q = static_cast<size_t>(rank);
    return {rows_.data() + list_begin_[q],
            static_cast<size_t>(list_begin_[q + 1] - list_begin_[q])};
  }
  [[nodiscard]] int64_t list_begin(int rank) const {
    return list_begin_[static_cast<size_t>(rank)];
  }
  // Where the rows of a slot end in the list of `rank`; those of the next slot follow.
  [[nodiscard]] int64_t list_end(int64_t slot, int rank) const {
    return wanted_[static_cast<size_t>(slot * placement_.ranks() + rank)];
  }
  // Of all lists together.
  [[nodiscard]] int64_t listed() const { return list_begin_.back(); }
  // As route() was told.
  [[nodiscard]] int64_t block() const { return block_; }
  [[nodiscard]] const RowPlacement& placement() const { return placement_; }
  [[nodiscard]] const SlotLayout& layout() const { return placement_.layout(); }

 private:
  void find_distinct(Matrix<const uint32_t> keys, int64_t slot, int worker);

  const RowPlacement& placement_;
  int64_t max_batch_, block_ = 0;
  std::vector<int64_t> first_;       // [slots] where a slot's pairs and distinct keys begin
  std::vector<int64_t> count_;       // [slots] distinct keys
  std::vector<int64_t> wanted_;      // [slots, ranks] rows of each rank; then where they end
  std::vector<int64_t> list_begin_;  // [ranks + 1]
  std::vector<Distinct> distinct_;
  std::vector<int> rank_;  // of distinct keys
  std::vector<uint32_t> rows_;
  std::vector<uint64_t> pairs_;
  Tensor<uint64_t, 2> scratch_;  // [threads, longest slot]
  Tensor<uint32_t, 2> counts_;   // [threads, kSortCounts]
};

}  // namespace hlite::embedding
