#include "embedding/row_exchange.h"

#include <algorithm>

#include "embedding/cutter.h"
#include "embedding/gathered_lists.h"
#include "embedding/lookup.h"
#include "embedding/table_init.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {

using plan::StepContext;

RowExchange::RowExchange(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
                         const LayerKeyErrors& errors, const TablesPlace& place)
    : spec_(spec),
      storage_(storage),
      index_(index),
      errors_(errors),
      place_(place),
      exec_(place.exec()),
      forecast_(spec, storage, place),
      marks_(spec_.update_type != optimizer::UpdateType::kGlobal &&
             optimizer::moves_without_gradient(spec_.rule)),
      replicated_capacity_(
          std::min(storage.replicated_rows(), place.max_batch * spec.layout.columns())),
      capacity_(place.exchange.capacity > 0 ? place.exchange.capacity : forecast_.capacity()),
      key_exchange_(place.ranks.make_communicator(place.exchange.route)),
      row_exchange_(place.ranks.make_communicator(place.exchange.route)),
      gradient_exchange_(place.ranks.make_communicator(place.exchange.route)) {}

// ---- Memory ----

ExchangeShape RowExchange::shape(bool training) const {
  return {.ranks = ranks().ranks(),
          .capacity = capacity_,
          .replicated_capacity = replicated_capacity_,
          .width = spec_.layout.width,
          .value_bytes = float_type_bytes(training ? place_.wire : FloatType::kFloat),
          .hashed_tables = index_ ? spec_.layout.tables() : 0};
}
RequestLists RowExchange::request_lists() const {
  RequestLists lists = lists_here().lists;
  lists.blocks = growing_.sent_lists;
  return lists;
}
RequestedRows RowExchange::received_requests() const {
  RequestedRows requested = lists_here().requested;
  const GrowingLists& rows = growing_.lists[side()];
  requested.rows = rows.requested;
  requested.keys = rows.requested_keys;
  requested.tables = rows.requested_tables;
  return requested;
}
HashedArgs RowExchange::requested_list(Matrix<uint32_t> rows) const {
  const GrowingLists& of = growing_.lists[side()];
  return {.slots = requested_slots_->ref(),
          .keys = {of.requested_keys, max_requested(), 1},
          .rows = rows,
          .requested_tables = of.requested_tables};
}
int64_t RowExchange::insertion_bytes() const {
  return index_ ? index_->list_workspace(max_requested()) : 0;
}
Matrix<uint32_t> RowExchange::entries(int64_t batch) const {
  return {lists_here().entries, batch, spec_.layout.keys.columns};
}
Matrix<float> RowExchange::received_rows() const {
  return {growing_.received, shape().rows(), spec_.layout.width};
}
Matrix<float> RowExchange::owned_rows() const {
  return {growing_.owned, max_requested(), spec_.layout.width};
}
Matrix<float> RowExchange::list_capacity() const {
  return received_rows().rows(0, max_requested());
}
SlotLayout RowExchange::requested_layout() const {
  const int64_t rows = storage_.sorts_rows() ? storage_.own_rows() : storage_.held_rows();
  SlotLayout layout({std::max<int64_t>(1, rows)}, spec_.layout.width);
  layout.complete = false;
  return layout;
}

// The received rows are replaced by their gradients.
SparseUpdateOptions RowExchange::reduction() const {
  return {.rule = WholeTableUpdate::sum_rule(),
          .max_batch = place_.train_batch,
          .threads = place_.threads};
}

RowExchange::FixedLists RowExchange::cut_lists(Cutter& cutter) const {
  const int64_t n = ranks().ranks();
  FixedLists l{};
  l.requested.needed = cutter.cut<int64_t>(1);
  l.entries = cutter.cut<uint32_t>(place_.max_batch * spec_.layout.keys.columns);
  l.lists.list_bytes = cutter.cut<int64_t>(n);
  l.lists.vector_bytes = cutter.cut<int64_t>(n);
  l.lists.replicated = cutter.cut<uint32_t>(replicated_capacity_);
  l.lists.counts = cutter.cut<uint32_t>(n + 1);
  l.requested.counts = cutter.cut<uint32_t>(n);
  l.requested.vector_bytes = cutter.cut<int64_t>(n);
  return l;
}

