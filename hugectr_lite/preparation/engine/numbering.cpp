#include "hugectr_lite/preparation/engine/numbering.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "data_reader/text/line_parser.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/mix.h"
#include "hugectr_lite/core/no_key.h"
#include "hugectr_lite/preparation/engine/key_dictionary.h"
#include "hugectr_lite/preparation/engine/placed_file.h"
#include "hugectr_lite/preparation/io/top_counts.h"

namespace hlite::prep {

namespace {
constexpr int64_t kChunkValues = 1 << 16;
constexpr size_t kIdsAhead = 64;  // ids between asking for a counter and using it
constexpr uint32_t kMaxCount = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
}  // namespace

void count_ids(const uint32_t* ids, size_t count, const BudgetArray<uint32_t>& counts) {
  uint32_t* const of = counts.data();
  for (size_t i = 0; i < count; ++i) {
    __builtin_prefetch(of + ids[std::min(i + kIdsAhead, count - 1)], 1);
    uint32_t& n = of[ids[i]];
    n += n != kMaxCount;
  }
}

void grow_to(BudgetArray<uint32_t>& counts, int64_t size) {
  if (static_cast<size_t>(size) <= counts.size()) return;
  const BudgetArray<uint32_t> old =
      counts.replaced(std::max<size_t>({static_cast<size_t>(size), 2 * counts.size(), 1024}));
  std::copy_n(old.data(), old.size(), counts.data());
}

template <typename Key>
int64_t number_known_keys(const NumberingRecipe& recipe, int slot, const std::string& name,
                          KeyDictionary<Key>& dictionary, std::vector<Key>* added) {
  std::vector<Key> pending;
  int64_t known = 0;
  const auto number = [&] {
    std::vector<uint32_t> ids(pending.size());
    dictionary.number(pending.data(), pending.size(), ids.data(), added);
    pending.clear();
  };
  recipe.known_keys(slot, [&](uint64_t key) {
    if (key > std::numeric_limits<Key>::max() || (recipe.key_limit > 0 && key >= recipe.key_limit))
      raise<DataError>("column {}: expected known keys below {}, found {}", name, recipe.key_limit,
                       key);
    pending.push_back(static_cast<Key>(key));
    ++known;
    if (std::ssize(pending) == kChunkValues) number();
  });
  number();
  if (dictionary.size() != known)
    raise<DataError>("column {}: expected {} distinct known keys, found {}", name, known,
                     dictionary.size());
  return known;
}
template int64_t number_known_keys(const NumberingRecipe&, int, const std::string&,
                                   KeyDictionary<uint32_t>&, std::vector<uint32_t>*);
template int64_t number_known_keys(const NumberingRecipe&, int, const std::string&,
                                   KeyDictionary<uint64_t>&, std::vector<uint64_t>*);

uint64_t vocabulary_term(uint64_t key, uint32_t id) { return mix(mix(key + kOdd) + id * kOdd); }
std::string vocabulary_digits(uint64_t sum) { return fmt::format("{:016x}", mix(sum + kOdd)); }
std::string hashed_vocabulary(const NumberingRecipe& recipe) {
  return fmt::format("hash modulo {}", recipe.hash_range);
}

data::ManifestColumn column_statistics(int64_t values, const uint32_t* counts, int64_t size) {
  data::ManifestColumn column;
  column.rows = size;
  TopCounts top;
  for (int64_t id = 0; id < size; ++id) {
    column.distinct += counts[id] > 0;
    top.add(counts[id]);
  }
  top.shares(values, column.top_share);
  return column;
}

namespace {

using Ids = std::vector<uint32_t>;

template <typename T>
std::span<const std::byte> bytes_of(const T* data, int64_t count) {
  return std::as_bytes(std::span(data, static_cast<size_t>(count)));
}

// Keys of a row.
int64_t keys_of_row(const TableTask& task) {
  int64_t keys = 0;
  for (const ColumnFiles& files : task.columns) keys += files.hotness;
  return keys;
}

// Calls body(first_row, rows) for a chunk of rows after the other.
template <typename Body>
void for_each_chunk(const TableTask& task, Body&& body) {
  const int64_t keys = keys_of_row(task), most = std::max<int64_t>(kChunkValues / keys, 1);
  for (int64_t at = 0; at < task.rows; at += most) {
    const int64_t rows = std::min(most, task.rows - at);
    body(at, rows);
    if (task.progress) task.progress(rows * keys);
  }
}

// The final ids of those in order of first appearance.
struct FinalIds {
  int64_t size = 0;          // rows of the table
  BudgetArray<uint32_t> of;  // [ids in order of first appearance]
};

// `zero`: the id of key 0, which becomes 0 whatever its count; -1: none. `known`: the first ids,
// which stay whatever their counts.
FinalIds final_ids(const NumberingRecipe& recipe, const BudgetArray<uint32_t>& counts, int64_t size,
                   int64_t zero, int64_t known, MemoryBudget& budget) {
  FinalIds result{.of = BudgetArray<uint32_t>(budget, static_cast<size_t>(size))};
  const auto n = static_cast<uint32_t>(size);
  uint32_t next = recipe.min_count > 0 ? 1 : 0;
  const auto keeps = [&](uint32_t id) {
    return recipe.min_count == 0 || id < known || (counts[id] >= recipe.min_count && id != zero);
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
    } else if (!recipe.by_frequency) {
      result.of[id] = next++;
    } else if (counts[id] < kFrequent) {
      result.of[id] = rare[counts[id]]++;
    }
  }
  result.size = next;
  return result;
}

// A column's files, and what is counted of it.
struct NumberedColumn {
  NumberedColumn(const ColumnFiles& files, size_t first_key)
      : keys(files.keys),
        ids(files.ids, 0),
        first(first_key),
        hotness(static_cast<size_t>(files.hotness)) {}

