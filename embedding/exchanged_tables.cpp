#include "embedding/exchanged_tables.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "embedding/table_init.h"
#include "hugectr_lite/comm/expected_traffic.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kLongest = 2;       // words of a header: the sender's longest list
constexpr double kRoom = 1.25;        // beyond what is likely
constexpr int64_t kLeastRoom = 1024;  // rows

}  // namespace

ExchangedTables::ExchangedTables(TablesSpec spec, std::shared_ptr<const RowPlacement> placement,
                                 const comm::RankContext& ranks, const ExchangeOptions& options,
                                 int64_t max_batch, int threads)
    : spec_(std::move(spec)),
      placement_(std::move(placement)),
      ranks_(ranks),
      options_(options),
      max_batch_(max_batch),
      threads_(threads),
      marks_(spec_.update_type != optimizer::UpdateType::kGlobal &&
             optimizer::moves_without_gradient(spec_.rule.type)),
      header_(kLongest + (spec_.hash_capacity > 0 ? spec_.layout.slots() : 0)),
      capacity_(options.capacity > 0 ? options.capacity : likely_capacity()),
      keys_exchange_(ranks.make_communicator(options.route)),
      rows_exchange_(ranks.make_communicator(options.route)),
      grads_exchange_(ranks.make_communicator(options.route)) {
  HLITE_CHECK(placement_->ranks() == ranks.ranks(), "placement on {} ranks, {} ranks",
              placement_->ranks(), ranks.ranks());
  HLITE_CHECK(placement_->hashed() == (spec_.hash_capacity > 0), "{}: placement by key: {}",
              spec_.name, placement_->hashed());
}

// [ranks] rows that a rank may want of each with a full batch, times `room`: its lookups, spread as
// the placement spreads them.
std::vector<double> ExchangedTables::likely_rows(double room) const {
  std::vector<double> rows(static_cast<size_t>(ranks_.ranks()), 0.0);
  for (int64_t s = 0; s < spec_.layout.slots(); ++s) {
    const auto n = static_cast<double>(max_batch_ * spec_.pooling.hotness(s));
    const auto share = placement_->key_share(s);
    for (size_t q = 0; q < share.size(); ++q)
      rows[q] += std::min(n * share[q] * room,
                          static_cast<double>(spec_.layout.rows[static_cast<size_t>(s)]));
  }
  for (double& n : rows) n *= options_.exchanged_share;
  return rows;
}

int64_t ExchangedTables::likely_capacity() const {
  const auto rows = likely_rows(kRoom);
  const double likely =
      *std::max_element(rows.begin(), rows.end()) + static_cast<double>(kLeastRoom);
  const auto most = static_cast<double>(max_batch_ * spec_.pooling.columns());
  return static_cast<int64_t>(std::ceil(std::min(likely, most)));
}

// By an exchange of a list for each rank: `header` bytes, then `row` for each row that is wanted.
plan::SentBytes ExchangedTables::sends(int64_t header, int64_t row, bool to_owners) const {
  const auto rows = likely_rows(1);
  const auto by_route = [&](auto&& bytes_of_pair) {
    return comm::all_to_all_bytes(*ranks_.topology, ranks_.rank, options_.route, bytes_of_pair);
  };
  const auto always = by_route(
      [&](int, int) { return static_cast<double>(header + comm::size_bytes(options_.route)); });
  const auto sample = by_route([&](int from, int to) {
    const double wanted = rows[static_cast<size_t>(to_owners ? to : from)];
    return static_cast<double>(row) * wanted / static_cast<double>(max_batch_);
  });
  return {always.intra, always.inter, sample.intra, sample.inter};
}