RowExchange::Fixed RowExchange::cut_fixed(Cutter& cutter) const {
  const int64_t n = ranks().ranks();
  Fixed f{};
  f.counts = cutter.cut<PeerCounts>(n);  // at the front: they begin as 0
  f.lists[0] = cut_lists(cutter);
  f.lists[1] = place_.keys_ahead ? cut_lists(cutter) : f.lists[0];
  f.received_bytes = cutter.cut<int64_t>(n);
  f.ignored_bytes = cutter.cut<int64_t>(n);
  f.minus_one = cutter.cut<float>(1);
  f.scalars = cutter.cut<optimizer::StepScalars>(1);
  f.routing = cutter.cut<std::byte>(static_cast<int64_t>(routing_bytes_));
  f.gathered = cutter.cut<std::byte>(static_cast<int64_t>(gathered_bytes_));
  return f;
}

RowExchange::GrowingLists RowExchange::cut_growing_lists(Cutter& cutter) const {
  const int64_t rows = shape().list_capacity(), keys = index_ ? rows : 0;
  GrowingLists l{};
  l.requested = cutter.cut<uint32_t>(rows);
  l.requested_keys = cutter.cut<uint32_t>(keys);
  l.requested_tables = cutter.cut<uint32_t>(keys);
  return l;
}

RowExchange::Growing RowExchange::cut_growing(Cutter& cutter) const {
  const ExchangeShape s = shape();
  Growing g{};
  g.lists[0] = cut_growing_lists(cutter);
  g.lists[1] = place_.keys_ahead ? cut_growing_lists(cutter) : g.lists[0];
  g.sent_lists = cutter.cut<uint32_t>(s.ranks * s.block_words());
  g.got_lists = cutter.cut<uint32_t>(s.ranks * s.block_words());
  if (exec_.on_gpu() && storage_.tier()) g.lines = cutter.cut<uint32_t>(s.list_capacity());
  g.insertion = cutter.cut<std::byte>(insertion_bytes());
  g.owned = cutter.cut<float>(s.list_capacity() * s.width);
  g.received = cutter.cut<float>(s.rows() * s.width);
  const int64_t narrow = narrow_wire() ? s.list_capacity() * s.width : 0;
  g.narrow_sent = cutter.cut<bf16>(narrow);
  g.narrow_got = cutter.cut<bf16>(narrow);
  return g;
}

int64_t RowExchange::workspace_bytes() const {
  Cutter cutter(nullptr);
  (void)cut_fixed(cutter);
  (void)cut_growing(cutter);
  const SlotsRef slots = DeviceSlots::numbers(exec_, received_layout());
  const int n = ranks().ranks();
  size_t routing = routing_workspace(exec_, slots, n, place_.max_batch, kNoRow, place_.threads);
  if (place_.gathers_keys)
    routing += gathered_workspace(exec_, slots, n, place_.max_batch, kNoRow, place_.threads);
  return static_cast<int64_t>(cutter.bytes() + routing) +
         SparseUpdate::workspace_bytes(exec_, slots, reduction());
}

void RowExchange::prepare() {
  const int n = ranks().ranks();
  HLITE_CHECK(!exec_.on_gpu() || n <= kMaxListRanks, "{} GPUs, lists for {}", n, kMaxListRanks);
  placement_ = std::make_unique<DevicePlacement>(exec_, *storage_.placement());
  // Keys of hashed tables are not checked against table sizes, as such tables have none.
  const SlotLayout& layout = spec_.layout;
  slots_ =
      std::make_unique<DeviceSlots>(exec_, index_ ? layout.pooled(storage_.own_rows()) : layout);
  const uint32_t numbers = placement_->ref().numbers;
  routing_bytes_ =
      routing_workspace(exec_, slots_->ref(), n, place_.max_batch, numbers, place_.threads);
  if (place_.gathers_keys)
    gathered_bytes_ =
        gathered_workspace(exec_, slots_->ref(), n, place_.max_batch, numbers, place_.threads);
  Cutter counting(nullptr);
  (void)cut_fixed(counting);
  fixed_memory_ = ExecMemory(exec_, counting.bytes(), "request lists");
  Cutter cutter(fixed_memory_.data());
  fixed_ = cut_fixed(cutter);
  if (exec_.on_gpu()) exec_.cuda->zero(fixed_memory_.data(), fixed_memory_.size(), exec_.stream);
  put_bytes(exec_, fixed_.minus_one, &WholeTableUpdate::kSumRate, sizeof(float));
  allocate();
}

