// The part of HashedIndex that runs between iterations: which keys have rows, for checkpoints, and
// the rows that leave.
#include <algorithm>

#include "embedding/eviction.h"
#include "embedding/hashed_index.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

// Makes these the keys of rows 0, 1, ...; what the rows hold stays.
void HashedIndex::place_keys(const std::vector<uint64_t>& keys) {
  if (!exec_.on_gpu()) {
    index_->clear();
    for (const uint64_t both : keys) index_->insert(both);
    return;
  }
  const std::vector<unsigned long long> empty(
      static_cast<size_t>(KeyIndex::places(capacity_ + max_keys_)), ~0ull);
  put_bytes(exec_, table_.keys, empty.data(), empty.size() * sizeof(empty[0]));
  put_bytes(exec_, table_.rows, empty.data(), empty.size() * sizeof(table_.rows[0]));
  const auto n = static_cast<uint32_t>(keys.size());
  if (n == 0) return;
  put_bytes(exec_, table_.key_of_row, keys.data(), keys.size() * sizeof(uint64_t));
  kernels::hashed_assign(exec_, table_, n);
}

std::vector<uint64_t> HashedIndex::keys() const {
  if (!exec_.on_gpu()) return {index_->keys().begin(), index_->keys().end()};
  std::vector<uint64_t> keys(device_counts().size);
  get_bytes(exec_, keys.data(), table_.key_of_row, keys.size() * sizeof(uint64_t));
  return keys;
}

void HashedIndex::assign(const std::vector<uint64_t>& keys) {
  const VocabularyCounts before = vocabulary();
  clear();
  counts_ = before;
  if (std::ssize(keys) > capacity_) fail_full(keys[static_cast<size_t>(capacity_)]);
  if (rules_.keeps_uses())
    storage_.rows().set_uses(std::vector<RowUse>(keys.size(), RowUse{.count = 1, .last = 0}));
  if (!exec_.on_gpu()) {
    for (const uint64_t both : keys)
      storage_.initial_values(static_cast<int64_t>(both >> 32), static_cast<uint32_t>(both),
                              index_->insert(both));
    return;
  }
  place_keys(keys);
  const auto n = static_cast<uint32_t>(keys.size());
  const HashedCounts counts{.size = n};
  put_bytes(exec_, table_.counts, &counts, sizeof(counts));
  kernels::hashed_initial_values(exec_, table_, storage_.all_own(), first_, 0, n);
  exec_.cuda->stream_synchronize(exec_.stream);
}

std::vector<uint32_t> HashedIndex::choose_displaced(std::span<const uint64_t> keys,
                                                    std::span<const RowUse> uses) {
  VocabularyRules full = rules_;
  full.eviction = {};  // rows leave by no other rule
  return choose_evicted(full, {.keys = keys, .uses = uses, .norms = {}, .capacity = capacity_},
                        counts_);
}

VocabularyCounts HashedIndex::vocabulary() const {
  VocabularyCounts counts = counts_;
  if (exec_.on_gpu()) {
    const HashedCounts there = device_counts();
    counts.rows = there.size;
    counts.inserted += static_cast<int64_t>(there.inserted);
    counts.refused += static_cast<int64_t>(there.refused);
  } else {
    counts.rows = index_->size();
  }
  counts.candidates = counter_ ? counter_->size() : 0;
  return counts;
}

void HashedIndex::evict(int64_t iteration, int64_t before) {
  const std::vector<uint64_t> keys = this->keys();
  const std::vector<RowUse> uses = storage_.rows().uses_of(std::ssize(keys));
  const EvictionInput input{.keys = keys,
                            .uses = uses,
                            .norms = [&] { return storage_.rows().norms(std::ssize(keys)); },
                            .iteration = iteration,
                            .before = before,
                            .capacity = capacity_};
  // Before rows leave: a key whose row leaves is counted from the start.
  if (counter_) counter_->forget(iteration);
  const std::vector<uint32_t> evicted = choose_evicted(rules_, input, counts_);
  if (!evicted.empty()) close_up(keys, evicted);
  if (rules_.eviction.count_decay < 1 && rules_.eviction.min_count > 0) decay_counts();
}

void HashedIndex::decay_counts() {
  std::vector<RowUse> uses = storage_.rows().uses_of(std::ssize(keys()));
  for (RowUse& use : uses)
    use.count = static_cast<uint32_t>(use.count * rules_.eviction.count_decay);
  storage_.rows().set_uses(uses);
}

void HashedIndex::close_up(std::vector<uint64_t> keys, const std::vector<uint32_t>& evicted) {
  const RowMoves moves = closing_moves(std::ssize(keys), evicted);
  storage_.rows().close_up(moves, evicted);
  if (!exec_.on_gpu()) return index_->close_up(moves, evicted);
  for (size_t i = 0; i < moves.from.size(); ++i) keys[moves.to[i]] = keys[moves.from[i]];
  keys.resize(keys.size() - evicted.size());
  place_keys(keys);
  HashedCounts counts = device_counts();
  counts.size = counts.before = static_cast<uint32_t>(keys.size());
  put_bytes(exec_, table_.counts, &counts, sizeof(counts));
}

}  // namespace hlite::embedding
