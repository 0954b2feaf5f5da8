#include "embedding/host_requests.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "embedding/cutter.h"

namespace hlite::embedding {

HostRequests::HostRequests(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
                           const RowExchange& exchange, const TablesPlace& place)
    : HostRows(spec, storage.own_rows(), index, place.max_batch),
      spec_(spec),
      storage_(storage),
      exchange_(exchange),
      place_(place),
      hosts_(place.ranks.world ? place.ranks.world->copy(comm::Route::kFlat) : nullptr) {}

// Of lists that hold all lookups of a batch.
ExchangeShape HostRequests::largest() const {
  ExchangeShape shape = exchange_.shape();
  shape.capacity = std::max(shape.capacity, place_.max_batch * spec_.layout.columns());
  return shape;
}

size_t HostRequests::routing_bytes() const {
  return routing_workspace(Exec{}, slots(), place_.ranks.ranks(), place_.max_batch, kNoRow,
                           place_.threads);
}

HostRequests::Arrays HostRequests::cut(Cutter& cutter) const {
  const ExchangeShape shape = largest();
  const int64_t ranks = shape.ranks, keys = shape.hashed_tables > 0 ? shape.list_capacity() : 0;
  Arrays a{};
  for (RequestedRows& of : a.requested) {
    of.rows = cutter.cut<uint32_t>(shape.hashed_tables > 0 ? 0 : shape.list_capacity());
    of.keys = cutter.cut<uint32_t>(keys);
    of.tables = cutter.cut<uint32_t>(keys);
    of.counts = cutter.cut<uint32_t>(ranks);
    of.vector_bytes = cutter.cut<int64_t>(ranks);
    of.needed = cutter.cut<int64_t>(1);
  }
  a.entries = cutter.cut<uint32_t>(place_.max_batch * spec_.layout.keys.columns);
  a.lists.blocks = cutter.cut<uint32_t>(ranks * shape.block_words());
  a.received = cutter.cut<uint32_t>(ranks * shape.block_words());
  a.lists.list_bytes = cutter.cut<int64_t>(ranks);
  a.lists.vector_bytes = cutter.cut<int64_t>(ranks);
  a.lists.replicated = cutter.cut<uint32_t>(shape.replicated_capacity);
  a.lists.counts = cutter.cut<uint32_t>(ranks + 1);
  a.received_bytes = cutter.cut<int64_t>(ranks);
  a.counts = cutter.cut<PeerCounts>(ranks);
  a.routing = cutter.cut<std::byte>(static_cast<int64_t>(routing_bytes()));
  return a;
}

int64_t HostRequests::bytes() const {
  Cutter cutter(nullptr);
  (void)cut(cutter);
  return HostRows::bytes() + static_cast<int64_t>(cutter.bytes());
}

void HostRequests::prepare() {
  HostRows::prepare();
  placement_ = std::make_unique<DevicePlacement>(Exec{}, *storage_.placement());
  Cutter counting(nullptr);
  (void)cut(counting);
  memory_ = HostMemory(counting.bytes(), "request lists of hosts");
  Cutter cutter(memory_.data());
  arrays_ = cut(cutter);
}

// As RowExchange::requested_rows().
HostRows::Shape HostRequests::shape(int64_t) const {
  return {.lists = exchange_.max_requested(), .columns = 1, .first = 0, .count = 1};
}

void HostRequests::begin_run(const Exec& host, const plan::HostInput& input, int64_t batch) {
  HostRows::begin_run(host, input, batch);
  was_next_ = was_next_ && capacity_ == exchange_.shape().capacity;
  capacity_ = exchange_.shape().capacity;
  agree(host);
  if (was_next_)
    std::swap(arrays_.requested[kThis], arrays_.requested[kNext]);
  else
    exchange_lists(host, kThis);
  if (has_next_) exchange_lists(host, kNext);
}

// Which of the two ways a batch goes may depend on the time that a rank's reader takes, so all go
// the way that every one can.
void HostRequests::agree(const Exec& host) {
  const std::array<bool, 2> own = {was_next_, has_next_};
  std::vector<std::array<bool, 2>> all(static_cast<size_t>(place_.ranks.ranks()));
  hosts_->all_gather(host, std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  for (const std::array<bool, 2>& of : all) {
    was_next_ = was_next_ && of[0];
    has_next_ = has_next_ && of[1];
  }
}

void HostRequests::exchange_lists(const Exec& host, Batch of) {
  const ExchangeShape shape = exchange_.shape();
  const Matrix<const uint32_t> keys = this->keys(of);
  route_keys(host, {.slots = slots(),
                    .placement = placement_->ref(),
                    .shape = shape,
                    .keys = keys,
                    .entries = {arrays_.entries, keys.dim(0), keys.dim(1)},
                    .lists = arrays_.lists,
                    .workspace = arrays_.routing,
                    .workspace_bytes = routing_bytes()});
  hosts_->all_to_all_v(host,
                       {.send = reinterpret_cast<std::byte*>(arrays_.lists.blocks),
                        .send_bytes = arrays_.lists.list_bytes,
                        .receive = reinterpret_cast<std::byte*>(arrays_.received),
                        .received_bytes = arrays_.received_bytes,
                        .capacity = shape.block_words() * static_cast<int64_t>(sizeof(uint32_t))});
  int32_t exceeded = 0;  // the GPUs say so, too
  take_lists(host, {.shape = shape,
                    .blocks = arrays_.received,
                    .received_bytes = arrays_.received_bytes,
                    .lists = arrays_.lists,
                    .requested = arrays_.requested[of],
                    .capacity_exceeded = &exceeded,
                    .counts = arrays_.counts});
}

int64_t HostRequests::find(const Exec& host, Batch of, uint32_t* rows, bool training) {
  const RequestedRows& requested = arrays_.requested[of];
  const int64_t n = exchange_.max_requested();
  if (!index_) {
    std::copy_n(requested.rows, n, rows);
    return 0;
  }
  const HashedArgs list{
      .keys = {requested.keys, n, 1}, .rows = {rows, n, 1}, .requested_tables = requested.tables};
  int32_t full = 0;  // check() says so
  if (training)
    index_->insert_requested(host, list, {}, &full);
  else
    index_->find_requested(host, list);
  index_->check(host);
  return index_->size();
}

std::vector<comm::StepTraffic> HostRequests::traffic() const {
  return {{spec_.name + ".host_lists", hosts_->traffic()}};
}

}  // namespace hlite::embedding
