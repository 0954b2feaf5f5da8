#include "embedding/gpu_sharded_steps.h"

#include <algorithm>

#include "embedding/gathered_lists.h"
#include "embedding/lookup.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {

using plan::StepContext;

GpuShardedSteps::GpuShardedSteps(const TablesSpec& spec, const TableStorage& storage,
                                 HashedIndex* index, const TablesPlace& place)
    : ShardedSteps(spec, storage, place, kListHeader + (index ? spec.layout.slots() : 0)),
      index_(index),
      exec_(place.exec()),
      copied_capacity_(std::min(storage.copied_rows(), place.max_batch * spec.layout.columns())) {}

PoolShape GpuShardedSteps::shape() const {
  return {.ranks = ranks().ranks(),
          .capacity = capacity(),
          .copied_capacity = copied_capacity_,
          .width = spec().layout.width,
          .value_bytes = wire_row_bytes() / spec().layout.width,
          .hashed_slots = header() - kListHeader};
}
WantedLists GpuShardedSteps::lists() const {
  WantedLists lists = fixed_.lists;
  lists.blocks = growing_.sent_lists;
  return lists;
}
AskedRows GpuShardedSteps::asked() const {
  AskedRows asked = fixed_.asked;
  asked.rows = growing_.asked;
  asked.keys = growing_.listed_keys;
  asked.slots = growing_.listed_slots;
  return asked;
}
Matrix<uint32_t> GpuShardedSteps::entries(int64_t batch) const {
  return {fixed_.entries, batch, spec().layout.keys.columns};
}
Matrix<float> GpuShardedSteps::pool_rows() const {
  return {growing_.pool, shape().rows(), spec().layout.width};
}
Matrix<float> GpuShardedSteps::owned_rows() const {
  return {growing_.owned, shape().listed_rows(), spec().layout.width};
}
Matrix<float> GpuShardedSteps::listed_rows() const {
  return pool_rows().rows(0, shape().listed_rows());
}
// As a batch of one slot, a sample a row that any rank may ask for.
Matrix<uint32_t> GpuShardedSteps::asked_rows() const {
  return {growing_.asked, shape().listed_rows(), 1};
}
HashedArgs GpuShardedSteps::asked_list() const {
  return {.slots = asked_slots_->ref(),
          .keys = {growing_.listed_keys, shape().listed_rows(), 1},
          .rows = asked_rows(),
          .listed_slots = growing_.listed_slots,
          .all_slots = static_cast<int32_t>(spec().layout.slots())};
}
int64_t GpuShardedSteps::insertion_bytes() const {
  return index_ ? index_->list_workspace(shape().listed_rows()) : 0;
}
SlotLayout GpuShardedSteps::pool_layout() const { return spec().layout.pooled(shape().rows()); }
SlotLayout GpuShardedSteps::asked_layout() const {
  SlotLayout layout({std::max<int64_t>(1, storage().own_rows())}, spec().layout.width);
  layout.complete = false;
  return layout;
}

// The pool's rows are 0, and move by their gradients.
SparseUpdateOptions GpuShardedSteps::reduction() const {
  return {.rule = {.type = optimizer::OptimizerType::kSgd}, .max_batch = place().train_batch};
}
SparseUpdateOptions GpuShardedSteps::merging() const {
  const bool whole = spec().whole_gradients;
  return {.rule = whole ? WholeTableUpdate::sum_rule() : spec().rule,
          .type = whole ? optimizer::UpdateType::kLocal : spec().update_type,
          .max_batch = shape().listed_rows()};
}

