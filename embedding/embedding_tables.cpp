#include "embedding/embedding_tables.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "embedding/host_requests.h"
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
      index_on_host_(spec_.hash_capacity > 0 && finds_rows_on_host()),
      index_(spec_.hash_capacity > 0
                 ? std::make_unique<HashedIndex>(
                       spec_, storage_, index_on_host_ ? Exec{} : place.exec(),
                       ranks_.ranks() == 1 ? place.max_batch : 0,
                       place.max_batch * ranks_.ranks() * spec_.layout.columns())
                 : nullptr),
      steps_(spec_, storage_, index_.get(), place),
      host_rows_(make_host_rows(place)) {
  if (index_)
    storage_.set_key_of_row([this](uint32_t row) {
      const uint64_t key = index_->key_of(row);
      return TableRow{static_cast<int64_t>(key >> 32), static_cast<uint32_t>(key)};
    });
  if (finds_rows_on_host()) storage_.tier()->set_host_rows(*host_rows_);
}

// A rank without rows lists those of others all the same.
std::unique_ptr<HostRows> EmbeddingTables::make_host_rows(const TablesPlace& place) {
  const bool any = place.gpu && place.memory.kind == &kThreeTiers && storage_.beyond_memory();
  if (any && ranks_.ranks() > 1)
    return std::make_unique<HostRequests>(spec_, storage_, index_.get(), *steps_.exchange(), place);
  if (!finds_rows_on_host()) return nullptr;
  return std::make_unique<HostRows>(spec_, storage_.own_rows(), index_.get(), place.max_batch);
}

void EmbeddingTables::begin_run(const Exec& exec, const Exec& host, const plan::HostInput& input,
                                int64_t batch, bool training) {
  if (!host_rows_) return;
  host_rows_->begin_run(host, input, batch);
  if (finds_rows_on_host()) storage_.tier()->begin_run(exec, host, training);
}

void EmbeddingTables::end_run(const Exec& host) {
  if (finds_rows_on_host()) storage_.tier()->end_run(host);
}

std::vector<comm::StepTraffic> EmbeddingTables::traffic() const {
  if (!steps_.exchange()) return {};
  std::vector<comm::StepTraffic> list = steps_.exchange()->traffic();
  if (host_rows_) std::ranges::move(host_rows_->traffic(), std::back_inserter(list));
  return list;
}

void EmbeddingTables::declare(plan::Buffers& buffers) {
  storage_.declare(buffers);
  steps_.declare(buffers);
}

int64_t EmbeddingTables::workspace_bytes() const {
  return steps_.workspace_bytes() + (index_ && !index_on_host_ ? index_->bytes() : 0) +
         (storage_.tier() ? storage_.tier()->bytes() : 0) + storage_.names_bytes();
}

int64_t EmbeddingTables::host_bytes() const {
  return (index_on_host_ ? index_->bytes() : 0) +
         (storage_.tier() ? storage_.tier()->host_bytes() : 0) +
         (host_rows_ ? host_rows_->bytes() : 0);
}

void EmbeddingTables::prepare() {
  if (index_) index_->allocate();
  if (index_) storage_.set_device_keys(index_->device_keys());
  steps_.prepare();
  if (host_rows_) host_rows_->prepare();
}

void EmbeddingTables::reserve(const KeysOf& keys_of, const WordsOf& words_of, const Exec& exec) {
  storage_.start(exec);
  if (index_) return reserve_hashed(keys_of, words_of);
  reads_all_ = !keys_of(table_name(spec_.name, 0), false);  // a file of all rows has no keys
  if (!reads_all_) read_touched(keys_of, exec);
}

// Sorts rows by their numbers if these are 0, 1, ... in some order: those of as many ranks.
void EmbeddingTables::sort_by_number(std::vector<FileRow>& rows) {
  std::vector<bool> taken(rows.size());
  for (const FileRow& row : rows) {
    if (row.number >= rows.size() || taken[row.number]) return;
    taken[row.number] = true;
  }
  std::sort(rows.begin(), rows.end(),
            [](const FileRow& a, const FileRow& b) { return a.number < b.number; });
}

