#include "embedding/embedding_tables.h"

#include <algorithm>
#include <utility>

#include "embedding/gpu_sharded_steps.h"
#include "embedding/host_sharded_steps.h"
#include "embedding/local_steps.h"
#include "hugectr_lite/comm/gather_lists.h"

namespace hlite::embedding {
namespace {

// The keys that any rank holds, ascending in each slot.
std::vector<std::vector<uint32_t>> gather_keys(const comm::RankContext& ranks,
                                               const std::vector<std::vector<uint32_t>>& own) {
  const size_t slots = own.size();
  std::vector<uint32_t> mine(slots);  // counts, then keys
  for (size_t s = 0; s < slots; ++s) {
    mine[s] = static_cast<uint32_t>(own[s].size());
    mine.insert(mine.end(), own[s].begin(), own[s].end());
  }
  const auto of_ranks = comm::gather_lists(ranks, std::move(mine), comm::kEveryRank);
  std::vector<std::vector<uint32_t>> all(slots);
  for (const uint32_t* at = of_ranks.data(); at != of_ranks.data() + of_ranks.size();) {
    const uint32_t* const counts = std::exchange(at, at + slots);
    for (size_t s = 0; s < slots; at += counts[s], ++s)
      all[s].insert(all[s].end(), at, at + counts[s]);
  }
  for (auto& keys : all) std::sort(keys.begin(), keys.end());
  return all;
}

}  // namespace

EmbeddingTables::EmbeddingTables(TablesSpec spec, const TablesPlace& place)
    : spec_(std::move(spec)),
      ranks_(place.ranks),
      storage_(spec_, place.placement, place.ranks, place.exec()) {
  const bool local = ranks_.ranks() == 1;
  if (spec_.hash_capacity > 0)
    index_ =
        std::make_unique<HashedIndex>(spec_, storage_, place.exec(), local ? place.max_batch : 0);
  if (local) {
    steps_ = std::make_unique<LocalSteps>(spec_, storage_, index_.get(), place);
    return;
  }
  std::unique_ptr<ShardedSteps> steps;
  if (place.gpu)
    steps = std::make_unique<GpuShardedSteps>(spec_, storage_, index_.get(), place);
  else
    steps = std::make_unique<HostShardedSteps>(spec_, storage_, index_.get(), place);
  sharded_ = steps.get();
  steps_ = std::move(steps);
}

void EmbeddingTables::declare(plan::Buffers& buffers) {
  storage_.declare(buffers);
  steps_->declare(buffers);
}

int64_t EmbeddingTables::workspace_bytes() const {
  return steps_->workspace_bytes() + (index_ ? index_->bytes() : 0);
}

void EmbeddingTables::prepare() {
  if (index_) index_->allocate();
  steps_->prepare();
}

void EmbeddingTables::make_room(
    const std::function<std::vector<uint32_t>(const std::string&)>& keys_of) {
  if (!index_) return;
  std::vector<uint64_t> own;
  for (int64_t s = 0; s < spec_.layout.slots(); ++s)
    for (const uint32_t key : keys_of(table_name(spec_.name, s)))
      if (storage_.placement()->locate(s, key).rank == ranks_.rank) own.push_back(slot_key(s, key));
  index_->assign(own);
}

void EmbeddingTables::initialize(const Exec& exec) const {
  if (index_)
    index_->clear();  // rows come as keys come
  else
    storage_.initialize(exec);
}

void EmbeddingTables::check(const Exec& exec) {
  steps_->check(exec);
  if (index_) index_->check(exec);
}

TableStorage::Keys EmbeddingTables::file_keys() const {
  if (!index_) return nullptr;
  struct KeyRow {
    uint32_t key, row;
    bool operator<(const KeyRow& other) const { return key < other.key; }
  };
  const auto slots = static_cast<size_t>(spec_.layout.slots());
  const std::vector<uint64_t> key_of_row = index_->keys();
  std::vector<std::vector<KeyRow>> own(slots);
  for (size_t row = 0; row < key_of_row.size(); ++row)
    own[static_cast<size_t>(key_of_row[row] >> 32)].push_back(
        {static_cast<uint32_t>(key_of_row[row]), static_cast<uint32_t>(row)});
  std::vector<std::vector<uint32_t>> keys(slots);
  for (size_t s = 0; s < slots; ++s) {
    std::sort(own[s].begin(), own[s].end());
    for (const KeyRow& of : own[s]) keys[s].push_back(of.key);
  }
  auto file = std::make_shared<FileKeys>();
  file->keys = gather_keys(ranks_, keys);
  for (size_t s = 0; s < slots; ++s) {
    auto& rows = file->rows.emplace_back(file->keys[s].size(), kNoRow);
    auto at = own[s].begin();
    for (size_t i = 0; i < rows.size() && at != own[s].end(); ++i)
      if (file->keys[s][i] == at->key) rows[i] = (at++)->row;
  }
  return file;
}

}  // namespace hlite::embedding
