#include "embedding/sharded_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hugectr_lite/comm/expected_traffic.h"
#include "hugectr_lite/core/float_type.h"

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
      options_(place.exchange),
      max_batch_(place.max_batch),
      threads_(place.threads),
      type_(place.type),
      marks_(spec_.update_type != optimizer::UpdateType::kGlobal &&
             optimizer::moves_without_gradient(spec_.rule.type)),
      header_(kLongest + (index ? spec_.layout.slots() : 0)),
      capacity_(options_.capacity > 0 ? options_.capacity : likely_capacity()),
      keys_exchange_(ranks_.make_communicator(options_.route)),
      rows_exchange_(ranks_.make_communicator(options_.route)),
      grads_exchange_(ranks_.make_communicator(options_.route)),
      whole_(spec, storage),
      wanted_rows_(ranks_.ranks()) {}

// [ranks] rows that a rank may want of each with a full batch, times `room`: its lookups, spread as
// the placement spreads them.
std::vector<double> ShardedSteps::likely_rows(double room) const {
  std::vector<double> rows(static_cast<size_t>(ranks_.ranks()), 0.0);
  for (int64_t s = 0; s < spec_.layout.slots(); ++s) {
    const auto n = static_cast<double>(max_batch_ * spec_.layout.hotness(s));
    const auto share = storage_.placement()->key_share(s);
    for (size_t q = 0; q < share.size(); ++q)
      rows[q] += std::min(n * share[q] * room,
                          static_cast<double>(spec_.layout.rows[static_cast<size_t>(s)]));
  }
  for (double& n : rows) n *= options_.exchanged_share;
  return rows;
}

int64_t ShardedSteps::likely_capacity() const {
  const auto rows = likely_rows(kRoom);
  const double likely =
      *std::max_element(rows.begin(), rows.end()) + static_cast<double>(kLeastRoom);
  const auto most = static_cast<double>(max_batch_ * spec_.layout.columns());
  return static_cast<int64_t>(std::ceil(std::min(likely, most)));
}

// By an exchange of a list for each rank: `header` bytes, then `row` for each row that is wanted.
plan::SentBytes ShardedSteps::sends(int64_t header, int64_t row, bool to_owners) const {
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

void ShardedSteps::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  if (spec_.whole_gradients) whole_.declare(buffers);
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
  return routing + hashed + 2 * n * (header_ + capacity_) * 4 + 2 * n * capacity_ * row_bytes;
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

void ShardedSteps::exchange_keys(const Exec& exec, const TablesIo& io) {
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
  needed_ = longest;
  if (!fits()) *buffers_->data<int32_t>(io.overflow) = 1;
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
void ShardedSteps::exchange_vectors(const Exec& exec, bool to_owners) {
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

std::vector<comm::StepTraffic> ShardedSteps::traffic() const {
  return {{spec_.name + ".keys_exchange", keys_exchange_->traffic()},
          {spec_.name + ".rows_exchange", rows_exchange_->traffic()},
          {spec_.name + ".grads_exchange", grads_exchange_->traffic()}};
}

template <typename T>
View<T, 3> ShardedSteps::vectors(plan::BufferId id, int64_t batch) const {
  return {buffers_->data<T>(id), batch, spec_.layout.slots(), spec_.layout.width};
}

// The CPU's types: HashedIndex and the rest of a sharded layer run nowhere else.
template <typename F>
static void with_cpu_type(FloatType type, F&& f) {
  HLITE_CHECK(type != FloatType::kFp16, "tables of several ranks: fp16");
  if (type == FloatType::kBf16)
    f.template operator()<bf16>();
  else
    f.template operator()<float>();
}

void ShardedSteps::pool(const plan::StepContext& c, const TablesIo& io) {
  with_cpu_type(type_, [&]<typename T>() {
    pool_rows(c.exec, *routing_, block(listed_rows_, 0, ranks_.ranks() * capacity_),
              storage_.copied().w, vectors<T>(io.output, c.batch));
  });
}

void ShardedSteps::reduce(const plan::StepContext& c, const TablesIo& io) {
  with_cpu_type(type_, [&]<typename T>() {
    reduce_gradients<T>(c.exec, *routing_, vectors<T>(io.grad, c.batch),
                        block(listed_rows_, 0, ranks_.ranks() * capacity_), copied_gradients(),
                        touched());
  });
}

void ShardedSteps::add(plan::Plan& plan, plan::Step step) {
  step.name = spec_.name + step.name;
  step.run = [this, run = std::move(step.run)](const plan::StepContext& c) {
    if (fits()) run(c);
  };
  plan.add(std::move(step));
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
                  c.exec, {buffers_->data<uint32_t>(io.keys), c.batch, spec_.layout.keys.columns},
                  capacity_);
            }});
  plan.add({.name = spec_.name + ".keys_exchange",
            .lane = Lane::kComm,
            .reads = {lists_},
            .writes = {wanted_, io.overflow},
            .run = [this, io](const StepContext& c) { exchange_keys(c.exec, io); },
            .sends = sends(header_ * 4, 4, true)});
  if (index_ && io.training) {
    std::vector<plan::BufferId> changed = storage_.own_buffers();
    changed.push_back(wanted_);
    add(plan, {.name = ".insert",
               .lane = Lane::kEmbedding,
               .reads = changed,
               .writes = changed,
               .run = [this](const StepContext&) { insert(); }});
  }
  add(plan,
      {.name = ".gather",
       .lane = Lane::kEmbedding,
       .reads = {wanted_, storage_.own_weights()},
       .writes = {outgoing_},
       .run = [this, training = io.training](const StepContext& c) { gather(c.exec, training); }});
  add(plan, {.name = ".rows_exchange",
             .lane = Lane::kComm,
             .reads = {lists_, wanted_, outgoing_},
             .writes = {incoming_},
             .run = [this](const StepContext& c) { exchange_vectors(c.exec, false); },
             .sends = sends(0, spec_.layout.width * kFloatBytes, false)});
  add(plan, {.name = ".pool",
             .lane = Lane::kEmbedding,
             .reads = {lists_, incoming_, storage_.copied_weights()},
             .writes = {io.output},
             .run = [this, io](const StepContext& c) { pool(c, io); }});
}