void RowExchange::allocate() {
  reduce_ = nullptr;  // before more is taken
  growing_memory_ = ExecMemory();
  Cutter counting(nullptr);
  (void)cut_growing(counting);
  growing_memory_ = ExecMemory(exec_, counting.bytes(), "rows of other ranks");
  // A run that exceeded the capacity reads rows that no rank has filled.
  if (exec_.on_gpu()) {
    exec_.cuda->zero(growing_memory_.data(), growing_memory_.size(), exec_.stream);
    exec_.cuda->stream_synchronize(exec_.stream);
  }
  Cutter cutter(growing_memory_.data());
  growing_ = cut_growing(cutter);
  received_slots_ = std::make_unique<DeviceSlots>(exec_, received_layout());
  requested_slots_ = std::make_unique<DeviceSlots>(exec_, requested_layout());
  reduce_ = std::make_unique<SparseUpdate>(exec_, received_slots_->ref(), reduction());
}

int64_t RowExchange::needed() const {
  int64_t needed = 0;
  get_bytes(exec_, &needed, lists_here().requested.needed, sizeof(needed));
  return needed;
}

std::string RowExchange::grow() {
  const int64_t requested = needed(), before = capacity_,
                most = place_.max_batch * spec_.layout.columns();
  const double with_reserve = static_cast<double>(requested) * ExchangeForecast::kCapacityFactor;
  capacity_ = std::min(most, std::max(requested, static_cast<int64_t>(with_reserve)));
  allocate();
  return fmt::format("{}: {} rows requested of one rank, capacity {}; run again with capacity {}",
                     spec_.name, requested, before, capacity_);
}

int64_t RowExchange::replicated_gradient_bytes() const {
  return storage_.replicated_rows() * (spec_.layout.width + (marks_ ? 1 : 0)) *
         static_cast<int64_t>(sizeof(float));
}
Matrix<float> RowExchange::replicated_gradient_rows() const {
  if (replicated_gradients_ == plan::kNoBuffer) return {nullptr, 0, spec_.layout.width};
  return {buffers_->data<float>(replicated_gradients_), storage_.replicated_rows(),
          spec_.layout.width};
}
std::span<float> RowExchange::touched() const {
  if (!marks_) return {};
  const auto g = replicated_gradient_rows();
  return {g.data() + g.size(), static_cast<size_t>(g.dim(0))};
}

// ---- What the steps do ----

void RowExchange::route(const StepContext& c, const TablesIo& io) {
  // The step is counted after the lookups, and so are batches routed ahead of it: here it is that
  // of the previous iteration.
  const int64_t* const step = io.training ? buffers_->data<int64_t>(routed_before(io)) : nullptr;
  route_keys(c.exec,
             {.slots = slots_->ref(),
              .placement = placement_->ref(),
              .shape = shape(io.training),
              .keys = {buffers_->data<uint32_t>(io.keys), c.batch, spec_.layout.keys.columns},
              .entries = entries(c.batch),
              .lists = request_lists(),
              .check = errors_.check(io.training, step),
              .workspace = fixed_.routing,
              .workspace_bytes = routing_bytes_});
}

