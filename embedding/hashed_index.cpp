#include "embedding/hashed_index.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "embedding/cutter.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kKeysAhead = 16;  // prefetched

// `refused`: keys without a row that the table may have to hold in addition to `capacity` with one.
HashedTable cut_table(int64_t capacity, int64_t refused, std::byte* memory, size_t* bytes) {
  const int64_t places = KeyIndex::places(capacity + refused);
  Cutter cutter(memory);
  HashedTable table;
  table.keys = cutter.cut<unsigned long long>(places);
  table.rows = cutter.cut<uint32_t>(places);
  table.key_of_row = cutter.cut<unsigned long long>(capacity);
  table.counts = cutter.cut<HashedCounts>(1);
  table.shift = 64 - std::countr_zero(static_cast<uint64_t>(places));
  table.capacity = static_cast<uint32_t>(capacity);
  *bytes = cutter.bytes();
  return table;
}

}  // namespace

HashedIndex::HashedIndex(const TablesSpec& spec, const TableStorage& storage, const Exec& exec,
                         int64_t max_batch, int64_t max_keys)
    : spec_(spec),
      storage_(storage),
      exec_(exec),
      rules_(spec.vocabulary),
      capacity_(storage.own_rows()),
      max_lookups_(max_batch * spec.layout.columns()),
      max_keys_(rules_.refuses() ? (max_keys > 0 ? max_keys : max_lookups_) : 0),
      counter_(rules_.admission.type == AdmissionType::kCount
                   ? std::make_unique<KeyCounter>(
                         spec, KeyCounterPlace{.exec = exec,
                                               .rows = capacity_,
                                               .max_keys = max_keys_,
                                               .keys_with_row = [this] { return keys(); }})
                   : nullptr) {
  HLITE_CHECK(capacity_ < int64_t{kUnseen}, "{}: {} rows", spec_.name, capacity_);
}

int64_t HashedIndex::bytes() const {
  const int64_t counted = counter_ ? counter_->bytes() : 0;
  if (!exec_.on_gpu()) return KeyIndex::bytes(capacity_) + counted;
  size_t bytes = 0;
  (void)cut_table(capacity_, max_keys_, nullptr, &bytes);
  return static_cast<int64_t>(bytes) + list_workspace(max_lookups_) + counted;
}

// The new keys, which are sorted to and fro.
int64_t HashedIndex::list_workspace(int64_t keys) const {
  return exec_.on_gpu() ? 2 * keys * static_cast<int64_t>(sizeof(uint64_t)) : 0;
}

void HashedIndex::allocate() {
  const TableRowInit init(spec_.seed, spec_.name, spec_.init_rows, spec_.layout.width);
  std::vector<TableStream> streams = init.streams();
  const auto put = [&](const Exec& exec, ExecMemory& memory) {
    const size_t bytes = streams.size() * sizeof(TableStream);
    memory = ExecMemory(exec, bytes, "initial values");
    put_bytes(exec, memory.data(), streams.data(), bytes);
    return reinterpret_cast<const TableStream*>(memory.data());
  };
  first_ = {.tables = put(exec_, streams_),
            .seed = spec_.seed,
            .state = optimizer::initial_state(spec_.rule),
            .type = spec_.table_type};
  for (TableStream& of : streams)
    if (rules_.zeros) of.bound = 0;  // uniform in [-0, 0)
  absent_ = first_;
  absent_.tables = put(storage_.rows().exec(), absent_streams_);
  if (counter_) counter_->allocate();
  if (!exec_.on_gpu()) {
    index_ = std::make_unique<KeyIndex>(spec_.name, capacity_);
    unseen_.resize(static_cast<size_t>(spec_.layout.tables()));
    unseen_lookups_.resize(unseen_.size());
    return;
  }
  size_t bytes = 0;
  (void)cut_table(capacity_, max_keys_, nullptr, &bytes);
  memory_ = ExecMemory(exec_, bytes, "hash table");
  exec_.cuda->zero(memory_.data(), memory_.size(), exec_.stream);  // keys of unused rows, for draws
  workspace_ = ExecMemory(exec_, static_cast<size_t>(list_workspace(max_lookups_)), "hash table");
  table_ = cut_table(capacity_, max_keys_, memory_.data(), &bytes);
  clear();
}

void HashedIndex::clear() {
  if (counter_) counter_->clear();
  counts_ = {};
  if (!exec_.on_gpu()) return index_->clear();
  place_keys({});
  const HashedCounts none;
  put_bytes(exec_, table_.counts, &none, sizeof(none));
}