void ShardedSteps::emit_backward(plan::Plan& plan, const TablesIo& io) {
  std::vector<plan::BufferId> reduced = {incoming_};
  if (copied_gradients_ != plan::kNoBuffer) reduced.push_back(copied_gradients_);
  add(plan, {.name = ".reduce",
             .lane = plan::Lane::kEmbedding,
             .reads = {io.grad, lists_},
             .writes = reduced,
             .run = [this, io](const plan::StepContext& c) { reduce(c, io); }});
  add(plan, {.name = ".grads_exchange",
             .lane = plan::Lane::kComm,
             .reads = {lists_, wanted_, incoming_},
             .writes = {outgoing_},
             .run = [this](const plan::StepContext& c) { exchange_vectors(c.exec, true); },
             .sends = sends(0, spec_.layout.width * kFloatBytes, true)});
  if (!spec_.whole_gradients) return;
  whole_.emit_clear(plan);
  add(plan, {.name = ".gradients",
             .lane = plan::Lane::kEmbedding,
             .reads = {wanted_, outgoing_, whole_.gradients()},
             .writes = {whole_.gradients()},
             .run = [this](const plan::StepContext& c) {
               update(c.exec,
                      {.rule = WholeTableUpdate::sum_rule(), .lr = WholeTableUpdate::kSumRate},
                      whole_.summed());
             }});
}

std::vector<WholeGradients> ShardedSteps::whole_gradients() const {
  if (!spec_.whole_gradients) return {};
  std::vector<WholeGradients> list = {whole_.of_own_rows()};
  if (storage_.copied_rows() > 0)
    list.push_back({.weights = storage_.copied_weights(),
                    .gradients = copied_gradients_,
                    .count = storage_.copied_rows() * spec_.layout.width,
                    .copied = true});
  return list;
}

RowStep ShardedSteps::step_of(const TablesIo& io) const {
  return {.rule = spec_.rule,
          .sweep = spec_.update_type == optimizer::UpdateType::kGlobal,
          .lr = *buffers_->data<float>(io.rate),
          .step = *buffers_->data<int64_t>(io.step)};
}

void ShardedSteps::update(const Exec& exec, const RowStep& step, const UpdatedRows& rows) {
  for (int q = 0; q < ranks_.ranks(); ++q) {
    const auto gradients = block(owned_rows_, q * capacity_, std::ssize(wanted(q)));
    row_gradients_[static_cast<size_t>(q)] =
        index_ ? RowGradients{wanted_rows_.ascending(q), gradients, wanted_rows_.order(q)}
               : RowGradients{wanted(q), gradients};
  }
  update_rows(exec, step, row_gradients_, rows);
}

void ShardedSteps::emit_update(plan::Plan& plan, const TablesIo& io) {
  if (spec_.whole_gradients) {
    for (const WholeGradients& of : whole_gradients())
      whole_.emit_update(
          plan, io, of.copied ? ".update_copied" : ".update", of,
          [this, copied = of.copied] { return copied ? storage_.copied() : storage_.own(); });
    return;
  }
  // Of any layer's exchange the overflow: then no update counts.
  const auto add_update = [&](const char* name, const std::vector<plan::BufferId>& rows,
                              std::vector<plan::BufferId> reads, auto&& run) {
    reads.insert(reads.end(), {io.rate, io.step, io.overflow});
    reads.insert(reads.end(), rows.begin(), rows.end());
    add(plan, {.name = name,
               .lane = plan::Lane::kEmbedding,
               .reads = reads,
               .writes = rows,
               .run = [this, io, run](const plan::StepContext& c) {
                 if (!gradient_scale(*buffers_, io).skips()) run(c);
               }});
  };
  add_update(
      ".update", storage_.own_buffers(), {wanted_, outgoing_},
      [this, io](const plan::StepContext& c) { update(c.exec, step_of(io), storage_.own()); });
  if (storage_.copied_rows() == 0) return;
  add_update(".update_copied", storage_.copied_buffers(), {copied_gradients_},
             [this, io](const plan::StepContext& c) {
               update_copied(c.exec, step_of(io), copied_gradients(), touched(), storage_.copied());
             });
}

}  // namespace hlite::embedding