GpuShardedSteps::Fixed GpuShardedSteps::cut_fixed(Cutter& cutter) const {
  const int64_t n = ranks().ranks(), columns = spec().layout.keys.columns;
  Fixed f{};
  f.counts = cutter.cut<PeerCounts>(n);  // at the front: they begin as 0
  f.asked.needed = cutter.cut<int64_t>(1);
  f.entries = cutter.cut<uint32_t>(place().max_batch * columns);
  f.lists.list_bytes = cutter.cut<int64_t>(n);
  f.lists.vector_bytes = cutter.cut<int64_t>(n);
  f.lists.copied = cutter.cut<uint32_t>(copied_capacity_);
  f.lists.counts = cutter.cut<uint32_t>(n + 1);
  f.asked.counts = cutter.cut<uint32_t>(n);
  f.asked.vector_bytes = cutter.cut<int64_t>(n);
  f.received_bytes = cutter.cut<int64_t>(n);
  f.ignored_bytes = cutter.cut<int64_t>(n);
  f.minus_one = cutter.cut<float>(1);
  f.scalars = cutter.cut<optimizer::StepScalars>(2);
  f.routing = cutter.cut<std::byte>(static_cast<int64_t>(routing_bytes_));
  f.gathered = cutter.cut<std::byte>(static_cast<int64_t>(gathered_bytes_));
  return f;
}

GpuShardedSteps::Growing GpuShardedSteps::cut_growing(Cutter& cutter) const {
  const PoolShape pool = shape();
  Growing g{};
  g.sent_lists = cutter.cut<uint32_t>(pool.ranks * pool.block_words());
  g.got_lists = cutter.cut<uint32_t>(pool.ranks * pool.block_words());
  g.asked = cutter.cut<uint32_t>(pool.listed_rows());
  const int64_t keys = index_ ? pool.listed_rows() : 0;
  g.listed_keys = cutter.cut<uint32_t>(keys);
  g.listed_slots = cutter.cut<uint32_t>(keys);
  g.insertion = cutter.cut<std::byte>(insertion_bytes());
  g.owned = cutter.cut<float>(pool.listed_rows() * pool.width);
  g.pool = cutter.cut<float>(pool.rows() * pool.width);
  const int64_t narrow = narrow_wire() ? pool.listed_rows() * pool.width : 0;
  g.narrow_sent = cutter.cut<bf16>(narrow);
  g.narrow_got = cutter.cut<bf16>(narrow);
  return g;
}

int64_t GpuShardedSteps::workspace_bytes() const {
  Cutter cutter(nullptr);
  (void)cut_fixed(cutter);
  (void)cut_growing(cutter);
  const int64_t lookups = place().max_batch * spec().layout.columns();
  const int64_t all = place().gathers_keys ? lookups * ranks().ranks() : 0;
  int64_t routing = 30 * lookups + 34 * all;
  if (kernels::routing_workspace.is_in(*exec_.cuda)) {
    routing = static_cast<int64_t>(kernels::routing_workspace(exec_, lookups, kNoRow));
    if (all > 0) routing += static_cast<int64_t>(kernels::gathered_workspace(exec_, all, kNoRow));
  }
  const auto update = [&](const SlotLayout& layout, const SparseUpdateOptions& how) {
    return SparseUpdate::workspace_bytes(exec_, DeviceSlots::numbers(exec_, layout), how);
  };
  return static_cast<int64_t>(cutter.bytes()) + routing + update(pool_layout(), reduction()) +
         (owns() ? update(asked_layout(), merging()) : 0);
}

void GpuShardedSteps::prepare() {
  HLITE_CHECK(ranks().ranks() <= kMostListed, "{} GPUs, lists for {}", ranks().ranks(),
              kMostListed);
  placement_ = std::make_unique<DevicePlacement>(exec_, *storage().placement());
  // Keys whose rows come as they come are not held against tables, which have no sizes then.
  const SlotLayout& layout = spec().layout;
  slots_ =
      std::make_unique<DeviceSlots>(exec_, index_ ? layout.pooled(storage().own_rows()) : layout);
  if (!index_)
    for (auto* const errors : {&train_errors_, &eval_errors_})
      *errors = std::make_unique<KeyErrors>(exec_, layout.keys.columns);
  routing_bytes_ = kernels::routing_workspace(exec_, place().max_batch * layout.columns(),
                                              placement_->ref().numbers);
  if (place().gathers_keys)
    gathered_bytes_ = kernels::gathered_workspace(
        exec_, place().max_batch * ranks().ranks() * layout.columns(), placement_->ref().numbers);
  Cutter counting(nullptr);
  (void)cut_fixed(counting);
  fixed_memory_ = DeviceMemory(*exec_.cuda, counting.bytes());
  Cutter cutter(fixed_memory_.data());
  fixed_ = cut_fixed(cutter);
  exec_.cuda->zero(fixed_memory_.data(), fixed_memory_.size(), exec_.stream);
  const float minus_one = -1;
  put_bytes(exec_, fixed_.minus_one, &minus_one, sizeof(minus_one));
  allocate();
}