void HashedIndex::fail_full(uint64_t refused) const {
  raise<DataError>(
      "embedding {}: its table is full: key {} of table {} is new, and all {} rows of its rank "
      "are taken; raise max_vocabulary_size_per_gpu",
      spec_.name, static_cast<uint32_t>(refused), refused >> 32, capacity_);
}

int64_t HashedIndex::insert_row(uint64_t both, uint32_t iteration) {
  if (const int64_t row = index_->find(both); row != KeyIndex::kAbsent) return row;
  if (index_->size() == capacity_) {
    if (!refused_) refused_ = both;
    return KeyIndex::kAbsent;
  }
  const int64_t row = index_->insert(both);
  storage_.initial_values(static_cast<int64_t>(both >> 32), static_cast<uint32_t>(both), row);
  new_use(row, iteration);
  if (counter_) counter_->has_row(both);
  ++counts_.inserted;
  return row;
}

// On the CPU: returns true if the rules give a row to a key that has none.
bool HashedIndex::admits(uint64_t both, uint32_t iteration) {
  const bool full = rules_.when_full != WhenFull::kError && index_->size() == capacity_;
  const Admission& by = rules_.admission;
  if (counter_) return counter_->count(both, iteration) >= by.threshold && !full;
  return !full && (by.type == AdmissionType::kAll ||
                   admits_by_chance(first_, both, iteration, static_cast<float>(by.probability)));
}

// The use of a row that a key gets in `iteration`, on the CPU.
void HashedIndex::new_use(int64_t row, uint32_t iteration) const {
  if (!rules_.keeps_uses()) return;
  storage_.rows().uses()[row] = {
      .count = counter_ ? static_cast<uint32_t>(rules_.admission.threshold) : 1, .last = iteration};
}

// Counts a use of a row, once an iteration; on the CPU. Threads may do so for the same row.
void HashedIndex::touch(int64_t row, uint32_t iteration) const {
  RowUse& use = storage_.rows().uses()[row];
  const std::atomic_ref<uint32_t> last(use.last);
  if (last.load(std::memory_order_relaxed) == iteration) return;
  if (last.exchange(iteration, std::memory_order_relaxed) != iteration) ++use.count;
}

HashedInsertArgs HashedIndex::insert_args(const HashedArgs& batch, const int64_t* step) const {
  HashedInsertArgs args{.batch = batch, .own = storage_.all_own(), .first = first_};
  if (!rules_.keeps_uses()) return args;
  args.admission = {.type = rules_.admission.type,
                    .threshold = static_cast<uint32_t>(rules_.admission.threshold),
                    .probability = static_cast<float>(rules_.admission.probability),
                    .refuses = rules_.refuses()};
  if (counter_) args.admission.counts = counter_->counts();
  args.admission.may_be_full = rules_.when_full != WhenFull::kError;
  args.uses = storage_.rows().uses();
  args.step = step;
  return args;
}

void HashedIndex::find_rows(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                            Matrix<uint32_t> rows, bool training, const int64_t* step) {
  HLITE_CHECK(!training || step || !rules_.keeps_uses(), "{}: no step", spec_.name);
  HLITE_CHECK(keys.dim(0) * slots.lookups <= max_lookups_ && rows.dim(0) == keys.dim(0) &&
                  rows.dim(1) == keys.dim(1) && keys.dim(1) == slots.columns,
              "{}: keys {}, rows {}, at most {} lookups", spec_.name, keys.shape(), rows.shape(),
              max_lookups_);
  if (!exec.on_gpu()) {
    const bool touches = training && rules_.keeps_uses();
    const uint32_t iteration = touches ? iteration_after(step) : 0;
    find_on_cpu(exec, slots, keys, rows, touches ? std::optional(iteration) : std::nullopt);
    if (training) insert_unseen(exec, slots, keys, rows, iteration);
    return;
  }
  const HashedArgs batch{table_, slots, keys, rows};
  if (!training) return kernels::hashed_find(exec, batch);
  HashedInsertArgs args = insert_args(batch, step);
  args.workspace = reinterpret_cast<unsigned long long*>(workspace_.data());
  kernels::hashed_insert(exec, args);
}

void HashedIndex::find_requested(const Exec& exec, HashedArgs list) const {
  if (!exec.on_gpu()) return find_list_on_cpu(exec, list);
  list.table = table_;
  kernels::hashed_find(exec, list);
}

void HashedIndex::find_list_on_cpu(const Exec& exec, const HashedArgs& list) const {
  const uint32_t *const keys = list.keys.data(), *const tables = list.requested_tables;
  uint32_t* const rows = list.rows.data();
  exec.threads().parallel_for(list.keys.dim(0), 1 << 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (const int64_t ahead = i + kKeysAhead; ahead < end && keys[ahead] != kNoKey)
        prefetch(tables[ahead], keys[ahead]);
      const int64_t row = keys[i] == kNoKey ? int64_t{kNoKey} : find(tables[i], keys[i]);
      rows[i] = row == KeyIndex::kAbsent ? kUnseen : static_cast<uint32_t>(row);
    }
  });
}

