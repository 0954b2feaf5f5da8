#include "embedding/embedding_tables.h"

#include <algorithm>
#include <utility>

#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

// The keys that any rank holds, ascending in each table.
std::vector<std::vector<uint32_t>> gather_keys(const comm::RankContext& ranks,
                                               const std::vector<std::vector<uint32_t>>& own) {
  const size_t tables = own.size();
  std::vector<uint32_t> mine(tables);  // counts, then keys
  for (size_t t = 0; t < tables; ++t) {
    mine[t] = static_cast<uint32_t>(own[t].size());
    mine.insert(mine.end(), own[t].begin(), own[t].end());
  }
  const auto of_ranks = comm::gather_lists(ranks, std::move(mine), comm::kEveryRank);
  std::vector<std::vector<uint32_t>> all(tables);
  for (const uint32_t* at = of_ranks.data(); at != of_ranks.data() + of_ranks.size();) {
    const uint32_t* const counts = std::exchange(at, at + tables);
    for (size_t t = 0; t < tables; at += counts[t], ++t)
      all[t].insert(all[t].end(), at, at + counts[t]);
  }
  for (auto& keys : all) std::sort(keys.begin(), keys.end());
  return all;
}

}  // namespace

EmbeddingTables::EmbeddingTables(TablesSpec spec, const TablesPlace& place)
    : spec_(std::move(spec)),
      ranks_(place.ranks),
      storage_(spec_, place),
      index_(spec_.hash_capacity > 0
                 ? std::make_unique<HashedIndex>(
                       spec_, storage_, place.exec(), ranks_.ranks() == 1 ? place.max_batch : 0,
                       place.max_batch * ranks_.ranks() * spec_.layout.columns())
                 : nullptr),
      steps_(spec_, storage_, index_.get(), place) {
  if (index_)
    storage_.set_key_of_row([this](uint32_t row) {
      const uint64_t key = index_->key_of(row);
      return TableRow{static_cast<int64_t>(key >> 32), static_cast<uint32_t>(key)};
    });
}

void EmbeddingTables::declare(plan::Buffers& buffers) {
  storage_.declare(buffers);
  steps_.declare(buffers);
}

int64_t EmbeddingTables::workspace_bytes() const {
  return steps_.workspace_bytes() + (index_ ? index_->bytes() : 0) + storage_.cache_bytes();
}

void EmbeddingTables::prepare() {
  if (index_) index_->allocate();
  steps_.prepare();
}

void EmbeddingTables::reserve(const KeysOf& keys_of, const Exec& exec) {
  start_cache();
  if (!index_) {
    reads_all_ = !keys_of(table_name(spec_.name, 0), false);  // a file of all rows has no keys
    if (!reads_all_) read_touched(keys_of, exec);
    return;
  }
  std::vector<uint64_t> own;
  for (int64_t t = 0; t < spec_.layout.tables(); ++t) {
    const auto keys = keys_of(table_name(spec_.name, t), true);
    for (const uint32_t key : *keys)
      if (storage_.placement()->locate(t, key).rank == ranks_.rank)
        own.push_back(table_key(t, key));
  }
  index_->assign(own);
}

// Rows that the file does not have are untouched.
void EmbeddingTables::read_touched(const KeysOf& keys_of, const Exec& exec) {
  storage_.initialize(exec);
  std::vector<std::vector<uint32_t>> keys;
  for (int64_t t = 0; t < spec_.layout.tables(); ++t) {
    const std::string name = table_name(spec_.name, t);
    keys.push_back(keys_of(name, false).value_or(std::vector<uint32_t>()));
    const int64_t rows = spec_.layout.table_rows[static_cast<size_t>(t)];
    if (!keys.back().empty() && keys.back().back() >= rows)
      raise<DataError>("{}: expected rows below {}, found {} in the file: the table has shrunk",
                       name, rows, keys.back().back());
  }
  read_keys_ = with_rows(std::move(keys));
}