void GpuShardedSteps::allocate() {
  merge_ = nullptr;  // before more is taken
  reduce_ = nullptr;
  growing_memory_ = DeviceMemory();
  Cutter counting(nullptr);
  (void)cut_growing(counting);
  growing_memory_ = DeviceMemory(*exec_.cuda, counting.bytes());
  // What nobody has filled yet is read by runs that count for nothing.
  exec_.cuda->zero(growing_memory_.data(), growing_memory_.size(), exec_.stream);
  exec_.cuda->stream_synchronize(exec_.stream);
  Cutter cutter(growing_memory_.data());
  growing_ = cut_growing(cutter);
  pool_slots_ = std::make_unique<DeviceSlots>(exec_, pool_layout());
  reduce_ = std::make_unique<SparseUpdate>(exec_, pool_slots_->ref(), reduction());
  if (!owns()) return;
  asked_slots_ = std::make_unique<DeviceSlots>(exec_, asked_layout());
  merge_ = std::make_unique<SparseUpdate>(exec_, asked_slots_->ref(), merging());
}

int64_t GpuShardedSteps::needed() const {
  int64_t needed = 0;
  get_bytes(exec_, &needed, fixed_.asked.needed, sizeof(needed));
  return needed;
}

void GpuShardedSteps::route(const StepContext& c, const TablesIo& io) {
  // The step is counted behind the lookups: here it is that of the iteration before.
  KeyCheck check;
  if (!index_)
    check = io.training ? train_errors_->check(buffers().data<int64_t>(io.step))
                        : eval_errors_->check(nullptr);
  kernels::route_keys(
      c.exec, {.slots = slots_->ref(),
               .placement = placement_->ref(),
               .pool = shape(),
               .keys = {buffers().data<uint32_t>(io.keys), c.batch, spec().layout.keys.columns},
               .entries = entries(c.batch),
               .lists = lists(),
               .check = check,
               .workspace = fixed_.routing,
               .workspace_bytes = routing_bytes_});
}

// GPUs do not meet before an exchange of this class where an earlier one has said that nobody uses
// any more what it writes to (Blocks::free). An exchange ends with a wait for a signal of each
// rank; a rank gives it behind all that its lane comm had before, and behind all of its last run.
//
// Keys: go to got_lists, which only take_lists() reads, on lane comm. A rank's next signal is that
// of the same run's exchange of rows; this rank has waited for it in the run before this one.
//
// Rows: go to what the run before has used last. The signal in this run's exchange of keys, or
// keys_gather, is behind that run.
//
// Gradients: go to the rows that this run's exchange of rows has sent, which were read before the
// signal in that. But in 16 bits they go where rows came to, and a rank widens those behind its
// last signal: then they meet.
void GpuShardedSteps::exchange_keys(const StepContext& c, const TablesIo& io) {
  const auto bytes = [](uint32_t* words) { return reinterpret_cast<std::byte*>(words); };
  exchanges().keys->all_to_all_v(
      c.exec, {.send = bytes(growing_.sent_lists),
               .send_bytes = fixed_.lists.list_bytes,
               .receive = bytes(growing_.got_lists),
               .received_bytes = fixed_.received_bytes,
               .capacity = shape().block_words() * static_cast<int64_t>(sizeof(uint32_t)),
               .free = true});
  take_lists(c, io);
}

void GpuShardedSteps::list_keys(const StepContext& c, const TablesIo& io) {
  kernels::list_gathered(c.exec, {.slots = slots_->ref(),
                                  .placement = placement_->ref(),
                                  .pool = shape(),
                                  .rank = ranks().rank,
                                  .keys = {buffers().data<uint32_t>(io.all_keys), c.mean_over(),
                                           spec().layout.keys.columns},
                                  .samples_of_rank = samples_of_rank(io),
                                  .blocks = growing_.got_lists,
                                  .received_bytes = fixed_.received_bytes,
                                  .workspace = fixed_.gathered,
                                  .workspace_bytes = gathered_bytes_});
  take_lists(c, io);
}