  ReadFile keys;
  PlacedFile ids;
  size_t first, hotness;                       // its keys among those of a row
  int64_t missing = 0;                         // training rows with key 0
  int64_t other = 0;                           // training rows with an id out of vocabulary
  std::vector<data::SplitValues> splits = {};  // TableTask::others
};

template <typename Key>
class Numbering {
 public:
  using Columns = std::vector<data::ManifestColumn>;

  Numbering(const NumberingRecipe& recipe, const TableTask& task, MemoryBudget& budget)
      : recipe_(recipe),
        task_(task),
        budget_(budget),
        dictionary_(budget, recipe.key_limit),
        counts_(budget),
        chunk_(static_cast<size_t>(kChunkValues)),
        id_chunk_(static_cast<size_t>(kChunkValues)) {
    for (const ColumnFiles& files : task.columns) {
      columns_.emplace_back(files, keys_);
      keys_ += columns_.back().hotness;
      for (const SplitRows& split : task.others)
        columns_.back().splits.push_back({.role = split.role});
    }
    if (keys_ > columns_.size()) {
      present_.resize(chunk_.size());
      present_ids_.resize(chunk_.size());
    }
    if (columns_.size() == 1) return;
    lane_.resize(chunk_.size());
    id_lane_.resize(chunk_.size());
  }

  Columns by_hash() {
    HLITE_CHECK(present_.empty(), "{} keys of {} columns", keys_, columns_.size());
    grow_to(counts_, static_cast<int64_t>(recipe_.hash_range));
    for_each_chunk(task_, [&](int64_t first, int64_t rows) {
      const size_t values = read_keys(first, rows);
      for (size_t i = 0; i < values; ++i) id_chunk_[i] = hashed_id(chunk_[i], recipe_.hash_range);
      keep_ids(first, rows);
    });
    return done(counts_, static_cast<int64_t>(recipe_.hash_range), hashed_vocabulary(recipe_));
  }

