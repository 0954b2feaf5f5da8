#include "embedding/hashed_index.h"

#include <algorithm>
#include <bit>

#include "embedding/cutter.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kKeysAhead = 16;  // prefetched

HashedTable cut_table(int64_t capacity, std::byte* memory, size_t* bytes) {
  const int64_t places = KeyIndex::places(capacity);
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
                         int64_t max_batch)
    : spec_(spec),
      storage_(storage),
      exec_(exec),
      capacity_(storage.own_rows()),
      max_lookups_(max_batch * spec.layout.columns()) {
  HLITE_CHECK(capacity_ < int64_t{kUnseen}, "{}: {} rows", spec_.name, capacity_);
}

int64_t HashedIndex::bytes() const {
  if (!exec_.on_gpu()) return KeyIndex::bytes(capacity_);
  size_t bytes = 0;
  (void)cut_table(capacity_, nullptr, &bytes);
  return static_cast<int64_t>(bytes) + list_workspace(max_lookups_);
}

// Claims and the sorts' own memory; an estimate where no plug-in can say.
int64_t HashedIndex::list_workspace(int64_t keys) const {
  if (!exec_.on_gpu()) return 0;
  if (!kernels::hashed_workspace.is_in(*exec_.cuda)) return keys * 16;
  const auto tables = static_cast<int32_t>(spec_.layout.tables());
  return static_cast<int64_t>(kernels::hashed_workspace(exec_, keys, tables));
}

void HashedIndex::allocate() {
  const TableRowInit init(spec_.seed, spec_.name, spec_.init_rows, spec_.layout.width);
  const size_t stream_bytes = init.streams().size() * sizeof(TableStream);
  streams_ = ExecMemory(exec_, stream_bytes, "first values");
  put_bytes(exec_, streams_.data(), init.streams().data(), stream_bytes);
  first_ = {.tables = reinterpret_cast<const TableStream*>(streams_.data()),
            .seed = spec_.seed,
            .state = optimizer::initial_state(spec_.rule),
            .type = spec_.table_type};
  if (!exec_.on_gpu()) {
    index_ = std::make_unique<KeyIndex>(spec_.name, capacity_);
    unseen_.resize(static_cast<size_t>(spec_.layout.tables()));
    return;
  }
  size_t bytes = 0;
  (void)cut_table(capacity_, nullptr, &bytes);
  memory_ = ExecMemory(exec_, bytes, "hash table");
  workspace_ = ExecMemory(exec_, static_cast<size_t>(this->bytes()) - bytes, "hash table");
  table_ = cut_table(capacity_, memory_.data(), &bytes);
  clear();
}

void HashedIndex::clear() {
  if (!exec_.on_gpu()) return index_->clear();
  const std::vector<unsigned long long> empty(static_cast<size_t>(KeyIndex::places(capacity_)),
                                              ~0ull);
  put_bytes(exec_, table_.keys, empty.data(), empty.size() * sizeof(empty[0]));
  const HashedCounts none;
  put_bytes(exec_, table_.counts, &none, sizeof(none));
}

void HashedIndex::fail_full(uint64_t refused) const {
  raise<DataError>(
      "embedding {}: its table is full: key {} of table {} is new, and all {} rows of its rank "
      "are taken; raise max_vocabulary_size_per_gpu",
      spec_.name, static_cast<uint32_t>(refused), refused >> 32, capacity_);
}

int64_t HashedIndex::insert(int64_t table, uint32_t key) {
  const uint64_t both = table_key(table, key);
  if (const int64_t row = index_->find(both); row != KeyIndex::kAbsent) return row;
  if (index_->size() == capacity_) {
    if (!refused_) refused_ = both;
    return KeyIndex::kAbsent;
  }
  const int64_t row = index_->insert(both);
  storage_.first_values(table, key, row);
  return row;
}

void HashedIndex::find_rows(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                            Matrix<uint32_t> rows, bool training) {
  HLITE_CHECK(keys.dim(0) * slots.lookups <= max_lookups_ && rows.dim(0) == keys.dim(0) &&
                  rows.dim(1) == keys.dim(1) && keys.dim(1) == slots.columns,
              "{}: keys {}, rows {}, at most {} lookups", spec_.name, keys.shape(), rows.shape(),
              max_lookups_);
  if (!exec.on_gpu()) {
    find_on_cpu(exec, slots, keys, rows);
    if (training) insert_unseen(exec, slots, keys, rows);
    return;
  }
  const HashedArgs batch{table_, slots, keys, rows};
  if (!training) return kernels::hashed_find(exec, batch);
  kernels::hashed_insert(exec, {.batch = batch,
                                .own = storage_.all_own(),
                                .first = first_,
                                .workspace = workspace_.data(),
                                .workspace_bytes = workspace_.size()});
}

void HashedIndex::find_listed(const Exec& exec, HashedArgs list) const {
  if (!exec.on_gpu()) return find_list_on_cpu(exec, list);
  list.table = table_;
  kernels::hashed_find(exec, list);
}