// From the blocks that came.
void GpuShardedSteps::take_lists(const StepContext& c, const TablesIo& io) {
  kernels::take_lists(c.exec, {.pool = shape(),
                               .blocks = growing_.got_lists,
                               .received_bytes = fixed_.received_bytes,
                               .lists = lists(),
                               .asked = asked(),
                               .overflow = buffers().data<int32_t>(io.overflow),
                               .counts = fixed_.counts,
                               .training = io.training});
}

void GpuShardedSteps::insert(const StepContext& c, const TablesIo& io) {
  index_->insert_listed(c.exec, asked_list(),
                        {growing_.insertion, static_cast<size_t>(insertion_bytes())},
                        buffers().data<int32_t>(io.overflow));
}

void GpuShardedSteps::gather(const StepContext& c, const TablesIo& io) {
  if (!index_)
    return kernels::gather_listed(c.exec, storage().own().w,
                                  {growing_.asked, shape().listed_rows()}, nullptr, owned_rows());
  const HashedArgs list = asked_list();
  if (!io.training) index_->find_listed(c.exec, list);
  index_->gather_listed(c.exec, list, owned_rows());
}

void GpuShardedSteps::exchange_vectors(const StepContext& c, bool to_owners) {
  const auto bytes = [](auto* values) { return reinterpret_cast<std::byte*>(values); };
  const Matrix<float> out = to_owners ? listed_rows() : owned_rows(),
                      in = to_owners ? owned_rows() : listed_rows();
  const uint32_t *const wanted = fixed_.lists.counts, *const asked = fixed_.asked.counts;
  const bool narrow = narrow_wire();
  const Matrix<bf16> sent(growing_.narrow_sent, out.dim(0), out.dim(1)),
      got(growing_.narrow_got, out.dim(0), out.dim(1));
  if (narrow) kernels::round_listed(c.exec, shape(), to_owners ? wanted : asked, out, sent);
  (to_owners ? exchanges().grads : exchanges().rows)
      ->all_to_all_v(
          c.exec, {.send = narrow ? bytes(sent.data()) : bytes(out.data()),
                   .send_bytes = to_owners ? fixed_.lists.vector_bytes : fixed_.asked.vector_bytes,
                   .receive = narrow ? bytes(got.data()) : bytes(in.data()),
                   .received_bytes = fixed_.ignored_bytes,
                   .capacity = capacity() * wire_row_bytes(),
                   .free = !(narrow && to_owners)});
  if (narrow) kernels::widen_listed(c.exec, shape(), to_owners ? asked : wanted, got, in);
}

void GpuShardedSteps::pool(const StepContext& c, const TablesIo& io) {
  const int64_t listed = shape().listed_rows();
  kernels::gather_listed(c.exec, storage().copied().w, {fixed_.lists.copied, copied_capacity_},
                         fixed_.lists.counts + shape().ranks,
                         pool_rows().rows(listed, shape().rows()));
  with_float_type(place().type, [&]<typename T>() {
    lookup_forward<T>(c.exec, pool_slots_->ref(), pool_rows(), entries(c.batch),
                      vectors<T>(io.output, c.batch));
  });
}

void GpuShardedSteps::sort(const StepContext& c, const TablesIo& io) {
  const auto* const step = buffers().data<int64_t>(io.step);
  reduce_->sort(c.exec, entries(c.batch), fixed_.minus_one, step, &fixed_.scalars[0]);
  if (merge_)
    merge_->sort(c.exec, asked_rows(), buffers().data<float>(rate_of(io)), step,
                 &fixed_.scalars[1]);
}

