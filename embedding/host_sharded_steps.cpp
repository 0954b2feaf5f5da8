#include "embedding/host_sharded_steps.h"

#include <algorithm>
#include <cstring>

#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::embedding {

static constexpr int64_t kLongest = 2;          // words of a header: the sender's longest list
static constexpr int64_t kConverted = 1 << 16;  // values that are worth a task

HostShardedSteps::HostShardedSteps(const TablesSpec& spec, const TableStorage& storage,
                                   HashedIndex* index, const TablesPlace& place)
    : ShardedSteps(spec, storage, place, kLongest + (index ? spec.layout.slots() : 0)),
      index_(index),
      wanted_rows_(place.ranks.ranks()) {}

int64_t HostShardedSteps::workspace_bytes() const {
  const int64_t n = ranks().ranks(), lookups = place().max_batch * spec().layout.columns();
  const int64_t row_bytes = spec().layout.width * static_cast<int64_t>(sizeof(float));
  const int64_t routing =
      lookups * (8 + 4 + 4 + static_cast<int64_t>(sizeof(KeyRouting::Distinct))) +
      place().threads * place().max_batch * spec().layout.most_hotness() * 8;
  const int64_t gathered = place().gathers_keys ? routing : 0;
  const int64_t hashed = index_ ? n * capacity() * (3 * 4 + 8) : 0;
  const int64_t narrow = narrow_wire() ? 2 * n * capacity() * wire_row_bytes() : 0;
  return routing + gathered + hashed + 2 * n * (header() + capacity()) * 4 +
         2 * n * capacity() * row_bytes + narrow;
}

void HostShardedSteps::prepare() {
  routing_ =
      std::make_unique<KeyRouting>(*storage().placement(), place().max_batch, place().threads);
  if (place().gathers_keys)
    others_routing_ =
        std::make_unique<KeyRouting>(*storage().placement(), place().max_batch, place().threads);
  allocate();
}

void HostShardedSteps::route(const plan::StepContext& c, const TablesIo& io) {
  routing_->route(c.exec, {buffers().data<uint32_t>(io.keys), c.batch, spec().layout.keys.columns},
                  capacity());
}

void HostShardedSteps::allocate() {
  const auto n = static_cast<size_t>(ranks().ranks()), room = static_cast<size_t>(capacity());
  const size_t row_bytes = static_cast<size_t>(spec().layout.width) * sizeof(float);
  const size_t list_words = static_cast<size_t>(header()) + room;
  key_send_ = HostMemory(n * list_words * 4, "lists of wanted rows");
  key_receive_ = HostMemory(n * list_words * 4, "lists of wanted rows");
  owned_rows_ = HostMemory(n * room * row_bytes, "rows for other ranks");
  listed_rows_ = HostMemory(n * room * row_bytes, "rows of other ranks");
  if (narrow_wire()) {
    const size_t bytes = n * room * static_cast<size_t>(wire_row_bytes());
    narrow_send_ = HostMemory(bytes, "rows for other ranks");
    narrow_receive_ = HostMemory(bytes, "rows of other ranks");
  }
  send_bytes_.resize(n);
  received_bytes_.resize(n);
  wanted_count_.resize(n);
  row_gradients_.resize(n);
}

Matrix<float> HostShardedSteps::block(const HostMemory& memory, int64_t first, int64_t rows) const {
  return {reinterpret_cast<float*>(memory.data()) + first * spec().layout.width, rows,
          spec().layout.width};
}

// What `rank` wants of this rank: rows, or keys of tables that are hashed.
std::span<const uint32_t> HostShardedSteps::wanted(int rank) const {
  const auto q = static_cast<size_t>(rank);
  const auto* words = reinterpret_cast<const uint32_t*>(key_receive_.data());
  return {words + q * static_cast<size_t>(header() + capacity()) + header(), wanted_count_[q]};
}

KeyList HostShardedSteps::wanted_keys(int rank) const {
  const auto slots = static_cast<size_t>(spec().layout.slots());
  return {{wanted(rank).data() - slots, slots}, wanted(rank)};
}

int64_t HostShardedSteps::longest_list(const KeyRouting& routing) const {
  int64_t longest = 0;
  for (int q = 0; q < ranks().ranks(); ++q)
    longest = std::max(longest, std::ssize(routing.list(q)));
  return longest;
}