// Drops the rows that a full table would lose, the least recently used; without uses in the file all
// of them have the same.
void EmbeddingTables::leave_out_displaced(std::vector<FileRow>& rows, const FileKeys& file,
                                          const WordsOf& words_of) {
  std::vector<std::optional<std::vector<uint32_t>>> words;
  for (size_t t = 0; t < file.keys.size(); ++t) {
    words.push_back(words_of(uses_name(spec_.name, static_cast<int64_t>(t))));
    if (words[t] && words[t]->size() != 2 * file.keys[t].size()) words[t] = std::nullopt;
  }
  std::vector<uint64_t> keys;
  std::vector<RowUse> uses;
  for (const FileRow& row : rows) {
    keys.push_back(row.key);
    const auto& of = words[static_cast<size_t>(row.key >> 32)];
    const size_t at = 2 * size_t{row.at};
    uses.push_back(of ? RowUse{.count = (*of)[at], .last = (*of)[at + 1]}
                      : RowUse{.count = 1, .last = 0});
  }
  const std::vector<uint32_t> displaced = index_->choose_displaced(keys, uses);
  auto next = displaced.begin();
  uint32_t row = 0;
  std::erase_if(rows, [&](const FileRow&) {
    const bool leaves = next != displaced.end() && *next == row++;
    next += leaves ? 1 : 0;
    return leaves;
  });
}

void EmbeddingTables::reserve_hashed(const KeysOf& keys_of, const WordsOf& words_of) {
  const auto file = std::make_shared<FileKeys>();
  std::vector<FileRow> own;
  for (int64_t t = 0; t < spec_.layout.tables(); ++t) {
    file->keys.push_back(keys_of(table_name(spec_.name, t), true).value());
    const std::vector<uint32_t>& keys = file->keys.back();
    file->rows.emplace_back(keys.size(), kNoRow);
    const auto numbers = words_of(rows_name(spec_.name, t));
    const bool numbered = numbers && numbers->size() == keys.size();
    for (uint32_t i = 0; i < keys.size(); ++i)
      if (storage_.placement()->locate(t, keys[i]).rank == ranks_.rank)
        own.push_back({table_key(t, keys[i]), i, numbered ? (*numbers)[i] : kNoRow});
  }
  const size_t all = own.size();
  if (spec_.vocabulary.when_full == WhenFull::kEvict && std::ssize(own) > index_->capacity())
    leave_out_displaced(own, *file, words_of);
  file->leaves_out = own.size() < all;
  sort_by_number(own);
  std::vector<uint64_t> keys;
  keys.reserve(own.size());
  for (const FileRow& row : own) {
    file->rows[static_cast<size_t>(row.key >> 32)][row.at] = static_cast<uint32_t>(keys.size());
    keys.push_back(row.key);
  }
  own = {};
  index_->assign(keys);
  read_keys_ = file;
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

TableFiles::Keys EmbeddingTables::with_rows(std::vector<std::vector<uint32_t>> keys) const {
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

void EmbeddingTables::initialize(const Exec& exec) {
  storage_.start(exec);
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
TableFiles::Keys EmbeddingTables::touched_keys() const {
  std::vector<std::vector<uint32_t>> own = storage_.touched_keys();
  for (int64_t row = 0; ranks_.rank == 0 && row < storage_.replicated_rows(); ++row) {
    const TableRow of = storage_.placement()->table_row(-1, row);
    own[static_cast<size_t>(of.table)].push_back(of.key);
  }
  return with_rows(gather_keys(ranks_, own));
}

std::vector<TensorRef> EmbeddingTables::states() const {
  std::vector<TensorRef> list = files_.states(file_keys());
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
    storage_.rows().set_uses(std::vector<RowUse>(
        index_->keys().size(), {.count = 1, .last = static_cast<uint32_t>(iteration)}));
  if (!index_->counter()) return;
  index_->counter()->read(words_of, [this](int64_t table, uint32_t key) {
    const RowPlacement* const placement = storage_.placement();
    return !placement || placement->locate(table, key).rank == ranks_.rank;
  });
}

TableFiles::Keys EmbeddingTables::file_keys() const {
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