// GPUs skip the rendezvous before an exchange if an earlier one has shown that no rank still uses
// the memory that this one writes (Blocks::free). An exchange ends with a wait for a signal of each
// rank. A rank sends it after all earlier work of its comm lane and of its previous run.
//
// Keys are written to got_lists, which only take_lists() reads, on the comm lane. A rank's next
// signal is that of the same run's exchange of rows, which this rank awaited in the previous run.
//
// Rows are written to memory that was last used in the previous run. The signal in this run's
// exchange of keys, or in keys_gather, comes after that run.
//
// Gradients are written to the rows that this run's exchange of rows sent, which were read before
// its signal. In 16 bits they go to the memory that received rows, which a rank widens after its
// last signal, so the rendezvous stays.
//
// Where lists are made ahead, the run before may go on during the exchange of keys. A host issues
// that when it has met the others, who all had the notice of the exchange before, which comes after
// take_lists(). Rows were last used before a rank's last signal in that run: in its exchange of
// gradients, which sends them; in 16 bits, where gradients are widened from the memory that
// received rows, and where no gradient is wanted, in its all_reduce, which comes after that
// and after the loss. After an evaluation keys are exchanged when that has ended
// (plan::Executor::run_first), so that their signal says so.
void RowExchange::exchange_keys(const StepContext& c, const TablesIo& io) {
  const auto bytes = [](uint32_t* words) { return reinterpret_cast<std::byte*>(words); };
  key_exchange_->all_to_all_v(
      c.exec, {.send = bytes(growing_.sent_lists),
               .send_bytes = lists_here().lists.list_bytes,
               .receive = bytes(growing_.got_lists),
               .received_bytes = fixed_.received_bytes,
               .capacity = shape().block_words() * static_cast<int64_t>(sizeof(uint32_t)),
               .free = true});
  take_lists(c, io);
}

void RowExchange::list_keys(const StepContext& c, const TablesIo& io) {
  list_gathered(c.exec, {.slots = slots_->ref(),
                         .placement = placement_->ref(),
                         .shape = shape(io.training),
                         .rank = ranks().rank,
                         .keys = {buffers_->data<uint32_t>(io.all_keys), c.mean_over(),
                                  spec_.layout.keys.columns},
                         .samples_of_rank = samples_of_rank(io),
                         .blocks = growing_.got_lists,
                         .received_bytes = fixed_.received_bytes,
                         .workspace = fixed_.gathered,
                         .workspace_bytes = gathered_bytes_});
  take_lists(c, io);
}

// Reads the blocks that arrived.
void RowExchange::take_lists(const StepContext& c, const TablesIo& io) {
  embedding::take_lists(c.exec, {.shape = shape(io.training),
                                 .blocks = growing_.got_lists,
                                 .received_bytes = fixed_.received_bytes,
                                 .lists = request_lists(),
                                 .requested = received_requests(),
                                 .capacity_exceeded = buffers_->data<int32_t>(io.capacity_exceeded),
                                 .counts = fixed_.counts,
                                 .training = io.training});
}

void RowExchange::insert(const StepContext& c, const TablesIo& io) {
  index_->insert_requested(
      c.exec, requested_list(requested_rows()),
      {growing_.insertion, static_cast<size_t>(insertion_bytes())},
      buffers_->data<int32_t>(io.capacity_exceeded),
      spec_.vocabulary.keeps_uses() ? buffers_->data<int64_t>(io.step) : nullptr);
}

// Maps the rows that other ranks request to lines of the cache.
void RowExchange::admit(const StepContext& c, const TablesIo& io) {
  if (brings_rows())
    c.exec.cuda->copy(requested_rows().data(),
                      buffers_->data<uint32_t>(storage_.tier()->brought_rows()),
                      static_cast<size_t>(max_requested()) * sizeof(uint32_t), c.exec.stream);
  else if (index_ && !io.training)
    index_->find_requested(c.exec, requested_list(requested_rows()));
  storage_.tier()->admit(c.exec, requested_rows(), requested_lines(), 0, 1, io.training);
}

void RowExchange::gather(const StepContext& c, const TablesIo& io) {
  if (!index_)
    return gather_requested(c.exec, storage_.own().w, {requested_lines().data(), max_requested()},
                            nullptr, owned_rows());
  const HashedArgs list = requested_list(requested_lines());
  if (!io.training && !storage_.tier()) index_->find_requested(c.exec, list);
  index_->gather_requested(c.exec, list, owned_rows());
}