  Columns by_dictionary() {
    if (recipe_.known_keys) number_known();
    for_each_chunk(task_, [&](int64_t first, int64_t rows) {
      number_chunk(read_keys(first, rows));
      grow_to(counts_, dictionary_.size());
      keep_ids(first, rows);
    });
    if (recipe_.min_count > 0 || recipe_.by_frequency) return renumber();
    if (recipe_.keep_keys) write_keys(nullptr, dictionary_.size());
    return done(counts_, dictionary_.size(), vocabulary(nullptr));
  }

  [[nodiscard]] int64_t bytes() const { return dictionary_.bytes() + counts_.bytes(); }
  [[nodiscard]] int64_t distinct() const { return dictionary_.size(); }

 private:
  void number_known() {
    known_ = number_known_keys<Key>(recipe_, task_.slot, task_.name, dictionary_, nullptr);
    grow_to(counts_, known_);
  }

  // Fills the chunk row after row, a row's keys in the order of the columns. Returns how many.
  size_t read_keys(int64_t first, int64_t rows) {
    const bool alone = columns_.size() == 1;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const size_t h = columns_[c].hotness;
      const auto keys = std::span(alone ? chunk_ : lane_).first(static_cast<size_t>(rows) * h);
      columns_[c].keys.read(first * static_cast<int64_t>(h * sizeof(Key)),
                            std::as_writable_bytes(keys));
      if constexpr (std::is_same_v<Key, uint64_t>)
        if (recipe_.finish_keys) recipe_.finish_keys(task_.columns[c].slot, keys);
      if (alone) break;
      Key* to = chunk_.data() + columns_[c].first;
      for (size_t i = 0; i < keys.size(); i += h, to += keys_) std::copy_n(&keys[i], h, to);
    }
    return static_cast<size_t>(rows) * keys_;
  }

  // The ids of the chunk's keys, in order of first appearance.
  void number_chunk(size_t values) {
    if (present_.empty()) return dictionary_.number(chunk_.data(), values, id_chunk_.data());
    size_t present = 0;
    for (size_t i = 0; i < values; ++i)
      if (!is_absent(chunk_[i])) present_[present++] = chunk_[i];
    dictionary_.number(present_.data(), present, present_ids_.data());
    for (size_t i = 0, n = 0; i < values; ++i)
      id_chunk_[i] = is_absent(chunk_[i]) ? kNoKey : present_ids_[n++];
  }
  [[nodiscard]] static bool is_absent(Key key) {
    if constexpr (std::is_same_v<Key, uint64_t>) return key == data::kAbsentKey;
    return false;
  }

  // The number of training rows among `rows` rows of the chunk; they come first.
  [[nodiscard]] size_t train_rows(int64_t first, int64_t rows) const {
    return static_cast<size_t>(std::clamp<int64_t>(task_.train_rows - first, 0, rows));
  }

  void keep_ids(int64_t first, int64_t rows) {
    const size_t train = train_rows(first, rows);
    count_present(id_chunk_.data(), train * keys_, counts_);
    for (size_t c = 0; c < columns_.size(); ++c) {
      const auto [at, h] = std::pair(columns_[c].first, columns_[c].hotness);
      if (recipe_.zero_is_missing)
        for (size_t i = 0; i < train; ++i) columns_[c].missing += chunk_[i * keys_ + at] == 0;
      for (size_t s = 0; s < task_.others.size(); ++s) {
        const SplitRows& split = task_.others[s];
        count_values(c, std::clamp<int64_t>(split.first - first, 0, rows),
                     std::clamp<int64_t>(split.first + split.rows - first, 0, rows),
                     columns_[c].splits[s]);
      }
      const uint32_t* ids = id_chunk_.data();
      if (columns_.size() > 1) {
        for (size_t i = 0; i < static_cast<size_t>(rows); ++i)
          std::copy_n(&id_chunk_[i * keys_ + at], h, &id_lane_[i * h]);
        ids = id_lane_.data();
      }
      const auto keys = static_cast<int64_t>(h);
      columns_[c].ids.write(4 * first * keys, bytes_of(ids, rows * keys));
    }
  }