int64_t HostShardedSteps::write_list(const KeyRouting& routing, int to, std::byte* block) const {
  const int64_t longest = longest_list(routing);
  const auto list = routing.list(to);
  std::memcpy(block, &longest, sizeof(longest));
  auto* counts = reinterpret_cast<uint32_t*>(block + sizeof(longest));
  for (int64_t s = 0, begin = routing.list_begin(to); s < header() - kLongest; ++s) {
    counts[s] = static_cast<uint32_t>(routing.list_end(s, to) - begin);
    begin = routing.list_end(s, to);
  }
  const size_t bytes = longest <= capacity() ? list.size_bytes() : 0;
  if (bytes > 0) std::memcpy(block + header() * 4, list.data(), bytes);
  return header() * 4 + static_cast<int64_t>(bytes);
}

void HostShardedSteps::take_lists(int64_t longest, const TablesIo& io) {
  const int64_t stride = (header() + capacity()) * 4;
  for (int q = 0; q < ranks().ranks(); ++q) {
    longest = std::max(longest, load<int64_t>(key_receive_.data() + q * stride));
    const int64_t bytes = received_bytes_[static_cast<size_t>(q)] - header() * 4;
    wanted_count_[static_cast<size_t>(q)] = static_cast<size_t>(bytes) / 4;
  }
  needed_ = longest;
  if (gives_up()) *buffers().data<int32_t>(io.overflow) = 1;
}

void HostShardedSteps::exchange_keys(const plan::StepContext& c, const TablesIo& io) {
  const int64_t stride = (header() + capacity()) * 4;
  for (int q = 0; q < ranks().ranks(); ++q)
    send_bytes_[static_cast<size_t>(q)] = write_list(*routing_, q, key_send_.data() + q * stride);
  exchanges().keys->all_to_all_v(c.exec, {key_send_.data(), send_bytes_.data(), key_receive_.data(),
                                          received_bytes_.data(), stride});
  take_lists(longest_list(*routing_), io);
}

// Of every rank, what it would have sent.
void HostShardedSteps::list_keys(const plan::StepContext& c, const TablesIo& io) {
  const int64_t stride = (header() + capacity()) * 4, columns = spec().layout.keys.columns;
  const auto* const keys = buffers().data<uint32_t>(io.all_keys);
  for (int q = 0; q < ranks().ranks(); ++q) {
    const bool own = q == ranks().rank;
    const auto [begin, end] = samples_of(q, c, io);
    if (!own)
      others_routing_->route(c.exec, {keys + begin * columns, end - begin, columns}, capacity());
    received_bytes_[static_cast<size_t>(q)] = write_list(
        own ? *routing_ : *others_routing_, ranks().rank, key_receive_.data() + q * stride);
  }
  take_lists(0, io);
}

void HostShardedSteps::insert(const plan::StepContext&, const TablesIo& io) {
  for (int q = 0; q < ranks().ranks(); ++q) wanted_rows_.want(q, wanted_keys(q), *index_);
  if (index_->full()) *buffers().data<int32_t>(io.overflow) = 1;
}

void HostShardedSteps::gather(const plan::StepContext& c, const TablesIo& io) {
  const Matrix<const float> own = storage().own().w;
  for (int q = 0; q < ranks().ranks(); ++q) {
    const auto out = block(owned_rows_, q * capacity(), std::ssize(wanted(q)));
    if (index_ && !io.training)
      look_up(c.exec, wanted_keys(q), out);
    else
      gather_rows(c.exec, own, index_ ? wanted_rows_.rows(q) : wanted(q), out);
  }
}

// Evaluation takes no rows: keys that training has not seen have their first values.
void HostShardedSteps::look_up(const Exec& exec, const KeyList& list, Matrix<float> out) const {
  const Matrix<const float> own = storage().own().w;
  std::vector<int64_t> end;  // of each slot in the list
  for (const uint32_t n : list.counts) end.push_back((end.empty() ? 0 : end.back()) + n);
  exec.threads().parallel_for(out.dim(0), 1 << 10, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t slot = std::upper_bound(end.begin(), end.end(), i) - end.begin();
      const uint32_t key = list.keys[static_cast<size_t>(i)];
      const int64_t row = index_->find(slot, key);
      if (row == KeyIndex::kAbsent)
        storage().first_values(slot, key, out.row(i));
      else
        std::copy_n(own.row(row), out.dim(1), out.row(i));
    }
  });
}

// Values [first, first + count) of `to` <- those of `from`, which are of the other type.
template <typename From, typename To>
static void convert(const Exec& exec, const HostMemory& from, const HostMemory& to, int64_t first,
                    int64_t count) {
  const From* const in = reinterpret_cast<const From*>(from.data()) + first;
  To* const out = reinterpret_cast<To*>(to.data()) + first;
  exec.threads().parallel_for(count, kConverted, [&](int64_t begin, int64_t end) {
    wide([&] {
      if constexpr (std::is_same_v<From, float>)
        narrow(in + begin, end - begin, out + begin);
      else
        widen(in + begin, end - begin, out + begin);
    });
  });
}

