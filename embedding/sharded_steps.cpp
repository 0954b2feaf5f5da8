#include "embedding/sharded_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hlite::embedding {
namespace {

constexpr int64_t kLongest = 2;       // words of a header: the sender's longest list
constexpr double kRoom = 1.25;        // beyond what is likely
constexpr int64_t kLeastRoom = 1024;  // rows

}  // namespace

ShardedSteps::ShardedSteps(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
                           const TablesPlace& place)
    : spec_(spec),
      storage_(storage),
      index_(index),
      ranks_(place.ranks),
      max_batch_(place.max_batch),
      threads_(place.threads),
      marks_(spec_.update_type != optimizer::UpdateType::kGlobal &&
             optimizer::moves_without_gradient(spec_.rule.type)),
      header_(kLongest + (index ? spec_.layout.slots() : 0)),
      capacity_(place.exchange.capacity > 0 ? place.exchange.capacity
                                            : likely_capacity(place.exchange.exchanged_share)),
      keys_exchange_(ranks_, place.exchange.hierarchical, 0),
      rows_exchange_(ranks_, place.exchange.hierarchical, 0),
      grads_exchange_(ranks_, place.exchange.hierarchical, 0),
      wanted_rows_(ranks_.ranks()) {}

// Rows that a rank may want of another: its lookups, spread as the placement spreads them.
int64_t ShardedSteps::likely_capacity(double exchanged_share) const {
  double dearest = 0, most = 0;
  std::vector<double> lookups(static_cast<size_t>(ranks_.ranks()), 0.0);
  for (int64_t s = 0; s < spec_.layout.slots(); ++s) {
    const auto n = static_cast<double>(max_batch_ * spec_.layout.hotness(s));
    const auto share = storage_.placement()->key_share(s);
    for (size_t q = 0; q < share.size(); ++q)
      lookups[q] += std::min(n * share[q] * kRoom,
                             static_cast<double>(spec_.layout.rows[static_cast<size_t>(s)]));
    most += n;
  }
  for (const double n : lookups) dearest = std::max(dearest, n);
  const double likely = dearest * exchanged_share + static_cast<double>(kLeastRoom);
  return static_cast<int64_t>(std::ceil(std::min(likely, most)));
}

void ShardedSteps::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  const auto token = [&](const char* name) {
    return buffers.add(spec_.name + name, plan::BufferKind::kActivation, 8);
  };
  lists_ = token(".lists");
  wanted_ = token(".wanted");
  outgoing_ = token(".outgoing");
  incoming_ = token(".incoming");
}

int64_t ShardedSteps::workspace_bytes() const {
  const int64_t n = ranks_.ranks(), lookups = max_batch_ * spec_.layout.columns();
  const int64_t row_bytes = spec_.layout.width * static_cast<int64_t>(sizeof(float));
  const int64_t routing =
      lookups * (8 + 4 + 4 + static_cast<int64_t>(sizeof(KeyRouting::Distinct))) +
      threads_ * max_batch_ * spec_.layout.most_hotness() * 8;
  const int64_t hashed = index_ ? n * capacity_ * (3 * 4 + 8) : 0;
  return routing + hashed + 2 * n * (header_ + capacity_) * 4 + n * capacity_ * row_bytes +
         std::min(n * capacity_, lookups) * row_bytes;
}

int64_t ShardedSteps::copied_gradient_bytes() const {
  return storage_.copied_rows() * (spec_.layout.width + (marks_ ? 1 : 0)) *
         static_cast<int64_t>(sizeof(float));
}

void ShardedSteps::prepare() {
  routing_ = std::make_unique<KeyRouting>(*storage_.placement(), max_batch_, threads_);
  allocate();
}