void ExchangedTables::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  const int64_t row_bytes = spec_.layout.width * static_cast<int64_t>(sizeof(float));
  const auto add = [&](const std::string& name, plan::BufferKind kind) {
    return Part{buffers.add(name, kind, placement_->rows_of(ranks_.rank) * row_bytes),
                buffers.add(name + ".copied", kind, placement_->copied_rows() * row_bytes)};
  };
  table_ = add(spec_.name + ".tables", plan::BufferKind::kTable);
  for (int i = 0; i < optimizer::state_count(spec_.rule.type); ++i)
    states_.push_back(add(spec_.name + "." + optimizer::state_name(spec_.rule.type, i),
                          plan::BufferKind::kState));
  const auto token = [&](const char* name) {
    return buffers.add(spec_.name + name, plan::BufferKind::kActivation, 8);
  };
  lists_ = token(".lists");
  wanted_ = token(".wanted");
  outgoing_ = token(".outgoing");
  incoming_ = token(".incoming");
}

int64_t ExchangedTables::workspace_bytes() const {
  const int64_t n = ranks_.ranks(), lookups = max_batch_ * spec_.pooling.columns();
  const int64_t row_bytes = spec_.layout.width * static_cast<int64_t>(sizeof(float));
  const int64_t routing =
      lookups * (8 + 4 + 4 + static_cast<int64_t>(sizeof(KeyRouting::Distinct))) +
      threads_ * max_batch_ * spec_.pooling.most_hotness() * 8;
  const int64_t hashed =
      spec_.hash_capacity > 0
          ? HashedRows::bytes(placement_->rows_of(ranks_.rank)) + n * capacity_ * (3 * 4 + 8)
          : 0;
  return routing + hashed + 2 * n * (header_ + capacity_) * 4 + 2 * n * capacity_ * row_bytes;
}

int64_t ExchangedTables::copied_gradient_bytes() const {
  return placement_->copied_rows() * (spec_.layout.width + (marks_ ? 1 : 0)) *
         static_cast<int64_t>(sizeof(float));
}

void ExchangedTables::allocate() {
  if (!routing_)
    routing_ = std::make_unique<KeyRouting>(*placement_, spec_.pooling, max_batch_, threads_);
  if (spec_.hash_capacity > 0 && !hashed_) {
    hashed_ = std::make_unique<HashedRows>(spec_.name, spec_.layout.slots(),
                                           placement_->rows_of(ranks_.rank), ranks_.ranks());
    init_ =
        std::make_unique<TableRowInit>(spec_.seed, spec_.name, spec_.init_rows, spec_.layout.width);
  }
  const auto n = static_cast<size_t>(ranks_.ranks()), capacity = static_cast<size_t>(capacity_);
  const size_t row_bytes = static_cast<size_t>(spec_.layout.width) * sizeof(float);
  const size_t list_words = static_cast<size_t>(header_) + capacity;
  key_send_ = HostMemory(n * list_words * 4, "lists of wanted rows");
  key_receive_ = HostMemory(n * list_words * 4, "lists of wanted rows");
  owned_rows_ = HostMemory(n * capacity * row_bytes, "rows for other ranks");
  listed_rows_ = HostMemory(n * capacity * row_bytes, "rows of other ranks");
  send_bytes_.resize(n);
  received_bytes_.resize(n);
  wanted_count_.resize(n);
  row_gradients_.resize(n);
}

void ExchangedTables::grow(int64_t rows) {
  const int64_t most = max_batch_ * spec_.pooling.columns();
  if (rows <= capacity_) return;
  capacity_ =
      std::min(most, std::max(rows, static_cast<int64_t>(static_cast<double>(rows) * kRoom)));
  allocate();
}

Matrix<float> ExchangedTables::own(const Part& part) const {
  return {buffers_->data<float>(part.own), placement_->rows_of(ranks_.rank), spec_.layout.width};
}
Matrix<float> ExchangedTables::copied(const Part& part) const {
  return {buffers_->data<float>(part.copied), placement_->copied_rows(), spec_.layout.width};
}
Matrix<float> ExchangedTables::copied_gradients() const {
  if (copied_gradients_ == plan::kNoBuffer) return {nullptr, 0, spec_.layout.width};
  return {buffers_->data<float>(copied_gradients_), placement_->copied_rows(), spec_.layout.width};
}
std::span<float> ExchangedTables::touched() const {
  if (!marks_) return {};
  const auto g = copied_gradients();
  return {g.data() + g.size(), static_cast<size_t>(g.dim(0))};
}
Matrix<float> ExchangedTables::block(const HostMemory& memory, int64_t first, int64_t rows) const {
  return {reinterpret_cast<float*>(memory.data()) + first * spec_.layout.width, rows,
          spec_.layout.width};
}