// Evaluations send rows as they are: a score is that of a model on one rank.
void RowExchange::exchange_vectors(const StepContext& c, bool training, bool to_owners) {
  const auto bytes = [](auto* values) { return reinterpret_cast<std::byte*>(values); };
  const Matrix<float> out = to_owners ? list_capacity() : owned_rows(),
                      in = to_owners ? owned_rows() : list_capacity();
  const FixedLists& lists = lists_here();
  const uint32_t *const sent_requests = lists.lists.counts, *const received_requests =
                                                                lists.requested.counts;
  const ExchangeShape shape = this->shape(training);
  const bool narrow = training && narrow_wire();
  const Matrix<bf16> sent(growing_.narrow_sent, out.dim(0), out.dim(1)),
      got(growing_.narrow_got, out.dim(0), out.dim(1));
  if (narrow)
    round_requested(c.exec, shape, to_owners ? sent_requests : received_requests, out, sent);
  (to_owners ? gradient_exchange_ : row_exchange_)
      ->all_to_all_v(c.exec, {.send = narrow ? bytes(sent.data()) : bytes(out.data()),
                              .send_bytes = to_owners ? lists.lists.vector_bytes
                                                      : lists.requested.vector_bytes,
                              .receive = narrow ? bytes(got.data()) : bytes(in.data()),
                              .received_bytes = fixed_.ignored_bytes,
                              .capacity = capacity_ * shape.row_bytes(),
                              .free = !(narrow && to_owners)});
  if (narrow)
    widen_requested(c.exec, shape, to_owners ? received_requests : sent_requests, got, in);
}

void RowExchange::pool(const StepContext& c, const TablesIo& io) {
  const RequestLists& lists = lists_here().lists;
  gather_requested(c.exec, storage_.replicated().w, {lists.replicated, replicated_capacity_},
                   lists.counts + shape().ranks,
                   received_rows().rows(max_requested(), shape().rows()));
  with_float_type(place_.type, [&]<typename T>() {
    lookup_forward<T>(c.exec, received_slots_->ref(), received_rows(), entries(c.batch),
                      vectors<T>(io.output, c.batch));
  });
}

void RowExchange::sort(const StepContext& c, const TablesIo& io) {
  reduce_->sort(c.exec, entries(c.batch), fixed_.minus_one, buffers_->data<int64_t>(io.step),
                fixed_.scalars);
}

void RowExchange::reduce(const StepContext& c, const TablesIo& io) {
  const RequestLists& lists = lists_here().lists;
  // Keys that exceed the capacity share row 0, whatever their tables. In such a run nothing is
  // summed, as threads would write that row at the same time.
  const optimizer::GradientScale whole_runs{.capacity_exceeded =
                                                buffers_->data<int32_t>(io.capacity_exceeded)};
  with_float_type(place_.type, [&]<typename T>() {
    reduce_->update<T>(c.exec, vectors<T>(io.grad, c.batch),
                       {.w = received_rows(), .from_zero = true}, whole_runs);
  });
  if (storage_.replicated_rows() == 0) return;
  const Matrix<float> replicated = replicated_gradient_rows();
  fill_values(
      c.exec,
      {replicated.data(), replicated_gradient_bytes() / static_cast<int64_t>(sizeof(float))}, 0);
  scatter_scaled(
      c.exec, {.in = received_rows().rows(max_requested(), shape().rows()),
               .rows = {lists.replicated, replicated_capacity_},
               .count = lists.counts + shape().ranks,
               .factor = spec_.whole_gradients ? undecided_scale(*buffers_, io).inverse : nullptr,
               .out = replicated,
               .touched = touched().data()});
}

void RowExchange::update_replicated(const StepContext& c, const TablesIo& io) const {
  embedding::update_rows(c.exec, {.rule = spec_.rule,
                                  .lr = buffers_->data<float>(io.rate),
                                  .step = buffers_->data<int64_t>(io.step),
                                  .gradients = replicated_gradient_rows().data(),
                                  .touched = touched().data(),
                                  .rows = storage_.replicated(),
                                  .scale = gradient_scale(*buffers_, io)});
}

// ---- The steps ----

void RowExchange::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  const auto token = [&](const char* name, plan::BufferKind kind) {
    return buffers.add(spec_.name + name, kind, 8);
  };
  using enum plan::BufferKind;
  const plan::BufferKind made = place_.keys_ahead ? kAhead : kActivation;
  lists_ = token(".lists", made);
  requested_ = token(".requested", made);
  outgoing_ = token(".outgoing", kActivation);
  incoming_ = token(".incoming", kActivation);
}