void ShardedSteps::allocate() {
  const auto n = static_cast<size_t>(ranks_.ranks()), capacity = static_cast<size_t>(capacity_);
  const size_t row_bytes = static_cast<size_t>(spec_.layout.width) * sizeof(float);
  const auto lookups = static_cast<size_t>(max_batch_ * spec_.layout.columns());
  const size_t list_words = static_cast<size_t>(header_) + capacity;
  key_send_ = HostMemory(n * list_words * 4, "lists of wanted rows");
  key_receive_ = HostMemory(n * list_words * 4, "lists of wanted rows");
  owned_rows_ = HostMemory(n * capacity * row_bytes, "rows for other ranks");
  listed_rows_ = HostMemory(std::min(n * capacity, lookups) * row_bytes, "rows of other ranks");
  send_.resize(n);
  receive_.resize(n);
  received_.resize(n);
  wanted_count_.resize(n);
  row_gradients_.resize(n);
  keys_exchange_.set_block_capacity(list_words * 4);
  rows_exchange_.set_block_capacity(capacity * row_bytes);
  grads_exchange_.set_block_capacity(capacity * row_bytes);
}

std::string ShardedSteps::grow() {
  if (fits()) return {};
  const int64_t before = capacity_, most = max_batch_ * spec_.layout.columns();
  capacity_ =
      std::min(most, std::max(needed_, static_cast<int64_t>(static_cast<double>(needed_) * kRoom)));
  allocate();
  return fmt::format("{}: {} rows wanted of one rank, room for {}; run again with room for {}",
                     spec_.name, needed_, before, capacity_);
}

Matrix<float> ShardedSteps::copied_gradients() const {
  if (copied_gradients_ == plan::kNoBuffer) return {nullptr, 0, spec_.layout.width};
  return {buffers_->data<float>(copied_gradients_), storage_.copied_rows(), spec_.layout.width};
}
std::span<float> ShardedSteps::touched() const {
  if (!marks_) return {};
  const auto g = copied_gradients();
  return {g.data() + g.size(), static_cast<size_t>(g.dim(0))};
}
Matrix<float> ShardedSteps::block(const HostMemory& memory, int64_t first, int64_t rows) const {
  return {reinterpret_cast<float*>(memory.data()) + first * spec_.layout.width, rows,
          spec_.layout.width};
}

// What `rank` wants of this rank: rows, or keys of tables that are hashed.
std::span<const uint32_t> ShardedSteps::wanted(int rank) const {
  const auto q = static_cast<size_t>(rank);
  const auto* words = reinterpret_cast<const uint32_t*>(key_receive_.data());
  return {words + q * static_cast<size_t>(header_ + capacity_) + header_, wanted_count_[q]};
}

KeyList ShardedSteps::wanted_keys(int rank) const {
  const auto slots = static_cast<size_t>(spec_.layout.slots());
  return {{wanted(rank).data() - slots, slots}, wanted(rank)};
}

void ShardedSteps::exchange_keys(const TablesIo& io) {
  const int n = ranks_.ranks();
  const auto stride = static_cast<size_t>(header_ + capacity_) * 4;
  const auto header = static_cast<size_t>(header_) * 4;
  int64_t longest = 0;
  for (int q = 0; q < n; ++q) longest = std::max(longest, std::ssize(routing_->list(q)));
  for (int q = 0; q < n; ++q) {
    const auto list = routing_->list(q);
    std::byte* to = key_send_.data() + static_cast<size_t>(q) * stride;
    std::memcpy(to, &longest, sizeof(longest));
    auto* counts = reinterpret_cast<uint32_t*>(to + sizeof(longest));
    for (int64_t s = 0, begin = routing_->list_begin(q); s < header_ - kLongest; ++s) {
      counts[s] = static_cast<uint32_t>(routing_->list_end(s, q) - begin);
      begin = routing_->list_end(s, q);
    }
    const size_t bytes = longest <= capacity_ ? list.size_bytes() : 0;
    if (bytes > 0) std::memcpy(to + header, list.data(), bytes);
    send_[static_cast<size_t>(q)] = {to, header + bytes};
    receive_[static_cast<size_t>(q)] = {key_receive_.data() + static_cast<size_t>(q) * stride,
                                        stride};
  }
  exchange(keys_exchange_);
  for (size_t q = 0; q < received_.size(); ++q) {
    int64_t of_sender = 0;
    std::memcpy(&of_sender, receive_[q].data(), sizeof(of_sender));
    longest = std::max(longest, of_sender);
    wanted_count_[q] = (received_[q] - header) / 4;
  }
  needed_ = longest;
  if (!fits()) *buffers_->data<int32_t>(io.overflow) = 1;
}

