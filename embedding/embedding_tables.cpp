#include "embedding/embedding_tables.h"

#include <algorithm>

#include "embedding/local_steps.h"

namespace hlite::embedding {
namespace {

Exec exec_on(const cuda::Backend* gpu) {
  return gpu ? Exec{.device = Device::kCuda, .cuda = gpu} : Exec{};
}

// The keys that any rank holds, ascending in each slot.
std::vector<std::vector<uint32_t>> gather_keys(const comm::RankContext& ranks,
                                               std::vector<std::vector<uint32_t>> own) {
  if (ranks.ranks() == 1) return own;
  const size_t slots = own.size(), n = static_cast<size_t>(ranks.ranks());
  std::vector<uint32_t> mine(slots);  // counts, then keys
  for (size_t s = 0; s < slots; ++s) {
    mine[s] = static_cast<uint32_t>(own[s].size());
    mine.insert(mine.end(), own[s].begin(), own[s].end());
  }
  int64_t most = std::ssize(mine);
  std::vector<int64_t> sizes(n);
  ranks.world->all_gather(std::as_bytes(std::span(&most, 1)),
                          std::as_writable_bytes(std::span(sizes)));
  const std::vector<comm::ConstBytes> send(n, std::as_bytes(std::span(mine)));
  std::vector<size_t> room;
  for (const int64_t words : sizes) room.push_back(static_cast<size_t>(words) * sizeof(uint32_t));
  std::vector<std::vector<uint32_t>> all(slots);
  ranks.world->visit(send, room, [&](int, comm::ConstBytes bytes) {
    const auto* words = reinterpret_cast<const uint32_t*>(bytes.data());
    const uint32_t* at = words + slots;
    for (size_t s = 0; s < slots; at += words[s], ++s)
      all[s].insert(all[s].end(), at, at + words[s]);
  });
  for (auto& keys : all) std::sort(keys.begin(), keys.end());
  return all;
}

}  // namespace

EmbeddingTables::EmbeddingTables(TablesSpec spec, const TablesPlace& place)
    : spec_(std::move(spec)),
      ranks_(place.ranks),
      storage_(spec_, place.placement, place.ranks, exec_on(place.gpu)) {
  if (spec_.hash_capacity > 0)
    hashed_ = std::make_unique<HashedRows>(spec_.name, spec_.layout.slots(), storage_.own_rows(),
                                           ranks_.ranks());
  if (!place.placement) {
    steps_ = std::make_unique<LocalSteps>(spec_, storage_, exec_on(place.gpu), place.type,
                                          place.train_batch, place.threads);
    return;
  }
  HLITE_CHECK(!place.gpu, "{}: tables on several GPUs, or hashed ones", spec_.name);
  auto steps = std::make_unique<ShardedSteps>(spec_, storage_, hashed_.get(), place.ranks,
                                              place.exchange, place.max_batch, place.threads);
  if (ranks_.ranks() > 1) sharded_ = steps.get();
  steps_ = std::move(steps);
}

void EmbeddingTables::declare(plan::Buffers& buffers) {
  storage_.declare(buffers);
  steps_->declare(buffers);
}

void EmbeddingTables::make_room(
    const std::function<std::vector<uint32_t>(const std::string&)>& keys_of) {
  if (!hashed_) return;
  hashed_->clear();
  for (int64_t s = 0; s < spec_.layout.slots(); ++s)
    for (const uint32_t key : keys_of(table_name(spec_.name, s)))
      if (storage_.placement()->locate(s, key).rank == ranks_.rank)
        hashed_->insert(s, key, [this](auto... row) { storage_.first_values(row...); });
}

void EmbeddingTables::initialize(const Exec& exec) const {
  if (hashed_)
    hashed_->clear();  // rows come as keys come
  else
    storage_.initialize(exec);
}

TableStorage::Keys EmbeddingTables::file_keys() const {
  if (!hashed_) return nullptr;
  auto file = std::make_shared<FileKeys>();
  file->keys = gather_keys(ranks_, hashed_->keys());
  for (size_t s = 0; s < file->keys.size(); ++s) {
    auto& rows = file->rows.emplace_back();
    for (const uint32_t key : file->keys[s])
      rows.push_back(static_cast<uint32_t>(hashed_->find(static_cast<int64_t>(s), key)));
  }
  return file;
}

}  // namespace hlite::embedding