// New rows get their use in the end, with those of all keys that have a row.
void HashedIndex::insert_list_on_cpu(const Exec& exec, const HashedArgs& list,
                                     int32_t* capacity_exceeded, uint32_t iteration) {
  find_list_on_cpu(exec, list);
  std::vector<uint64_t>& unseen = unseen_requests_;
  unseen.clear();
  uint32_t* const rows = list.rows.data();
  const auto key = [&](int64_t i) {
    return table_key(list.requested_tables[i], list.keys.data()[i]);
  };
  for (int64_t i = 0; i < list.rows.dim(0); ++i)
    if (rows[i] == kUnseen) unseen.push_back(key(i));
  std::sort(unseen.begin(), unseen.end());
  unseen.erase(std::unique(unseen.begin(), unseen.end()), unseen.end());
  for (size_t i = 0; i < unseen.size(); ++i) {
    const uint64_t both = unseen[i];
    if (counter_ && i + kKeysAhead < unseen.size()) counter_->prefetch(unseen[i + kKeysAhead]);
    if (rules_.refuses() && !admits(both, iteration)) continue;
    if (insert_row(both, iteration) == KeyIndex::kAbsent) *capacity_exceeded = 1;
  }
  for (int64_t i = 0; !unseen.empty() && i < list.rows.dim(0); ++i) {
    if (rows[i] != kUnseen) continue;
    if (const int64_t row = index_->find(key(i)); row != KeyIndex::kAbsent)
      rows[i] = static_cast<uint32_t>(row);
    else
      ++counts_.refused;
  }
  if (!rules_.keeps_uses()) return;
  exec.threads().parallel_for(list.rows.dim(0), 1 << 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i + kKeysAhead < end && rows[i + kKeysAhead] < kUnseen)
        __builtin_prefetch(&storage_.rows().uses()[rows[i + kKeysAhead]], 1);
      if (rows[i] < kUnseen) touch(rows[i], iteration);
    }
  });
}

void HashedIndex::insert_requested(const Exec& exec, HashedArgs list,
                                   std::span<std::byte> workspace, int32_t* capacity_exceeded,
                                   const int64_t* step) {
  HLITE_CHECK(step || !rules_.keeps_uses(), "{}: no step", spec_.name);
  if (!exec.on_gpu())
    return insert_list_on_cpu(exec, list, capacity_exceeded, step ? iteration_after(step) : 0);
  list.table = table_;
  HashedInsertArgs args = insert_args(list, step);
  args.workspace = reinterpret_cast<unsigned long long*>(workspace.data());
  args.capacity_exceeded = capacity_exceeded;
  kernels::hashed_insert(exec, args);
}

void HashedIndex::gather_requested(const Exec& exec, const HashedArgs& list,
                                   Matrix<float> out) const {
  if (!exec.on_gpu()) {
    const WeightRows own = storage_.own().w;
    const uint32_t* const rows = list.rows.data();
    with_float_type(own.type(), [&]<typename W>() {
      exec.threads().parallel_for(out.dim(0), 1 << 10, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          if (rows[i] == kUnseen && rules_.zeros)
            std::fill_n(out.row(i), out.dim(1), 0.0f);
          else if (rows[i] == kUnseen)
            storage_.initial_values(list.requested_tables[i], list.keys.data()[i], out.row(i));
          else if (rows[i] != kNoKey)
            widen(own.as<W>().row(rows[i]), out.dim(1), out.row(i));
      });
    });
    return;
  }
  kernels::hashed_gather(exec, list, storage_.own().w, absent_, out);
}

// Also lists each table's keys that have no row, ascending, and counts the uses of those that have
// one.
void HashedIndex::find_on_cpu(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                              Matrix<uint32_t> rows, std::optional<uint32_t> touched_in) {
  exec.threads().run(slots.table_count, [&](int64_t t, int) {
    auto& unseen = unseen_[static_cast<size_t>(t)];
    unseen.clear();
    const int64_t batch = keys.dim(0);
    for (const int32_t s : slots.slots_of_table(t))
      for (int64_t b = 0, first = slots.slots[s].column; b < batch; ++b)
        for (int64_t c = first; c < first + slots.hotness(s); ++c) {
          if (b + kKeysAhead < batch) prefetch(t, keys(b + kKeysAhead, c));
          const uint32_t key = keys(b, c);
          const int64_t row = key == kNoKey ? int64_t{kNoKey} : find(t, key);
          rows(b, c) = row == KeyIndex::kAbsent ? kUnseen : static_cast<uint32_t>(row);
          if (row == KeyIndex::kAbsent) unseen.push_back(key);
        }
    unseen_lookups_[static_cast<size_t>(t)] = std::ssize(unseen);
    if (touched_in) touch_table(slots, t, rows, *touched_in);
    std::sort(unseen.begin(), unseen.end());
    unseen.erase(std::unique(unseen.begin(), unseen.end()), unseen.end());
  });
}