TableStorage::Keys EmbeddingTables::with_rows(std::vector<std::vector<uint32_t>> keys) const {
  auto file = std::make_shared<FileKeys>();
  file->keys = std::move(keys);
  for (size_t t = 0; t < file->keys.size(); ++t) {
    auto& rows = file->rows.emplace_back();
    for (const uint32_t key : file->keys[t]) {
      const RowPlacement* const placement = storage_.placement();
      const RowPlace place =
          placement ? placement->locate(static_cast<int64_t>(t), key)
                    : RowPlace{0, static_cast<uint32_t>(spec_.layout.table_offset[t] + key)};
      rows.push_back(place.rank == ranks_.rank ? place.row : kNoRow);
    }
  }
  return file;
}

void EmbeddingTables::start_cache() {
  if (storage_.holds_lines()) storage_.start_cache();
}

void EmbeddingTables::initialize(const Exec& exec) {
  start_cache();
  if (index_)
    index_->clear();  // hashed rows
  else
    storage_.initialize(exec);
}

void EmbeddingTables::check(const Exec& exec) {
  steps_.check(exec);
  if (index_) index_->check(exec);
}

// Returns, for tables that are not all in memory, the keys that have been trained, and those of
// replicated rows.
TableStorage::Keys EmbeddingTables::touched_keys() const {
  std::vector<std::vector<uint32_t>> own = storage_.touched_keys();
  for (int64_t row = 0; ranks_.rank == 0 && row < storage_.replicated_rows(); ++row) {
    const TableRow of = storage_.placement()->table_row(-1, row);
    own[static_cast<size_t>(of.table)].push_back(of.key);
  }
  return with_rows(gather_keys(ranks_, own));
}

std::vector<TensorRef> EmbeddingTables::states() const {
  std::vector<TensorRef> list = storage_.states(file_keys());
  if (index_ && index_->counter())
    for (TensorRef& t : index_->counter()->tensors(ranks_)) list.push_back(std::move(t));
  return list;
}

VocabularyCounts EmbeddingTables::vocabulary() const {
  VocabularyCounts sum;
  for (const VocabularyCounts& of : comm::gather_lists(
           ranks_, std::vector<VocabularyCounts>{index_->vocabulary()}, comm::kEveryRank))
    sum += of;
  return sum;
}

void EmbeddingTables::read_vocabulary(const WordsOf& words_of, int64_t iteration) {
  bool uses = true;
  for (int64_t t = 0; t < spec_.layout.tables(); ++t)
    uses = uses && words_of(uses_name(spec_.name, t));
  if (!uses)
    storage_.set_uses(std::vector<RowUse>(index_->keys().size(),
                                          {.count = 1, .last = static_cast<uint32_t>(iteration)}));
  if (!index_->counter()) return;
  index_->counter()->read(words_of, [this](int64_t table, uint32_t key) {
    const RowPlacement* const placement = storage_.placement();
    return !placement || placement->locate(table, key).rank == ranks_.rank;
  });
}

TableStorage::Keys EmbeddingTables::file_keys() const {
  if (read_keys_ || reads_all_) return read_keys_;
  if (!index_) return storage_.beyond_memory() ? touched_keys() : nullptr;
  struct KeyRow {
    uint32_t key, row;
    bool operator<(const KeyRow& other) const { return key < other.key; }
  };
  const auto tables = static_cast<size_t>(spec_.layout.tables());
  const std::vector<uint64_t> key_of_row = index_->keys();
  std::vector<std::vector<KeyRow>> own(tables);
  for (size_t row = 0; row < key_of_row.size(); ++row)
    own[static_cast<size_t>(key_of_row[row] >> 32)].push_back(
        {static_cast<uint32_t>(key_of_row[row]), static_cast<uint32_t>(row)});
  std::vector<std::vector<uint32_t>> keys(tables);
  for (size_t t = 0; t < tables; ++t) {
    std::sort(own[t].begin(), own[t].end());
    for (const KeyRow& of : own[t]) keys[t].push_back(of.key);
  }
  auto file = std::make_shared<FileKeys>();
  file->keys = gather_keys(ranks_, keys);
  for (size_t t = 0; t < tables; ++t) {
    auto& rows = file->rows.emplace_back(file->keys[t].size(), kNoRow);
    auto at = own[t].begin();
    for (size_t i = 0; i < rows.size() && at != own[t].end(); ++i)
      if (file->keys[t][i] == at->key) rows[i] = (at++)->row;
  }
  return file;
}

}  // namespace hlite::embedding
