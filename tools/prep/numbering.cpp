#include "tools/prep/numbering.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "hugectr_lite/core/file.h"
#include "tools/io/mix.h"
#include "tools/io/top_counts.h"
#include "tools/prep/key_dictionary.h"
#include "tools/prep/placed_file.h"

namespace hlite::tools {

namespace {

constexpr int64_t kChunkRows = 1 << 16;
constexpr size_t kIdsAhead = 16;  // ids between asking for a counter and using it
constexpr uint32_t kMostCount = std::numeric_limits<uint32_t>::max();

using Ids = std::vector<uint32_t>;

template <typename T>
std::span<const std::byte> bytes_of(const T* data, int64_t count) {
  return std::as_bytes(std::span(data, static_cast<size_t>(count)));
}

// Calls body(first_row, rows) for a chunk of rows after the other.
template <typename Body>
void for_each_chunk(const ColumnTask& task, Body&& body) {
  for (int64_t at = 0; at < task.rows; at += kChunkRows) {
    const int64_t rows = std::min(kChunkRows, task.rows - at);
    body(at, rows);
    if (task.progress) task.progress(rows);
  }
}

void count_ids(const Ids& ids, size_t count, const BudgetArray<uint32_t>& counts) {
  for (size_t i = 0; i < count; ++i) {
    if (i + kIdsAhead < count) __builtin_prefetch(&counts[ids[i + kIdsAhead]], 1);
    uint32_t& n = counts[ids[i]];
    n += n != kMostCount;
  }
}

void grow_to(BudgetArray<uint32_t>& counts, int64_t size) {
  if (static_cast<size_t>(size) <= counts.size()) return;
  const BudgetArray<uint32_t> old =
      counts.replaced(std::max<size_t>({static_cast<size_t>(size), 2 * counts.size(), 1024}));
  std::copy_n(old.data(), old.size(), counts.data());
}

void write_counts(const ColumnTask& task, const uint32_t* counts, int64_t size) {
  PlacedFile(task.counts, 0).write(0, bytes_of(counts, size));
}

data::ManifestColumn statistics(const ColumnTask& task, const uint32_t* counts, int64_t size) {
  data::ManifestColumn column;
  column.rows = size;
  TopCounts top;
  for (int64_t id = 0; id < size; ++id) {
    column.distinct += counts[id] > 0;
    top.add(counts[id]);
  }
  top.shares(task.train_rows, column.top_share);
  return column;
}

// What ids in order of first appearance become.
struct FinalIds {
  int64_t size = 0;  // of the table
  int64_t dropped_rows = 0;
  BudgetArray<uint32_t> of;  // [ids in order of first appearance]
};

// `zero`: the id of key 0, which becomes 0 whatever its count; -1: none.
FinalIds final_ids(const NumberingRecipe& recipe, const BudgetArray<uint32_t>& counts, int64_t size,
                   int64_t zero, MemoryBudget& budget) {
  FinalIds result{.of = BudgetArray<uint32_t>(budget, static_cast<size_t>(size))};
  const auto n = static_cast<uint32_t>(size);
  uint32_t next = recipe.min_count > 0 ? 1 : 0;
  const auto keeps = [&](uint32_t id) {
    return recipe.min_count == 0 || (counts[id] >= recipe.min_count && id != zero);
  };
  // Frequent ids are few and are sorted; the others are counted into place, a count at a time.
  constexpr uint32_t kFrequent = 1024;
  std::vector<uint32_t> frequent;
  std::vector<uint32_t> rare(kFrequent + 1);  // rare[c]: first id for count c
  if (recipe.by_frequency) {
    for (uint32_t id = 0; id < n; ++id) {
      if (!keeps(id)) continue;
      if (counts[id] >= kFrequent) {
        frequent.push_back(id);
      } else {
        ++rare[counts[id]];
      }
    }
    std::stable_sort(frequent.begin(), frequent.end(),
                     [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
    for (const uint32_t id : frequent) result.of[id] = next++;
    for (uint32_t count = kFrequent; count-- > 0;) {
      const uint32_t ids = rare[count];
      rare[count] = next;
      next += ids;
    }
  }
  for (uint32_t id = 0; id < n; ++id) {
    if (!keeps(id)) {
      result.of[id] = 0;
      if (id != zero) result.dropped_rows += counts[id];
    } else if (!recipe.by_frequency) {
      result.of[id] = next++;
    } else if (counts[id] < kFrequent) {
      result.of[id] = rare[counts[id]]++;
    }
  }
  result.size = next;
  return result;
}

// Bytes of an older file of ids: all of them will be written over.
int64_t reusable_bytes(const ColumnTask& task) {
  std::error_code none;
  const auto size = std::filesystem::file_size(task.ids, none);
  return none ? 0 : std::min(static_cast<int64_t>(size), task.rows * 4);
}

template <typename Key>
class Numbering {
 public:
  Numbering(const NumberingRecipe& recipe, const ColumnTask& task, MemoryBudget& budget)
      : recipe_(recipe),
        task_(task),
        budget_(budget),
        keys_(task.keys),
        ids_(task.ids, reusable_bytes(task)),
        dictionary_(budget, recipe.key_limit),
        counts_(budget),
        chunk_(static_cast<size_t>(kChunkRows)),
        id_chunk_(static_cast<size_t>(kChunkRows)) {}

  data::ManifestColumn by_hash() {
    grow_to(counts_, static_cast<int64_t>(recipe_.hash_range));
    for_each_chunk(task_, [&](int64_t first, int64_t rows) {
      read_keys(first, rows);
      for (int64_t i = 0; i < rows; ++i) {
        const Key key = chunk_[static_cast<size_t>(i)];
        id_chunk_[static_cast<size_t>(i)] =
            key == 0 ? 0 : static_cast<uint32_t>(mix(key) % recipe_.hash_range);
      }
      keep_ids(first, rows);
    });
    return done(counts_.data(), static_cast<int64_t>(recipe_.hash_range));
  }

  data::ManifestColumn by_dictionary() {
    for_each_chunk(task_, [&](int64_t first, int64_t rows) {
      read_keys(first, rows);
      dictionary_.number(chunk_.data(), static_cast<size_t>(rows), id_chunk_.data());
      grow_to(counts_, dictionary_.size());
      keep_ids(first, rows);
    });
    if (recipe_.min_count > 0 || recipe_.by_frequency) return renumber();
    if (recipe_.keep_keys) write_keys(nullptr, dictionary_.size());
    return done(counts_.data(), dictionary_.size());
  }

  [[nodiscard]] int64_t bytes() const { return dictionary_.bytes() + counts_.bytes(); }
  [[nodiscard]] int64_t distinct() const { return dictionary_.size(); }

 private:
  void read_keys(int64_t first, int64_t rows) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(Key));
    keys_.read(first * kBytes,
               std::as_writable_bytes(std::span(chunk_).first(static_cast<size_t>(rows))));
  }

  void keep_ids(int64_t first, int64_t rows) {
    const int64_t train = std::clamp<int64_t>(task_.train_rows - first, 0, rows);
    count_ids(id_chunk_, static_cast<size_t>(train), counts_);
    ids_.write(first * 4, bytes_of(id_chunk_.data(), rows));
  }

  data::ManifestColumn renumber() {
    const int64_t zero = recipe_.zero_is_missing ? dictionary_.find(0) : -1;
    const int64_t provisional = dictionary_.size();
    const FinalIds final = final_ids(recipe_, counts_, provisional, zero, budget_);
    if (recipe_.keep_keys) write_keys(final.of.data(), final.size);
    const ReadFile written(task_.ids);
    for_each_chunk(task_, [&](int64_t first, int64_t rows) {
      written.read(first * 4,
                   std::as_writable_bytes(std::span(id_chunk_).first(static_cast<size_t>(rows))));
      for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
        if (i + kIdsAhead < static_cast<size_t>(rows))
          __builtin_prefetch(&final.of[id_chunk_[i + kIdsAhead]]);
        id_chunk_[i] = final.of[id_chunk_[i]];
      }
      ids_.write(first * 4, bytes_of(id_chunk_.data(), rows));
    });
    const BudgetArray<uint32_t> counts(budget_, static_cast<size_t>(final.size));
    for (size_t id = 0; id < static_cast<size_t>(provisional); ++id) {
      uint32_t& sum = counts[final.of[id]];
      sum = static_cast<uint32_t>(std::min<uint64_t>(uint64_t{sum} + counts_[id], kMostCount));
    }
    data::ManifestColumn column = done(counts.data(), final.size);
    column.out_of_vocabulary = final.dropped_rows;
    return column;
  }