// What one rank alone wants is there already.
void ShardedSteps::exchange(comm::RowExchange& exchange) {
  if (ranks_.ranks() > 1) return exchange.run(send_, receive_, received_);
  HLITE_CHECK(send_[0].size() <= receive_[0].size(), "{} bytes, room for {}", send_[0].size(),
              receive_[0].size());
  if (!send_[0].empty()) std::memcpy(receive_[0].data(), send_[0].data(), send_[0].size());
  received_[0] = send_[0].size();
}

void ShardedSteps::insert() {
  for (int q = 0; q < ranks_.ranks(); ++q) wanted_rows_.want(q, wanted_keys(q), *index_);
}

void ShardedSteps::gather(const Exec& exec, bool training) {
  const Matrix<const float> own = storage_.own().w;
  for (int q = 0; q < ranks_.ranks(); ++q) {
    const auto out = block(owned_rows_, q * capacity_, std::ssize(wanted(q)));
    if (index_ && !training)
      look_up(exec, wanted_keys(q), out);
    else
      gather_rows(exec, own, index_ ? wanted_rows_.rows(q) : wanted(q), out);
  }
}

// Evaluation takes no rows: keys that training has not seen have their first values.
void ShardedSteps::look_up(const Exec& exec, const KeyList& list, Matrix<float> out) const {
  const Matrix<const float> own = storage_.own().w;
  std::vector<int64_t> end;  // of each slot in the list
  for (const uint32_t n : list.counts) end.push_back((end.empty() ? 0 : end.back()) + n);
  exec.threads().parallel_for(out.dim(0), 1 << 10, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t slot = std::upper_bound(end.begin(), end.end(), i) - end.begin();
      const uint32_t key = list.keys[static_cast<size_t>(i)];
      const int64_t row = index_->find(slot, key);
      if (row == KeyIndex::kAbsent)
        storage_.first_values(slot, key, out.row(i));
      else
        std::copy_n(own.row(row), out.dim(1), out.row(i));
    }
  });
}

// Rows from their owners to those that listed them, or gradients back.
void ShardedSteps::exchange_vectors(comm::RowExchange& exchange, bool to_owners) {
  for (int q = 0; q < ranks_.ranks(); ++q) {
    const auto i = static_cast<size_t>(q);
    const auto owned = block(owned_rows_, q * capacity_, std::ssize(wanted(q)));
    const auto listed = block(listed_rows_, routing_->list_begin(q), std::ssize(routing_->list(q)));
    const auto &out = to_owners ? listed : owned, &in = to_owners ? owned : listed;
    send_[i] = std::as_bytes(std::span(out.data(), static_cast<size_t>(out.size())));
    receive_[i] = std::as_writable_bytes(std::span(in.data(), static_cast<size_t>(in.size())));
  }
  this->exchange(exchange);
  for (size_t q = 0; q < received_.size(); ++q)
    HLITE_CHECK(received_[q] == receive_[q].size(), "{}: {} bytes from rank {}, expected {}",
                spec_.name, received_[q], q, receive_[q].size());
}

View<float, 3> ShardedSteps::vectors(plan::BufferId id, int64_t batch) const {
  return {buffers_->data<float>(id), batch, spec_.layout.slots(), spec_.layout.width};
}

// Adds a step that is left out of a run whose lists do not fit.
void ShardedSteps::add(plan::Plan& plan, const char* name, plan::Lane lane,
                       const StepBuffers& buffers, Run run) {
  plan.add({.name = spec_.name + name,
            .lane = lane,
            .reads = buffers.reads,
            .writes = buffers.writes,
            .run = [this, run = std::move(run)](const plan::StepContext& c) {
              if (fits()) run(c);
            }});
}