void RowExchange::emit_lists(plan::Plan& plan, const TablesIo& io, double routed_bytes) {
  if (place_.gathers_keys) {
    plan.add({.name = spec_.name + ".lists",
              .lane = plan::Lane::kEmbedding,
              .reads = {lists_, io.all_keys},
              .writes = {requested_, io.capacity_exceeded},
              .run = [this, io](const StepContext& c) { list_keys(c, io); },
              .bytes_per_sample = routed_bytes * ranks().ranks()});
    return;
  }
  plan.add({.name = spec_.name + ".keys_exchange",
            .lane = plan::Lane::kComm,
            .reads = {lists_},
            .writes = {requested_, io.capacity_exceeded},
            .run = [this, io](const StepContext& c) { exchange_keys(c, io); },
            .sends = forecast_.sends(header() * 4, 4, true)});
}

void RowExchange::emit_forward(plan::Plan& keys, plan::Plan& plan, const TablesIo& io) {
  const ExchangeForecast::MovedBytes moved = forecast_.moved_bytes();
  keys.add({.name = spec_.name + ".route",
            .lane = plan::Lane::kEmbedding,
            .reads = plan::present({io.keys, io.routed}),
            .writes = {lists_},
            .run = [this, io](const StepContext& c) { route(c, io); },
            .bytes_per_sample = moved.route});
  emit_lists(keys, io, moved.route);
  if (index_ && io.training && !brings_rows()) {
    std::vector<plan::BufferId> changed = storage_.rows().own_buffers();
    changed.insert(changed.end(), {requested_, io.capacity_exceeded});
    std::vector<plan::BufferId> reads = changed;
    if (spec_.vocabulary.keeps_uses()) reads.push_back(io.step);
    plan.add({.name = spec_.name + ".insert",
              .lane = plan::Lane::kEmbedding,
              .reads = reads,
              .writes = changed,
              .run = [this, io](const StepContext& c) { insert(c, io); }});
  }
  if (RowTier* const tier = storage_.tier()) {
    std::vector<plan::BufferId> changed = storage_.rows().own_buffers();
    changed.push_back(requested_);
    std::vector<plan::BufferId> reads = changed;
    reads.insert(reads.end(), {tier->emit(keys), tier->brought_rows()});
    plan.add({.name = spec_.name + ".admit",
              .lane = plan::Lane::kEmbedding,
              .reads = plan::present(reads),
              .writes = changed,
              .run = [this, io](const StepContext& c) { admit(c, io); },
              .tier = tier->traffic(0, place_.train_batch, /*ahead=*/false)});
  }
  plan.add({.name = spec_.name + ".gather",
            .lane = plan::Lane::kEmbedding,
            .reads = {requested_, storage_.rows().own_weights()},
            .writes = {outgoing_},
            .run = [this, io](const StepContext& c) { gather(c, io); },
            .bytes_per_sample = moved.gather});
  plan.add({.name = spec_.name + ".rows_exchange",
            .lane = plan::Lane::kComm,
            .reads = {lists_, requested_, outgoing_},
            .writes = {incoming_},
            .run = [this, io](const StepContext& c) { exchange_vectors(c, io.training, false); },
            .sends = forecast_.sends(0, shape(io.training).row_bytes(), false)});
  plan.add({.name = spec_.name + ".pool",
            .lane = plan::Lane::kEmbedding,
            .reads = {lists_, incoming_, storage_.rows().replicated_weights()},
            .writes = {io.output},
            .run = [this, io](const StepContext& c) { pool(c, io); },
            .bytes_per_sample = moved.pool});
}

void RowExchange::emit_backward(plan::Plan& plan, const TablesIo& io, plan::BufferId sorted) {
  const plan::BufferId scale = spec_.whole_gradients ? io.loss_scale : plan::kNoBuffer;
  plan.add({.name = spec_.name + ".reduce",
            .lane = plan::Lane::kEmbedding,
            .reads = plan::present({io.grad, lists_, sorted, scale, io.capacity_exceeded}),
            .writes = plan::present({incoming_, replicated_gradients_}),
            .run = [this, io](const StepContext& c) { reduce(c, io); },
            .bytes_per_sample = forecast_.moved_bytes().reduce});
  plan.add({.name = spec_.name + ".grads_exchange",
            .lane = plan::Lane::kComm,
            .reads = {lists_, requested_, incoming_},
            .writes = {outgoing_},
            .run = [this](const StepContext& c) { exchange_vectors(c, true, true); },
            .sends = forecast_.sends(0, shape().row_bytes(), true)});
}

}  // namespace hlite::embedding