void HostShardedSteps::exchange_vectors(const plan::StepContext& c, bool to_owners) {
  const int64_t row_bytes = wire_row_bytes(), block = capacity() * spec().layout.width;
  const auto bytes_of = [&](int q, bool owned) {
    return row_bytes * (owned ? std::ssize(wanted(q)) : std::ssize(routing_->list(q)));
  };
  for (int q = 0; q < ranks().ranks(); ++q)
    send_bytes_[static_cast<size_t>(q)] = bytes_of(q, !to_owners);
  const HostMemory &out = to_owners ? listed_rows_ : owned_rows_,
                   &in = to_owners ? owned_rows_ : listed_rows_,
                   &send = narrow_wire() ? narrow_send_ : out,
                   &receive = narrow_wire() ? narrow_receive_ : in;
  for (int q = 0; q < ranks().ranks() && narrow_wire(); ++q)
    convert<float, bf16>(c.exec, out, send, q * block, bytes_of(q, !to_owners) / 2);
  (to_owners ? exchanges().grads : exchanges().rows)
      ->all_to_all_v(c.exec, {send.data(), send_bytes_.data(), receive.data(),
                              received_bytes_.data(), capacity() * row_bytes});
  for (int q = 0; q < ranks().ranks(); ++q) {
    const int64_t got = received_bytes_[static_cast<size_t>(q)], expected = bytes_of(q, to_owners);
    HLITE_CHECK(got == expected, "{}: {} bytes from rank {}, expected {}", spec().name, got, q,
                expected);
    if (narrow_wire()) convert<bf16, float>(c.exec, receive, in, q * block, got / 2);
  }
}

std::vector<comm::StepTraffic> HostShardedSteps::traffic() const {
  return traffic_of(exchanges().keys->traffic(), exchanges().rows->traffic(),
                    exchanges().grads->traffic());
}

// The CPU's types.
template <typename F>
static void with_cpu_type(FloatType type, F&& f) {
  HLITE_CHECK(type != FloatType::kFp16, "tables of several ranks: fp16");
  if (type == FloatType::kBf16)
    f.template operator()<bf16>();
  else
    f.template operator()<float>();
}

void HostShardedSteps::pool(const plan::StepContext& c, const TablesIo& io) {
  with_cpu_type(place().type, [&]<typename T>() {
    pool_rows(c.exec, *routing_, block(listed_rows_, 0, ranks().ranks() * capacity()),
              storage().copied().w, vectors<T>(io.output, c.batch));
  });
}

void HostShardedSteps::reduce(const plan::StepContext& c, const TablesIo& io) {
  with_cpu_type(place().type, [&]<typename T>() {
    reduce_gradients<T>(c.exec, *routing_, vectors<T>(io.grad, c.batch),
                        block(listed_rows_, 0, ranks().ranks() * capacity()), copied_gradients(),
                        touched());
  });
}

RowStep HostShardedSteps::step_of(const TablesIo& io) const {
  return {.rule = spec().rule,
          .sweep = global_update(),
          .lr = *buffers().data<float>(io.rate),
          .step = *buffers().data<int64_t>(io.step)};
}

void HostShardedSteps::update(const Exec& exec, const RowStep& step, const UpdatedRows& rows) {
  for (int q = 0; q < ranks().ranks(); ++q) {
    const auto gradients = block(owned_rows_, q * capacity(), std::ssize(wanted(q)));
    row_gradients_[static_cast<size_t>(q)] =
        index_ ? RowGradients{wanted_rows_.ascending(q), gradients, wanted_rows_.order(q)}
               : RowGradients{wanted(q), gradients};
  }
  update_rows(exec, step, row_gradients_, rows);
}

void HostShardedSteps::update(const plan::StepContext& c, const TablesIo& io) {
  if (!gradient_scale(buffers(), io).skips()) update(c.exec, step_of(io), storage().own());
}

void HostShardedSteps::sum_gradients(const plan::StepContext& c, const TablesIo&) {
  update(c.exec, {.rule = WholeTableUpdate::sum_rule(), .lr = WholeTableUpdate::kSumRate},
         whole().summed());
}

void HostShardedSteps::update_copied(const plan::StepContext& c, const TablesIo& io) {
  if (!gradient_scale(buffers(), io).skips())
    embedding::update_copied(c.exec, step_of(io), copied_gradients(), touched(),
                             storage().copied());
}

}  // namespace hlite::embedding