void ShardedSteps::emit_forward(plan::Plan& plan, const TablesIo& io) {
  using plan::Lane;
  using plan::StepContext;
  plan.add({.name = spec_.name + ".route",
            .lane = Lane::kEmbedding,
            .reads = {io.keys},
            .writes = {lists_},
            .run = [this, io](const StepContext& c) {
              routing_->route(
                  c.exec, {buffers_->data<uint32_t>(io.keys), c.batch, spec_.layout.keys.columns});
            }});
  std::vector<plan::BufferId> exchanged = {wanted_};
  if (io.overflow != plan::kNoBuffer) exchanged.push_back(io.overflow);
  plan.add({.name = spec_.name + ".keys_exchange",
            .lane = Lane::kComm,
            .reads = {lists_},
            .writes = exchanged,
            .run = [this, io](const StepContext&) { exchange_keys(io); }});
  if (index_ && io.training) {
    std::vector<plan::BufferId> changed = storage_.own_buffers();
    changed.push_back(wanted_);
    add(plan, ".insert", Lane::kEmbedding, {changed, changed},
        [this](const StepContext&) { insert(); });
  }
  add(plan, ".gather", Lane::kEmbedding, {{wanted_, storage_.own_weights()}, {outgoing_}},
      [this, training = io.training](const StepContext& c) { gather(c.exec, training); });
  add(plan, ".rows_exchange", Lane::kComm, {{lists_, wanted_, outgoing_}, {incoming_}},
      [this](const StepContext&) { exchange_vectors(rows_exchange_, false); });
  std::vector<plan::BufferId> pooled = {lists_, incoming_};
  if (storage_.copied_rows() > 0) pooled.push_back(storage_.copied_weights());
  add(plan, ".pool", Lane::kEmbedding, {pooled, {io.output}}, [this, io](const StepContext& c) {
    pool_rows(c.exec, *routing_, block(listed_rows_, 0, routing_->listed()), storage_.copied().w,
              vectors(io.output, c.batch));
  });
}

void ShardedSteps::emit_backward(plan::Plan& plan, const TablesIo& io) {
  std::vector<plan::BufferId> reduced = {incoming_};
  if (copied_gradients_ != plan::kNoBuffer) reduced.push_back(copied_gradients_);
  add(plan, ".reduce", plan::Lane::kEmbedding, {{io.grad, lists_}, reduced},
      [this, io](const plan::StepContext& c) {
        reduce_gradients(c.exec, *routing_, vectors(io.grad, c.batch),
                         block(listed_rows_, 0, routing_->listed()), copied_gradients(), touched());
      });
  add(plan, ".grads_exchange", plan::Lane::kComm, {{lists_, wanted_, incoming_}, {outgoing_}},
      [this](const plan::StepContext&) { exchange_vectors(grads_exchange_, true); });
}

RowStep ShardedSteps::step_of(const TablesIo& io) const {
  return {.rule = spec_.rule,
          .sweep = spec_.update_type == optimizer::UpdateType::kGlobal,
          .lr = *buffers_->data<float>(io.rate),
          .step = *buffers_->data<int64_t>(io.step)};
}

void ShardedSteps::update(const Exec& exec, const TablesIo& io) {
  for (int q = 0; q < ranks_.ranks(); ++q) {
    const auto gradients = block(owned_rows_, q * capacity_, std::ssize(wanted(q)));
    row_gradients_[static_cast<size_t>(q)] =
        index_ ? RowGradients{wanted_rows_.ascending(q), gradients, wanted_rows_.order(q)}
               : RowGradients{wanted(q), gradients};
  }
  update_rows(exec, step_of(io), row_gradients_, storage_.own());
}

void ShardedSteps::emit_update(plan::Plan& plan, const TablesIo& io) {
  // Of any layer's exchange: then no update counts.
  const auto add_update = [&](const char* name, const std::vector<plan::BufferId>& rows,
                              std::vector<plan::BufferId> reads, Run run) {
    reads.insert(reads.end(), {io.rate, io.step});
    if (io.overflow != plan::kNoBuffer) reads.push_back(io.overflow);
    reads.insert(reads.end(), rows.begin(), rows.end());
    add(plan, name, plan::Lane::kEmbedding, {reads, rows},
        [this, io, run = std::move(run)](const plan::StepContext& c) {
          if (!gradient_scale(*buffers_, io).skips()) run(c);
        });
  };
  add_update(".update", storage_.own_buffers(), {wanted_, outgoing_},
             [this, io](const plan::StepContext& c) { update(c.exec, io); });
  if (storage_.copied_rows() == 0) return;
  add_update(".update_copied", storage_.copied_buffers(), {copied_gradients_},
             [this, io](const plan::StepContext& c) {
               update_copied(c.exec, step_of(io), copied_gradients(), touched(), storage_.copied());
             });
}

}  // namespace hlite::embedding