// Counts the uses of the rows that a batch looks up in a table. Rows of a table are one thread's.
void HashedIndex::touch_table(const SlotsRef& slots, int64_t table, Matrix<const uint32_t> rows,
                              uint32_t iteration) const {
  RowUse* const uses = storage_.rows().uses();
  const int64_t batch = rows.dim(0), columns = rows.dim(1);
  for (const int32_t s : slots.slots_of_table(table))
    for (int64_t c = slots.slots[s].column; c < slots.slots[s].column + slots.hotness(s); ++c) {
      const uint32_t* row = rows.data() + c;
      for (int64_t b = 0; b < batch; ++b, row += columns) {
        if (b + kKeysAhead < batch && row[kKeysAhead * columns] < kUnseen)
          __builtin_prefetch(&uses[row[kKeysAhead * columns]], 1);
        if (*row >= kUnseen || uses[*row].last == iteration) continue;
        uses[*row].last = iteration;
        ++uses[*row].count;
      }
    }
}

void HashedIndex::insert_unseen(const Exec& exec, const SlotsRef& slots,
                                Matrix<const uint32_t> keys, Matrix<uint32_t> rows,
                                uint32_t iteration) {
  const int64_t before = index_->size();
  for (int64_t t = 0; t < slots.table_count; ++t) {
    std::vector<uint32_t>& unseen = unseen_[static_cast<size_t>(t)];
    const auto n = std::ssize(unseen);
    size_t came = 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t key = unseen[static_cast<size_t>(i)];
      const uint64_t both = table_key(t, key);
      if (counter_ && i + kKeysAhead < n)
        counter_->prefetch(table_key(t, unseen[static_cast<size_t>(i + kKeysAhead)]));
      if (rules_.refuses() && !admits(both, iteration)) continue;
      if (index_->size() == capacity_) fail_full(both);
      new_use(index_->insert(both), iteration);
      if (counter_) counter_->has_row(both);
      unseen[came++] = key;
    }
    unseen.resize(came);  // those that have a row now
  }
  counts_.inserted += index_->size() - before;
  if (index_->size() == before && !rules_.refuses()) return;
  exec.threads().parallel_for(index_->size() - before, 256, [&](int64_t begin, int64_t end) {
    for (int64_t row = before + begin; row < before + end; ++row) {
      const uint64_t both = index_->keys()[static_cast<size_t>(row)];
      storage_.initial_values(static_cast<int64_t>(both >> 32), static_cast<uint32_t>(both), row);
    }
  });
  found_of_slot_.assign(static_cast<size_t>(slots.count), 0);
  exec.threads().run(slots.count, [&](int64_t s, int) {
    const int64_t t = slots.table_of[s];
    const std::vector<uint32_t>& came = unseen_[static_cast<size_t>(t)];
    if (came.empty()) return;
    int64_t found = 0;
    const int64_t first = slots.slots[s].column, end = first + slots.hotness(s);
    for (int64_t b = 0; b < keys.dim(0); ++b)
      for (int64_t c = first; c < end; ++c)
        if (rows(b, c) == kUnseen) {
          // Few of many came where keys are refused.
          if (rules_.refuses() && !std::binary_search(came.begin(), came.end(), keys(b, c)))
            continue;
          rows(b, c) = static_cast<uint32_t>(find(t, keys(b, c)));
          ++found;
        }
    found_of_slot_[static_cast<size_t>(s)] = found;
  });
  if (!rules_.refuses()) return;
  for (const int64_t lookups : unseen_lookups_) counts_.refused += lookups;
  for (const int64_t found : found_of_slot_) counts_.refused -= found;
}

void HashedIndex::check(const Exec& exec) const {
  if (refused_) fail_full(*refused_);
  if (!exec_.on_gpu()) return;
  exec.cuda->stream_synchronize(exec.stream);
  const HashedCounts counts = device_counts();
  if (counts.full != 0) fail_full(counts.full_key);
}

HashedCounts HashedIndex::device_counts() const {
  HashedCounts counts;
  get_bytes(exec_, &counts, table_.counts, sizeof(counts));
  return counts;
}

}  // namespace hlite::embedding