void HashedIndex::find_list_on_cpu(const Exec& exec, const HashedArgs& list) const {
  const uint32_t *const keys = list.keys.data(), *const tables = list.listed_tables;
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

void HashedIndex::insert_list_on_cpu(const Exec& exec, const HashedArgs& list,
                                     int32_t* capacity_exceeded) {
  find_list_on_cpu(exec, list);
  std::vector<uint64_t>& unseen = unseen_listed_;
  unseen.clear();
  uint32_t* const rows = list.rows.data();
  const auto key = [&](int64_t i) { return table_key(list.listed_tables[i], list.keys.data()[i]); };
  for (int64_t i = 0; i < list.rows.dim(0); ++i)
    if (rows[i] == kUnseen) unseen.push_back(key(i));
  if (unseen.empty()) return;
  std::sort(unseen.begin(), unseen.end());
  unseen.erase(std::unique(unseen.begin(), unseen.end()), unseen.end());
  for (const uint64_t both : unseen)
    if (insert(static_cast<int64_t>(both >> 32), static_cast<uint32_t>(both)) == KeyIndex::kAbsent)
      *capacity_exceeded = 1;
  for (int64_t i = 0; i < list.rows.dim(0); ++i) {
    if (rows[i] != kUnseen) continue;
    if (const int64_t row = index_->find(key(i)); row != KeyIndex::kAbsent)
      rows[i] = static_cast<uint32_t>(row);
  }
}

void HashedIndex::insert_listed(const Exec& exec, HashedArgs list, std::span<std::byte> workspace,
                                int32_t* capacity_exceeded) {
  if (!exec.on_gpu()) return insert_list_on_cpu(exec, list, capacity_exceeded);
  list.table = table_;
  kernels::hashed_insert(exec, {.batch = list,
                                .own = storage_.all_own(),
                                .first = first_,
                                .workspace = workspace.data(),
                                .workspace_bytes = workspace.size(),
                                .capacity_exceeded = capacity_exceeded});
}

void HashedIndex::gather_listed(const Exec& exec, const HashedArgs& list, Matrix<float> out) const {
  if (!exec.on_gpu()) {
    const WeightRows own = storage_.own().w;
    const uint32_t* const rows = list.rows.data();
    with_float_type(own.type(), [&]<typename W>() {
      exec.threads().parallel_for(out.dim(0), 1 << 10, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          if (rows[i] == kUnseen)
            storage_.first_values(list.listed_tables[i], list.keys.data()[i], out.row(i));
          else if (rows[i] != kNoKey)
            widen(own.as<W>().row(rows[i]), out.dim(1), out.row(i));
      });
    });
    return;
  }
  kernels::hashed_gather(exec, list, storage_.own().w.as<float>(), first_, out);
}

// Also lists each table's keys that have no row, ascending.
void HashedIndex::find_on_cpu(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                              Matrix<uint32_t> rows) {
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
    std::sort(unseen.begin(), unseen.end());
    unseen.erase(std::unique(unseen.begin(), unseen.end()), unseen.end());
  });
}

void HashedIndex::insert_unseen(const Exec& exec, const SlotsRef& slots,
                                Matrix<const uint32_t> keys, Matrix<uint32_t> rows) {
  const int64_t before = index_->size();
  for (int64_t t = 0; t < slots.table_count; ++t)
    for (const uint32_t key : unseen_[static_cast<size_t>(t)]) {
      if (index_->size() == capacity_) fail_full(table_key(t, key));
      index_->insert(table_key(t, key));
    }
  if (index_->size() == before) return;
  exec.threads().parallel_for(index_->size() - before, 256, [&](int64_t begin, int64_t end) {
    for (int64_t row = before + begin; row < before + end; ++row) {
      const uint64_t both = index_->keys()[static_cast<size_t>(row)];
      storage_.first_values(static_cast<int64_t>(both >> 32), static_cast<uint32_t>(both), row);
    }
  });
  exec.threads().run(slots.count, [&](int64_t s, int) {
    const int64_t t = slots.table_of[s];
    if (unseen_[static_cast<size_t>(t)].empty()) return;
    const int64_t first = slots.slots[s].column, end = first + slots.hotness(s);
    for (int64_t b = 0; b < keys.dim(0); ++b)
      for (int64_t c = first; c < end; ++c)
        if (rows(b, c) == kUnseen) rows(b, c) = static_cast<uint32_t>(find(t, keys(b, c)));
  });
}

void HashedIndex::check(const Exec& exec) const {
  if (refused_) fail_full(*refused_);
  if (!exec_.on_gpu()) return;
  exec.cuda->stream_synchronize(exec.stream);
  HashedCounts counts;
  get_bytes(exec_, &counts, table_.counts, sizeof(counts));
  if (counts.full != 0) fail_full(counts.refused);
}

std::vector<uint64_t> HashedIndex::keys() const {
  if (!exec_.on_gpu()) return {index_->keys().begin(), index_->keys().end()};
  HashedCounts counts;
  get_bytes(exec_, &counts, table_.counts, sizeof(counts));
  std::vector<uint64_t> keys(counts.size);
  get_bytes(exec_, keys.data(), table_.key_of_row, keys.size() * sizeof(uint64_t));
  return keys;
}

void HashedIndex::assign(const std::vector<uint64_t>& keys) {
  clear();
  if (std::ssize(keys) > capacity_) fail_full(keys[static_cast<size_t>(capacity_)]);
  if (!exec_.on_gpu()) {
    for (const uint64_t both : keys)
      insert(static_cast<int64_t>(both >> 32), static_cast<uint32_t>(both));
    return;
  }
  const auto n = static_cast<uint32_t>(keys.size());
  put_bytes(exec_, table_.key_of_row, keys.data(), keys.size() * sizeof(uint64_t));
  const HashedCounts counts{.size = n};
  put_bytes(exec_, table_.counts, &counts, sizeof(counts));
  kernels::hashed_assign(exec_, table_, n);
  kernels::hashed_first_values(exec_, table_, storage_.all_own(), first_, 0, n);
  exec_.cuda->stream_synchronize(exec_.stream);
}

}  // namespace hlite::embedding