  // The keys of the ids; `final` as in FinalIds::of, or null.
  void write_keys(const uint32_t* final, int64_t size) {
    const BudgetArray<Key> keys(budget_, static_cast<size_t>(size));
    dictionary_.for_each([&](Key key, uint32_t id) { keys[final ? final[id] : id] = key; });
    if (recipe_.min_count > 0) keys[0] = 0;
    PlacedFile(task_.keys_of_ids, 0).write(0, bytes_of(keys.data(), size));
  }

  data::ManifestColumn done(const uint32_t* counts, int64_t size) {
    write_counts(task_, counts, size);
    return statistics(task_, counts, size);
  }

  const NumberingRecipe& recipe_;
  const ColumnTask& task_;
  MemoryBudget& budget_;
  const ReadFile keys_;
  const PlacedFile ids_;
  KeyDictionary<Key> dictionary_;
  BudgetArray<uint32_t> counts_;  // [id], in order of first appearance
  std::vector<Key> chunk_;
  Ids id_chunk_;
};

template <typename Key>
data::ManifestColumn number_keys(const NumberingRecipe& recipe, const ColumnTask& task,
                                 MemoryBudget& budget) {
  std::optional<Numbering<Key>> numbering;
  try {
    numbering.emplace(recipe, task, budget);
    return recipe.hash_range > 0 ? numbering->by_hash() : numbering->by_dictionary();
  } catch (const OutOfBudget& error) {
    throw ColumnOutOfBudget(error.wanted() + (numbering ? numbering->bytes() : 0),
                            numbering ? numbering->distinct() : 0);
  }
}

}  // namespace

data::ManifestColumn number_column(const NumberingRecipe& recipe, const ColumnTask& task,
                                   MemoryBudget& budget) {
  return task.key_bytes == 8 ? number_keys<uint64_t>(recipe, task, budget)
                             : number_keys<uint32_t>(recipe, task, budget);
}

}  // namespace hlite::tools
