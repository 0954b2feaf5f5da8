#include "embedding/sharded_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hugectr_lite/comm/expected_traffic.h"

namespace hlite::embedding {
namespace {

constexpr double kRoom = 1.25;        // beyond what is likely
constexpr int64_t kLeastRoom = 1024;  // rows

}  // namespace

using plan::StepContext;

ShardedSteps::ShardedSteps(const TablesSpec& spec, const TableStorage& storage,
                           const TablesPlace& place, int64_t header)
    : spec_(spec),
      storage_(storage),
      place_(place),
      marks_(spec_.update_type != optimizer::UpdateType::kGlobal &&
             optimizer::moves_without_gradient(spec_.rule.type)),
      header_(header),
      capacity_(place.exchange.capacity > 0 ? place.exchange.capacity : likely_capacity()),
      exchanges_{.keys = place.ranks.make_communicator(place.exchange.route),
                 .rows = place.ranks.make_communicator(place.exchange.route),
                 .grads = place.ranks.make_communicator(place.exchange.route)},
      whole_(spec, storage) {}

// [ranks] rows that a rank may want of each with a full batch, times `room`: its lookups, spread as
// the placement spreads them.
std::vector<double> ShardedSteps::likely_rows(double room) const {
  std::vector<double> rows(static_cast<size_t>(place_.ranks.ranks()), 0.0);
  for (int64_t s = 0; s < spec_.layout.slots(); ++s) {
    const auto n = static_cast<double>(place_.max_batch * spec_.layout.hotness(s));
    const auto share = storage_.placement()->key_share(s);
    for (size_t q = 0; q < share.size(); ++q)
      rows[q] += std::min(n * share[q] * room,
                          static_cast<double>(spec_.layout.rows[static_cast<size_t>(s)]));
  }
  for (double& n : rows) n *= place_.exchange.exchanged_share;
  return rows;
}

int64_t ShardedSteps::likely_capacity() const {
  const auto rows = likely_rows(kRoom);
  const double likely =
      *std::max_element(rows.begin(), rows.end()) + static_cast<double>(kLeastRoom);
  const auto most = static_cast<double>(place_.max_batch * spec_.layout.columns());
  return static_cast<int64_t>(std::ceil(std::min(likely, most)));
}

// The same without room: as many as are distinct, where that is known.
std::vector<double> ShardedSteps::expected_rows() const {
  if (place_.rows_per_lookup == 0) return likely_rows(1);
  std::vector<double> rows(static_cast<size_t>(place_.ranks.ranks()), 0.0);
  for (int64_t s = 0; s < spec_.layout.slots(); ++s) {
    const auto n = static_cast<double>(place_.max_batch * spec_.layout.hotness(s));
    const auto share = storage_.placement()->key_share(s);
    for (size_t q = 0; q < share.size(); ++q)
      rows[q] += n * share[q] * place_.exchange.exchanged_share * place_.rows_per_lookup;
  }
  return rows;
}

ShardedSteps::MovedBytes ShardedSteps::moved_bytes() const {
  const auto rows = expected_rows();
  const auto batch = static_cast<double>(place_.max_batch),
             columns = static_cast<double>(spec_.layout.columns()),
             row = static_cast<double>(spec_.layout.width * kFloatBytes),
             vectors = static_cast<double>(spec_.layout.slots() * spec_.layout.width *
                                           float_type_bytes(place_.type)),
             copied_rows = static_cast<double>(storage_.copied_rows());
  // A sample's: rows that this rank wants, that all ranks want of it, and copies that it reads.
  const double wanted = std::accumulate(rows.begin(), rows.end(), 0.0) / batch,
               owned = rows[static_cast<size_t>(place_.ranks.rank)] * place_.ranks.ranks() / batch,
               copies =
                   std::min(copied_rows / batch, columns * (1 - place_.exchange.exchanged_share)),
               updated = 2.0 * static_cast<double>(storage_.own_buffers().size());
  return {.route = columns * (4 + 4 * 16 + 8),  // keys, their sort to and fro, where they go
          .gather = owned * (2 * row + 4),
          .pool = (wanted + copies) * row + columns * 4 + vectors,
          .reduce = vectors + wanted * row + 2 * copied_rows * row / batch,
          .update = owned * row * (1 + updated),
          .update_copied = copied_rows * row * (1 + updated) / batch};
}

// By an exchange of a list for each rank: `header` bytes, then `row` for each row that is wanted.
plan::SentBytes ShardedSteps::sends(int64_t header, int64_t row, bool to_owners) const {
  const auto rows = expected_rows();
  const auto by_route = [&](auto&& bytes_of_pair) {
    return comm::all_to_all_bytes(*place_.ranks.topology, place_.ranks.rank, place_.exchange.route,
                                  bytes_of_pair);
  };
  const auto always = by_route([&](int, int) {
    return static_cast<double>(header + comm::size_bytes(place_.exchange.route));
  });
  const auto sample = by_route([&](int from, int to) {
    const double wanted = rows[static_cast<size_t>(to_owners ? to : from)];
    return static_cast<double>(row) * wanted / static_cast<double>(place_.max_batch);
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
  if (place_.gpu) sorted_ = token(".sorted");
}

int64_t ShardedSteps::copied_gradient_bytes() const {
  return storage_.copied_rows() * (spec_.layout.width + (marks_ ? 1 : 0)) *
         static_cast<int64_t>(sizeof(float));
}

std::string ShardedSteps::grow() {
  const int64_t wanted = needed();
  if (wanted <= capacity_) return {};
  const int64_t before = capacity_, most = place_.max_batch * spec_.layout.columns();
  capacity_ =
      std::min(most, std::max(wanted, static_cast<int64_t>(static_cast<double>(wanted) * kRoom)));
  allocate();
  return fmt::format("{}: {} rows wanted of one rank, room for {}; run again with room for {}",
                     spec_.name, wanted, before, capacity_);
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

std::vector<comm::StepTraffic> ShardedSteps::traffic_of(const comm::TrafficTotals& keys,
                                                        const comm::TrafficTotals& rows,
                                                        const comm::TrafficTotals& grads) const {
  std::vector<comm::StepTraffic> list = {{spec_.name + ".rows_exchange", rows},
                                         {spec_.name + ".grads_exchange", grads}};
  if (!place_.gathers_keys) list.insert(list.begin(), {spec_.name + ".keys_exchange", keys});
  return list;
}

std::pair<int64_t, int64_t> ShardedSteps::samples_of(int rank, const StepContext& c,
                                                     const TablesIo& io) const {
  const int64_t all = c.mean_over(), room = samples_of_rank(io);
  return {std::min(all, rank * room), std::min(all, (rank + 1) * room)};
}

void ShardedSteps::add(plan::Plan& plan, plan::Step step) {
  step.name = spec_.name + step.name;
  step.run = [this, run = std::move(step.run)](const StepContext& c) {
    if (!gives_up()) run(c);
  };
  plan.add(std::move(step));
}

void ShardedSteps::emit_lists(plan::Plan& plan, const TablesIo& io, double routed_bytes) {
  if (place_.gathers_keys) {
    plan.add({.name = spec_.name + ".lists",
              .lane = plan::Lane::kEmbedding,
              .reads = {lists_, io.all_keys},
              .writes = {wanted_, io.overflow},
              .run = [this, io](const StepContext& c) { list_keys(c, io); },
              .bytes_per_sample = routed_bytes * place_.ranks.ranks()});
    return;
  }
  plan.add({.name = spec_.name + ".keys_exchange",
            .lane = plan::Lane::kComm,
            .reads = {lists_},
            .writes = {wanted_, io.overflow},
            .run = [this, io](const StepContext& c) { exchange_keys(c, io); },
            .sends = sends(header_ * 4, 4, true)});
}

void ShardedSteps::emit_forward(plan::Plan& plan, const TablesIo& io) {
  const MovedBytes moved = moved_bytes();
  plan.add({.name = spec_.name + ".route",
            .lane = plan::Lane::kEmbedding,
            .reads = {io.keys},
            .writes = {lists_},
            .run = [this, io](const StepContext& c) { route(c, io); },
            .bytes_per_sample = moved.route});
  emit_lists(plan, io, moved.route);
  if (spec_.hash_capacity > 0 && io.training) {
    std::vector<plan::BufferId> changed = storage_.own_buffers();
    changed.insert(changed.end(), {wanted_, io.overflow});
    add(plan, {.name = ".insert",
               .lane = plan::Lane::kEmbedding,
               .reads = changed,
               .writes = changed,
               .run = [this, io](const StepContext& c) { insert(c, io); }});
  }
  add(plan, {.name = ".gather",
             .lane = plan::Lane::kEmbedding,
             .reads = {wanted_, storage_.own_weights()},
             .writes = {outgoing_},
             .run = [this, io](const StepContext& c) { gather(c, io); },
             .bytes_per_sample = moved.gather});
  add(plan, {.name = ".rows_exchange",
             .lane = plan::Lane::kComm,
             .reads = {lists_, wanted_, outgoing_},
             .writes = {incoming_},
             .run = [this](const StepContext& c) { exchange_vectors(c, false); },
             .sends = sends(0, wire_row_bytes(), false)});
  add(plan, {.name = ".pool",
             .lane = plan::Lane::kEmbedding,
             .reads = {lists_, incoming_, storage_.copied_weights()},
             .writes = {io.output},
             .run = [this, io](const StepContext& c) { pool(c, io); },
             .bytes_per_sample = moved.pool});
}

void ShardedSteps::emit_backward(plan::Plan& plan, const TablesIo& io) {
  if (spec_.whole_gradients) whole_.emit_clear(plan);
  if (place_.gpu) {  // needs no gradients: beside what makes them
    add(plan, {.name = ".sort",
               .lane = plan::Lane::kEmbedding,
               .reads = {lists_, wanted_, rate_of(io), io.step},
               .writes = {sorted_},
               .run = [this, io](const StepContext& c) { sort(c, io); }});
  }
  const plan::BufferId scale = spec_.whole_gradients ? io.loss_scale : plan::kNoBuffer;
  add(plan, {.name = ".reduce",
             .lane = plan::Lane::kEmbedding,
             .reads = plan::present({io.grad, lists_, sorted_, scale}),
             .writes = plan::present({incoming_, copied_gradients_}),
             .run = [this, io](const StepContext& c) { reduce(c, io); },
             .bytes_per_sample = moved_bytes().reduce});
  add(plan, {.name = ".grads_exchange",
             .lane = plan::Lane::kComm,
             .reads = {lists_, wanted_, incoming_},
             .writes = {outgoing_},
             .run = [this](const StepContext& c) { exchange_vectors(c, true); },
             .sends = sends(0, wire_row_bytes(), true)});
  if (!spec_.whole_gradients) return;
  add(plan, {.name = ".gradients",
             .lane = plan::Lane::kEmbedding,
             .reads = plan::present(
                 {wanted_, outgoing_, whole_.gradients(), io.overflow, sorted_, io.loss_scale}),
             .writes = {whole_.gradients()},
             .run = [this, io](const StepContext& c) { sum_gradients(c, io); }});
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

void ShardedSteps::add_update(plan::Plan& plan, plan::Step step, const TablesIo& io) {
  step.lane = plan::Lane::kEmbedding;
  step.reads.insert(step.reads.end(), {io.rate, io.step, io.overflow, io.loss_scale, sorted_});
  step.reads.insert(step.reads.end(), step.writes.begin(), step.writes.end());
  step.reads = plan::present(std::move(step.reads));
  add(plan, std::move(step));
}

void ShardedSteps::emit_update(plan::Plan& plan, const TablesIo& io) {
  if (spec_.whole_gradients) {
    for (const WholeGradients& of : whole_gradients()) whole_.emit_update(plan, io, of);
    return;
  }
  const MovedBytes moved = moved_bytes();
  add_update(plan,
             {.name = ".update",
              .reads = {wanted_, outgoing_},
              .writes = storage_.own_buffers(),
              .run = [this, io](const StepContext& c) { update(c, io); },
              .bytes_per_sample = moved.update},
             io);
  if (storage_.copied_rows() == 0) return;
  add_update(plan,
             {.name = ".update_copied",
              .reads = {copied_gradients_},
              .writes = storage_.copied_buffers(),
              .run = [this, io](const StepContext& c) { update_copied(c, io); },
              .bytes_per_sample = moved.update_copied},
             io);
}

}  // namespace hlite::embedding