// What `rank` wants of this rank: rows, or keys of tables that are hashed.
std::span<const uint32_t> ExchangedTables::wanted(int rank) const {
  const auto q = static_cast<size_t>(rank);
  const auto* words = reinterpret_cast<const uint32_t*>(key_receive_.data());
  return {words + q * static_cast<size_t>(header_ + capacity_) + header_, wanted_count_[q]};
}

KeyList ExchangedTables::wanted_keys(int rank) const {
  const auto slots = static_cast<size_t>(spec_.layout.slots());
  return {{wanted(rank).data() - slots, slots}, wanted(rank)};
}

void ExchangedTables::exchange_keys(const Exec& exec) {
  const int n = ranks_.ranks();
  const int64_t stride = (header_ + capacity_) * 4, header = header_ * 4;
  int64_t longest = 0;
  for (int q = 0; q < n; ++q) longest = std::max(longest, std::ssize(routing_->list(q)));
  for (int q = 0; q < n; ++q) {
    const auto list = routing_->list(q);
    std::byte* to = key_send_.data() + q * stride;
    std::memcpy(to, &longest, sizeof(longest));
    auto* counts = reinterpret_cast<uint32_t*>(to + sizeof(longest));
    for (int64_t s = 0, begin = routing_->list_begin(q); s < header_ - kLongest; ++s) {
      counts[s] = static_cast<uint32_t>(routing_->list_end(s, q) - begin);
      begin = routing_->list_end(s, q);
    }
    const size_t bytes = longest <= capacity_ ? list.size_bytes() : 0;
    if (bytes > 0) std::memcpy(to + header, list.data(), bytes);
    send_bytes_[static_cast<size_t>(q)] = header + static_cast<int64_t>(bytes);
  }
  keys_exchange_->all_to_all_v(exec, {key_send_.data(), send_bytes_.data(), key_receive_.data(),
                                      received_bytes_.data(), stride});
  for (int q = 0; q < n; ++q) {
    longest = std::max(longest, load<int64_t>(key_receive_.data() + q * stride));
    const int64_t bytes = received_bytes_[static_cast<size_t>(q)] - header;
    wanted_count_[static_cast<size_t>(q)] = static_cast<size_t>(bytes) / 4;
  }
  if (longest > capacity_) throw CapacityOverflow(*this, spec_.name, longest, capacity_);
}

// A new row: what a table of all keys would have had there from the start.
void ExchangedTables::first_values(int64_t slot, uint32_t key, int64_t row) {
  init_->fill(slot, key, own(table_).row(row));
  for (const Part& state : states_)
    std::fill_n(own(state).row(row), spec_.layout.width, optimizer::initial_state(spec_.rule));
}

void ExchangedTables::insert() {
  for (int q = 0; q < ranks_.ranks(); ++q)
    hashed_->want(q, wanted_keys(q), [this](auto... row) { first_values(row...); });
}

void ExchangedTables::gather(const Exec& exec, bool training) {
  for (int q = 0; q < ranks_.ranks(); ++q) {
    const auto out = block(owned_rows_, q * capacity_, std::ssize(wanted(q)));
    if (hashed_ && !training)
      look_up(exec, wanted_keys(q), out);
    else
      gather_rows(exec, own(table_), hashed_ ? hashed_->rows(q) : wanted(q), out);
  }
}

// Evaluation takes no rows: keys that training has not seen have their first values.
void ExchangedTables::look_up(const Exec& exec, const KeyList& list, Matrix<float> out) const {
  std::vector<int64_t> end;  // of each slot in the list
  for (const uint32_t n : list.counts) end.push_back((end.empty() ? 0 : end.back()) + n);
  exec.threads().parallel_for(out.dim(0), 1 << 10, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t slot = std::upper_bound(end.begin(), end.end(), i) - end.begin();
      const uint32_t key = list.keys[static_cast<size_t>(i)];
      const int64_t row = hashed_->find(slot, key);
      if (row == KeyIndex::kAbsent)
        init_->fill(slot, key, out.row(i));
      else
        std::copy_n(own(table_).row(row), out.dim(1), out.row(i));
    }
  });
}