void GpuShardedSteps::reduce(const StepContext& c, const TablesIo& io) {
  const uint32_t* const counts = fixed_.lists.counts;
  kernels::clear_pool(c.exec, shape(), counts, pool_rows());
  with_float_type(place().type, [&]<typename T>() {
    reduce_->update<T>(c.exec, vectors<T>(io.grad, c.batch), {.w = pool_rows()});
  });
  if (storage().copied_rows() == 0) return;
  const Matrix<float> copied = copied_gradients();
  c.exec.cuda->zero(copied.data(), static_cast<size_t>(copied_gradient_bytes()), c.exec.stream);
  kernels::scatter_listed(
      c.exec, {.in = pool_rows().rows(shape().listed_rows(), shape().rows()),
               .rows = {fixed_.lists.copied, copied_capacity_},
               .count = counts + shape().ranks,
               .factor = spec().whole_gradients ? undecided_scale(buffers(), io).inverse : nullptr,
               .out = copied,
               .touched = touched().data()});
}

void GpuShardedSteps::update(const StepContext& c, const TablesIo& io) {
  merge(c, storage().own(), gradient_scale(buffers(), io));
}

// One step of `rows` by what all ranks sent.
void GpuShardedSteps::merge(const StepContext& c, const UpdatedRows& rows,
                            const optimizer::GradientScale& scale) {
  if (!merge_) return;
  merge_->update<float>(
      c.exec, View<const float, 3>(growing_.owned, shape().listed_rows(), 1, spec().layout.width),
      rows, scale);
}

void GpuShardedSteps::sum_gradients(const StepContext& c, const TablesIo& io) {
  merge(c, whole().summed(), undecided_scale(buffers(), io));
}

void GpuShardedSteps::update_copied(const StepContext& c, const TablesIo& io) {
  kernels::update_copied(c.exec, {.rule = spec().rule,
                                  .lr = buffers().data<float>(io.rate),
                                  .step = buffers().data<int64_t>(io.step),
                                  .gradients = copied_gradients().data(),
                                  .touched = touched().data(),
                                  .rows = storage().copied(),
                                  .scale = gradient_scale(buffers(), io)});
}

void GpuShardedSteps::check(const Exec& exec) {
  check_keys_of(spec().name, exec, train_errors_.get(), eval_errors_.get());
}

// On the rails there is what several ranks have for another: `own` and the counts of all others.
std::vector<comm::StepTraffic> GpuShardedSteps::traffic_by_rails(
    const std::vector<PeerCounts>& own) const {
  const size_t n = own.size();
  std::vector<PeerCounts> all(n * n);
  ThreadPool pool(1);
  ranks().world->all_gather({.pool = &pool}, std::as_bytes(std::span(own)),
                            std::as_writable_bytes(std::span(all)));
  const auto totals = [&](ExchangeCounts PeerCounts::*kind) {
    return comm::rail_traffic(*ranks().topology, ranks().rank, (own[0].*kind).calls,
                              [&](int from, int to) {
                                const auto at = static_cast<size_t>(from) * n;
                                return (all[at + static_cast<size_t>(to)].*kind).sent;
                              });
  };
  return traffic_of(totals(&PeerCounts::keys), totals(&PeerCounts::rows),
                    totals(&PeerCounts::grads));
}

std::vector<comm::StepTraffic> GpuShardedSteps::traffic() const {
  std::vector<PeerCounts> counts(static_cast<size_t>(ranks().ranks()));
  get_bytes(exec_, counts.data(), fixed_.counts, counts.size() * sizeof(PeerCounts));
  if (place().exchange.route == comm::Route::kHierarchical) return traffic_by_rails(counts);
  comm::TrafficTotals keys, rows, grads;
  const comm::Topology& topology = *ranks().topology;
  for (int q = 0; q < ranks().ranks(); ++q) {
    if (q == ranks().rank) continue;
    const bool intra = topology.node_of(q) == topology.node_of(ranks().rank);
    const auto add = [&](comm::TrafficTotals& to, const ExchangeCounts& of) {
      (intra ? to.intra_bytes : to.inter_bytes) += of.sent;
      (intra ? to.intra_messages : to.inter_messages) += of.messages;
      (intra ? to.intra_received : to.inter_received) += of.received;
    };
    const PeerCounts& c = counts[static_cast<size_t>(q)];
    add(keys, c.keys);
    add(rows, c.rows);
    add(grads, c.grads);
  }
  return traffic_of(keys, rows, grads);
}

}  // namespace hlite::embedding