  // count_ids() without kNoKey.
  void count_present(const uint32_t* ids, size_t count, const BudgetArray<uint32_t>& counts) {
    if (present_.empty()) return count_ids(ids, count, counts);
    const auto end = std::copy_if(ids, ids + count, present_ids_.begin(),
                                  [](uint32_t id) { return id != kNoKey; });
    count_ids(present_ids_.data(), static_cast<size_t>(end - present_ids_.begin()), counts);
  }

  // Counts rows [begin, end) of the chunk whose value is missing, or with one that is unknown. All
  // training rows are counted.
  void count_values(size_t column, int64_t begin, int64_t end, data::SplitValues& values) const {
    const auto known = static_cast<uint32_t>(std::clamp<int64_t>(recipe_.min_count, 1, kMaxCount));
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      const size_t first = row * keys_ + columns_[column].first;
      values.missing += chunk_[first] == 0;
      bool unknown = false;
      for (size_t i = first; i < first + columns_[column].hotness; ++i)
        unknown |= chunk_[i] != 0 && !is_absent(chunk_[i]) && id_chunk_[i] >= known_ &&
                   counts_[id_chunk_[i]] < known;
      values.unknown += unknown;
    }
  }

  Columns renumber() {
    const int64_t zero = recipe_.zero_is_missing ? dictionary_.find(0) : -1;
    const int64_t provisional = dictionary_.size();
    const FinalIds final = final_ids(recipe_, counts_, provisional, zero, known_, budget_);
    if (recipe_.keep_keys) write_keys(final.of.data(), final.size);
    std::vector<ReadFile> written;
    for (const ColumnFiles& files : task_.columns) written.emplace_back(files.ids);
    for_each_chunk(task_, [&](int64_t first, int64_t rows) {
      for (size_t c = 0; c < columns_.size(); ++c)
        renumber(written[c], final, first, rows, columns_[c]);
    });
    const BudgetArray<uint32_t> counts(budget_, static_cast<size_t>(final.size));
    for (size_t id = 0; id < static_cast<size_t>(provisional); ++id) {
      uint32_t& sum = counts[final.of[id]];
      sum = static_cast<uint32_t>(std::min<uint64_t>(uint64_t{sum} + counts_[id], kMaxCount));
    }
    Columns result = done(counts, final.size, vocabulary(final.of.data()));
    for (size_t c = 0; c < columns_.size() && recipe_.min_count > 0; ++c)
      result[c].out_of_vocabulary =
          columns_[c].other - (recipe_.zero_is_missing ? columns_[c].missing : 0);
    return result;
  }

  // A chunk of a column's ids.
  void renumber(const ReadFile& written, const FinalIds& final, int64_t first, int64_t rows,
                NumberedColumn& column) {
    const size_t h = column.hotness, size = static_cast<size_t>(rows) * h;
    const int64_t place = 4 * first * static_cast<int64_t>(h);
    written.read(place, std::as_writable_bytes(std::span(id_chunk_).first(size)));
    for (size_t i = 0; i < size; ++i) {
      if (h > 1 && id_chunk_[i] == kNoKey) continue;
      if (h == 1 && i + kIdsAhead < size) __builtin_prefetch(&final.of[id_chunk_[i + kIdsAhead]]);
      id_chunk_[i] = final.of[id_chunk_[i]];
    }
    for (size_t i = 0; i < train_rows(first, rows) * h; i += h) {
      const uint32_t* const of_row = &id_chunk_[i];
      column.other += std::find(of_row, of_row + h, 0u) != of_row + h;
    }
    column.ids.write(place, bytes_of(id_chunk_.data(), static_cast<int64_t>(size)));
  }

  // The keys of the ids; `final` as in FinalIds::of, or null.
  void write_keys(const uint32_t* final, int64_t size) {
    const BudgetArray<Key> keys(budget_, static_cast<size_t>(size));
    dictionary_.for_each([&](Key key, uint32_t id) { keys[final ? final[id] : id] = key; });
    if (recipe_.min_count > 0) keys[0] = 0;
    PlacedFile(task_.keys_of_ids, 0).write(0, bytes_of(keys.data(), size));
  }

  // `counts`: of all columns together.
  Columns done(const BudgetArray<uint32_t>& counts, int64_t size, const std::string& vocabulary) {
    Columns result;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const bool alone = columns_.size() == 1;
      const BudgetArray<uint32_t> own(budget_, alone ? 0 : static_cast<size_t>(size));
      if (!alone) count_column(task_.columns[c], own);
      const uint32_t* const of_column = alone ? counts.data() : own.data();
      PlacedFile(task_.columns[c].counts, 0).write(0, bytes_of(of_column, size));
      data::ManifestColumn& column = result.emplace_back(
          column_statistics(values_of(columns_[c], of_column, size), of_column, size));
      column.vocabulary = vocabulary;
      column.splits = columns_[c].splits;
    }
    return result;
  }

  // Values of a column's training rows.
  [[nodiscard]] int64_t values_of(const NumberedColumn& column, const uint32_t* counts,
                                  int64_t size) const {
    return column.hotness == 1 ? task_.train_rows
                               : std::accumulate(counts, counts + size, int64_t{0});
  }

  // Counts each id in the column's training rows.
  void count_column(const ColumnFiles& column, const BudgetArray<uint32_t>& counts) {
    const ReadFile ids(column.ids);
    const int64_t all = task_.train_rows * column.hotness;
    for (int64_t at = 0; at < all; at += kChunkValues) {
      const auto size = static_cast<size_t>(std::min(kChunkValues, all - at));
      ids.read(at * 4, std::as_writable_bytes(std::span(id_chunk_).first(size)));
      count_present(id_chunk_.data(), size, counts);
    }
  }

  // 16 digits of all (key, id) but those of the id that is out of vocabulary; `final` as in
  // FinalIds::of, or null. A sum, because the dictionary has its keys in no particular order.
  [[nodiscard]] std::string vocabulary(const uint32_t* final) const {
    uint64_t sum = 0;
    dictionary_.for_each([&](Key key, uint32_t id) {
      if (final) id = final[id];
      if (id > 0 || recipe_.min_count == 0) sum += vocabulary_term(key, id);
    });
    return vocabulary_digits(sum);
  }

  const NumberingRecipe& recipe_;
  const TableTask& task_;
  MemoryBudget& budget_;
  std::vector<NumberedColumn> columns_;
  size_t keys_ = 0;  // of a row
  KeyDictionary<Key> dictionary_;
  int64_t known_ = 0;              // ids of NumberingRecipe::known_keys
  BudgetArray<uint32_t> counts_;   // [id], in order of first appearance
  std::vector<Key> chunk_, lane_;  // keys of rows; of one column, if there are several
  Ids id_chunk_, id_lane_;
  // The keys of a chunk that are there, and their ids; not used where each column has one.
  std::vector<Key> present_;
  Ids present_ids_;
};

template <typename Key>
std::vector<data::ManifestColumn> number_keys(const NumberingRecipe& recipe, const TableTask& task,
                                              MemoryBudget& budget) {
  std::optional<Numbering<Key>> numbering;
  try {
    numbering.emplace(recipe, task, budget);
    return recipe.hash_range > 0 ? numbering->by_hash() : numbering->by_dictionary();
  } catch (const OutOfBudget& error) {
    throw TableOutOfBudget(error.wanted() + (numbering ? numbering->bytes() : 0),
                           numbering ? numbering->distinct() : 0);
  }
}

}  // namespace

std::vector<data::ManifestColumn> number_table(const NumberingRecipe& recipe, const TableTask& task,
                                               MemoryBudget& budget) {
  HLITE_CHECK(!task.columns.empty() && keys_of_row(task) <= kChunkValues, "{} keys of a row",
              keys_of_row(task));
  return task.key_bytes == 8 ? number_keys<uint64_t>(recipe, task, budget)
                             : number_keys<uint32_t>(recipe, task, budget);
}

}  // namespace hlite::prep