// Rows from their owners to those that listed them, or gradients back.
void ExchangedTables::exchange_vectors(const Exec& exec, bool to_owners) {
  const int64_t row_bytes = spec_.layout.width * kFloatBytes;
  const auto bytes_of = [&](int q, bool owned) {
    return row_bytes * (owned ? std::ssize(wanted(q)) : std::ssize(routing_->list(q)));
  };
  for (int q = 0; q < ranks_.ranks(); ++q)
    send_bytes_[static_cast<size_t>(q)] = bytes_of(q, !to_owners);
  const HostMemory &out = to_owners ? listed_rows_ : owned_rows_,
                   &in = to_owners ? owned_rows_ : listed_rows_;
  (to_owners ? grads_exchange_ : rows_exchange_)
      ->all_to_all_v(exec, {out.data(), send_bytes_.data(), in.data(), received_bytes_.data(),
                            capacity_ * row_bytes});
  for (int q = 0; q < ranks_.ranks(); ++q) {
    const int64_t got = received_bytes_[static_cast<size_t>(q)], expected = bytes_of(q, to_owners);
    HLITE_CHECK(got == expected, "{}: {} bytes from rank {}, expected {}", spec_.name, got, q,
                expected);
  }
}

std::vector<comm::StepTraffic> ExchangedTables::traffic() const {
  return {{spec_.name + ".keys_exchange", keys_exchange_->traffic()},
          {spec_.name + ".rows_exchange", rows_exchange_->traffic()},
          {spec_.name + ".grads_exchange", grads_exchange_->traffic()}};
}

void ExchangedTables::emit_forward(plan::Plan& plan, const TablesIo& io) {
  if (!routing_) allocate();
  using plan::Lane;
  using plan::StepContext;
  const auto add = [&](const char* name, Lane lane, std::vector<plan::BufferId> reads,
                       std::vector<plan::BufferId> writes,
                       std::function<void(const StepContext&)> run,
                       const plan::SentBytes& sends = {}) {
    plan.add({.name = spec_.name + name,
              .lane = lane,
              .reads = std::move(reads),
              .writes = std::move(writes),
              .run = std::move(run),
              .sends = sends});
  };
  const int64_t row_bytes = spec_.layout.width * kFloatBytes;
  add(".route", Lane::kEmbedding, {io.keys}, {lists_}, [this, io](const StepContext& c) {
    routing_->route(c.exec,
                    {buffers_->data<uint32_t>(io.keys), c.batch, spec_.pooling.keys.columns},
                    capacity_);
  });
  add(
      ".keys_exchange", Lane::kComm, {lists_}, {wanted_},
      [this](const StepContext& c) { exchange_keys(c.exec); }, sends(header_ * 4, 4, true));
  if (hashed_ && io.training) {
    std::vector<plan::BufferId> changed = {wanted_, table_.own};
    for (const Part& state : states_) changed.push_back(state.own);
    add(".insert", Lane::kEmbedding, changed, changed, [this](const StepContext&) { insert(); });
  }
  add(".gather", Lane::kEmbedding, {wanted_, table_.own}, {outgoing_},
      [this, training = io.training](const StepContext& c) { gather(c.exec, training); });
  add(
      ".rows_exchange", Lane::kComm, {lists_, wanted_, outgoing_}, {incoming_},
      [this](const StepContext& c) { exchange_vectors(c.exec, false); },
      sends(0, row_bytes, false));
  add(".pool", Lane::kEmbedding, {lists_, incoming_, table_.copied}, {io.output},
      [this, io](const StepContext& c) {
        pool_rows(c.exec, *routing_, block(listed_rows_, 0, ranks_.ranks() * capacity_),
                  copied(table_),
                  View<float, 3>(buffers_->data<float>(io.output), c.batch, spec_.layout.slots(),
                                 spec_.layout.width));
      });
}

void ExchangedTables::emit_backward(plan::Plan& plan, const TablesIo& io) {
  plan.add({.name = spec_.name + ".reduce",
            .lane = plan::Lane::kEmbedding,
            .reads = {io.grad, lists_},
            .writes = copied_gradients_ == plan::kNoBuffer
                          ? std::vector{incoming_}
                          : std::vector{incoming_, copied_gradients_},
            .run = [this, io](const plan::StepContext& c) {
              reduce_gradients(c.exec, *routing_,
                               View<const float, 3>(buffers_->data<float>(io.grad), c.batch,
                                                    spec_.layout.slots(), spec_.layout.width),
                               block(listed_rows_, 0, ranks_.ranks() * capacity_),
                               copied_gradients(), touched());
            }});
  plan.add({.name = spec_.name + ".grads_exchange",
            .lane = plan::Lane::kComm,
            .reads = {lists_, wanted_, incoming_},
            .writes = {outgoing_},
            .run = [this](const plan::StepContext& c) { exchange_vectors(c.exec, true); },
            .sends = sends(0, spec_.layout.width * kFloatBytes, true)});
}

RowStep ExchangedTables::step_of(const TablesIo& io) const {
  return {.rule = spec_.rule,
          .sweep = spec_.update_type == optimizer::UpdateType::kGlobal,
          .lr = *buffers_->data<float>(io.rate),
          .step = *buffers_->data<int64_t>(io.step)};
}

void ExchangedTables::update(const Exec& exec, const TablesIo& io) {
  for (int q = 0; q < ranks_.ranks(); ++q) {
    const auto gradients = block(owned_rows_, q * capacity_, std::ssize(wanted(q)));
    row_gradients_[static_cast<size_t>(q)] =
        hashed_ ? RowGradients{hashed_->ascending(q), gradients, hashed_->order(q)}
                : RowGradients{wanted(q), gradients};
  }
  const auto state = [&](size_t i) {
    return i < states_.size() ? own(states_[i]) : Matrix<float>();
  };
  update_rows(exec, step_of(io), row_gradients_, own(table_), state(0), state(1));
}

void ExchangedTables::emit_update(plan::Plan& plan, const TablesIo& io) {
  std::vector<plan::BufferId> reads = {wanted_, outgoing_, io.rate, io.step, table_.own},
                              writes = {table_.own},
                              copied_reads = {copied_gradients_, io.rate, io.step, table_.copied},
                              copied_writes = {table_.copied};
  for (const Part& state : states_) {
    reads.push_back(state.own);
    writes.push_back(state.own);
    copied_reads.push_back(state.copied);
    copied_writes.push_back(state.copied);
  }
  plan.add({.name = spec_.name + ".update",
            .lane = plan::Lane::kEmbedding,
            .reads = reads,
            .writes = writes,
            .run = [this, io](const plan::StepContext& c) { update(c.exec, io); }});
  if (placement_->copied_rows() == 0) return;
  plan.add({.name = spec_.name + ".update_copied",
            .lane = plan::Lane::kEmbedding,
            .reads = copied_reads,
            .writes = copied_writes,
            .run = [this, io](const plan::StepContext& c) {
              const auto state = [&](size_t i) {
                return i < states_.size() ? copied(states_[i]) : Matrix<float>();
              };
              update_copied(c.exec, step_of(io), copied_gradients(), touched(), copied(table_),
                            state(0), state(1));
            }});
}

void ExchangedTables::initialize(const Exec& exec, uint64_t seed) const {
  if (hashed_) return hashed_->clear();  // rows come as keys come
  const TableRowInit init(seed, spec_.name, spec_.layout);
  const auto fill = [&](int rank, Matrix<float> rows) {
    exec.threads().parallel_for(rows.dim(0), 1 << 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const TableRow row = placement_->table_row(rank, i);
        init.fill(row.slot, row.key, rows.row(i));
      }
    });
  };
  fill(ranks_.rank, own(table_));
  fill(-1, copied(table_));
  const float initial = optimizer::initial_state(spec_.rule);
  for (const Part& state : states_)
    for (const Matrix<float>& rows : {own(state), copied(state)})
      std::fill_n(rows.data(), rows.size(), initial);
}

}  // namespace hlite::embedding
