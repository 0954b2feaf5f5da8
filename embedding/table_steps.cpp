#include "embedding/table_steps.h"

#include "embedding/hashed_lookup.h"
#include "embedding/lookup.h"
#include "embedding/number_rows.h"

namespace hlite::embedding {

using plan::StepContext;

TableSteps::TableSteps(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
                       const TablesPlace& place)
    : spec_(spec),
      storage_(storage),
      tier_(storage.tier()),
      index_(index),
      place_(place),
      exec_(place.exec()),
      columns_(spec.key_columns, spec.batch_columns),
      exchange_(place.ranks.ranks() > 1
                    ? std::make_unique<RowExchange>(spec, storage, index, errors_, place)
                    : nullptr),
      whole_(spec, storage) {}

SlotLayout TableSteps::lookup_layout() const {
  return finds_rows() ? spec_.layout.pooled(storage_.held_rows()) : spec_.layout;
}
SlotLayout TableSteps::row_layout() const {
  return index_ ? spec_.layout.pooled(storage_.own_rows()) : spec_.layout;
}
SlotLayout TableSteps::updated_layout() const {
  if (exchange_) return exchange_->requested_layout();
  return storage_.sorts_rows() ? row_layout() : lookup_layout();
}

SparseUpdateOptions TableSteps::how() const {
  const bool whole = spec_.whole_gradients;
  return {.rule = whole ? WholeTableUpdate::sum_rule() : spec_.rule,
          .type = whole ? optimizer::UpdateType::kLocal : spec_.update_type,
          .atomic = spec_.atomic_update && !whole && !exchange_ && exec_.on_gpu(),
          .max_batch = exchange_ ? exchange_->max_requested() : place_.train_batch,
          .threads = place_.threads};
}

void TableSteps::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  if (spec_.whole_gradients) whole_.declare(buffers);
  if (columns_.selects()) {
    const int64_t bytes =
        place_.max_batch * spec_.layout.keys.columns * static_cast<int64_t>(sizeof(uint32_t));
    own_keys_ = buffers.add(spec_.name + ".keys", plan::BufferKind::kActivation, bytes);
    if (place_.gathers_keys)
      all_own_keys_ = buffers.add(spec_.name + ".all_keys", plan::BufferKind::kActivation,
                                  bytes * place_.ranks.ranks());
  }
  if (exchange_)
    exchange_->declare(buffers);
  else
    declare_rows(buffers);
  if (!how().atomic)
    sorted_ = buffers.add(spec_.name + ".sorted", plan::BufferKind::kActivation,
                          sizeof(optimizer::StepScalars));
}

void TableSteps::declare_rows(plan::Buffers& buffers) {
  const auto add = [&](const char* name) {
    return buffers.add(
        spec_.name + name, plan::BufferKind::kActivation,
        place_.max_batch * spec_.layout.keys.columns * static_cast<int64_t>(sizeof(uint32_t)));
  };
  if (leaves_lookup_) rows_ = add(".rows");
  if (index_) rows_ = brings_rows() ? tier_->brought_rows() : add(".rows");
  if (tier_) lines_ = index_ && !exec_.on_gpu() ? rows_ : add(".lines");
}

bool TableSteps::can_leave_lookup() const {
  return !exchange_ && !finds_rows() && spec_.layout.is_one_hot() &&
         spec_.table_type == FloatType::kFloat;
}

plan::GatheredRows TableSteps::gathered_rows() const {
  const double numbers = static_cast<double>(spec_.layout.slots()) * sizeof(uint32_t);
  return {.table = storage_.rows().own_weights(),
          .numbers = rows_,
          .rows = spec_.layout.total_rows,
          .columns = spec_.layout.keys.columns,
          .first_column = spec_.layout.column(0),
          .bytes_per_sample = numbers + place_.rows_of_sample(spec_.layout) *
                                            static_cast<double>(spec_.row_bytes())};
}

int64_t TableSteps::workspace_bytes() const {
  return SparseUpdate::workspace_bytes(exec_, DeviceSlots::numbers(exec_, updated_layout()),
                                       how()) +
         (exchange_ ? exchange_->workspace_bytes() : 0);
}

void TableSteps::prepare() {
  if (prefetches())
    next_rows_ = HostMemory(
        static_cast<size_t>(place_.max_batch * spec_.layout.keys.columns) * sizeof(uint32_t),
        "rows of the next batch");
  if (prefetches() && columns_.selects())
    next_keys_ = HostMemory(next_rows_.size(), "keys of the next batch");
  columns_.prepare(exec_);
  if (!index_) errors_.allocate(exec_, spec_.layout.keys.columns);
  if (exchange_) exchange_->prepare();
  make_update();
}

void TableSteps::make_update() {
  slots_ = std::make_unique<DeviceSlots>(exec_, lookup_layout());
  row_slots_ = std::make_unique<DeviceSlots>(exec_, row_layout());
  updated_slots_ = std::make_unique<DeviceSlots>(exec_, updated_layout());
  if (updates_) update_ = std::make_unique<SparseUpdate>(exec_, updated_slots_->ref(), how());
}

std::string TableSteps::grow() {
  if (!exchange_->exceeded_capacity()) return {};
  update_ = nullptr;  // before more is taken
  std::string text = exchange_->grow();
  make_update();
  return text;
}

// ---- What the steps do ----

void TableSteps::select_keys(const StepContext& c, const TablesIo& batch) {
  columns_.select(c.exec, buffers_->data<uint32_t>(batch.keys), key_matrix(own_keys_, c.batch));
  if (batch.all_keys != plan::kNoBuffer)
    columns_.select(c.exec, buffers_->data<uint32_t>(batch.all_keys),
                    key_matrix(all_own_keys_, c.mean_over()));
}

TablesIo TableSteps::own_keys(const TablesIo& batch) const {
  TablesIo io = batch;
  if (!columns_.selects()) return io;
  io.keys = own_keys_;
  if (batch.all_keys != plan::kNoBuffer) io.all_keys = all_own_keys_;
  return io;
}

void TableSteps::find_rows(const StepContext& c, const TablesIo& io) {
  index_->find_rows(c.exec, row_slots_->ref(), key_matrix(io.keys, c.batch),
                    key_matrix(rows_, c.batch), io.training, iterations_before(io));
}

// Used by hashed tables that count by iterations; null in evaluation.
const int64_t* TableSteps::iterations_before(const TablesIo& io) const {
  return io.training && spec_.vocabulary.keeps_uses() ? buffers_->data<int64_t>(io.step) : nullptr;
}

// Rows of the tables -> lines of the tier; and a start on those of the next batch.
void TableSteps::admit(const StepContext& c, const TablesIo& io) {
  const SlotsRef slots = row_slots_->ref();
  const Matrix<uint32_t> lines = key_matrix(lines_, c.batch);
  if (!index_) number_rows(c.exec, slots, key_matrix(io.keys, c.batch), lines, key_check(io));
  tier_->admit(c.exec, index_ ? key_matrix(rows_, c.batch) : lines, lines, slots.first_column,
               slots.lookups, io.training);
  if (!prefetches() || !c.input.next_keys) return;
  const auto next_batch = [&](const HostMemory& memory) {
    return Matrix<uint32_t>(reinterpret_cast<uint32_t*>(memory.data()), c.input.next_batch,
                            slots.columns);
  };
  const Matrix<uint32_t> next_rows = next_batch(next_rows_);
  Matrix<const uint32_t> next(c.input.next_keys, c.input.next_batch, slots.columns);
  if (columns_.selects()) {
    columns_.select(c.exec, c.input.next_keys, next_batch(next_keys_));
    next = next_batch(next_keys_);
  }
  number_rows(c.exec, slots, next, next_rows);
  tier_->prefetch(c.exec, next_rows, slots.first_column, slots.lookups);
}

// The step is counted after the lookups: here it is that of the previous iteration.
KeyRecorder TableSteps::key_check(const TablesIo& io) const {
  return errors_.check(io.training, io.training ? buffers_->data<int64_t>(io.step) : nullptr);
}

template <typename T>
void TableSteps::look_up(const StepContext& c, const TablesIo& io) {
  const View<T, 3> out = vectors<T>(io.output, c.batch);
  const ConstWeightRows table = storage_.own().w;
  const Matrix<uint32_t> keys = key_matrix(lookup_keys(io), c.batch);
  // Keys may have no row.
  const bool unseen = index_ && (!io.training || spec_.vocabulary.refuses());
  SlotsRef slots = slots_->ref();
  if (unseen) slots.complete = false;
  lookup_forward<T>(c.exec, slots, table, keys, out, key_check(io));
  if (!unseen) return;
  const HashedArgs batch{.slots = slots, .keys = key_matrix(io.keys, c.batch), .rows = keys};
  pool_unseen<T>(c.exec, batch, table, index_->absent_values(), out);
}

void TableSteps::sort(const StepContext& c, const TablesIo& io) {
  if (exchange_) exchange_->sort(c, io);
  const Matrix<const uint32_t> keys =
      exchange_ ? exchange_->sorted_rows() : key_matrix(sorted_keys(io), c.batch);
  update_->sort(c.exec, keys, buffers_->data<float>(rate_of(io)), buffers_->data<int64_t>(io.step),
                how().atomic ? nullptr : buffers_->data<optimizer::StepScalars>(sorted_),
                storage_.sorts_rows() ? tier_->line_of_row() : LineOfRow{});
}

void TableSteps::update(const StepContext& c, const TablesIo& io, const UpdatedRows& rows,
                        const optimizer::GradientScale& scale) {
  if (storage_.own_rows() == 0) return;
  if (exchange_)
    return update_->update<float>(c.exec, exchange_->requested_gradients(), rows, scale);
  with_float_type(place_.type, [&]<typename T>() {
    update_->update<T>(c.exec, vectors<const T>(io.grad, c.batch), rows, scale);
  });
}

// ---- The steps ----

void TableSteps::emit_forward(plan::Plan& keys, plan::Plan& plan, const TablesIo& batch) {
  if (columns_.selects()) emit_keys(keys, batch);
  const TablesIo io = own_keys(batch);
  if (exchange_) return exchange_->emit_forward(keys, plan, io);
  if (index_ && !brings_rows()) emit_index(plan, io);
  if (tier_) emit_admit(plan, io);
  if (leaves_lookup_) return emit_rows(plan, io);
  emit_lookup(plan, io);
}

void TableSteps::emit_keys(plan::Plan& plan, const TablesIo& batch) {
  plan.add({.name = spec_.name + ".keys",
            .lane = plan::Lane::kEmbedding,
            .reads = plan::present({batch.keys, batch.all_keys}),
            .writes = plan::present({own_keys_, all_own_keys_}),
            .run = [this, batch](const StepContext& c) { select_keys(c, batch); },
            .bytes_per_sample = static_cast<double>(spec_.layout.columns()) * 8});
}

void TableSteps::emit_index(plan::Plan& plan, const TablesIo& io) {
  std::vector<plan::BufferId> reads = {io.keys}, writes = {rows_};
  const std::vector<plan::BufferId> own = storage_.rows().own_buffers();
  reads.insert(reads.end(), own.begin(), own.end());
  if (io.training) writes.insert(writes.end(), own.begin(), own.end());
  if (io.training && spec_.vocabulary.keeps_uses()) reads.push_back(io.step);
  plan.add({.name = spec_.name + ".index",
            .lane = plan::Lane::kEmbedding,
            .reads = reads,
            .writes = writes,
            .run = [this, io](const StepContext& c) { find_rows(c, io); },
            // A key and its place in the hash table, which is a cache line.
            .bytes_per_sample = static_cast<double>(spec_.layout.columns()) * (8 + 64)});
}

void TableSteps::emit_admit(plan::Plan& plan, const TablesIo& io) {
  std::vector<plan::BufferId> reads = {row_keys(io)}, writes = storage_.rows().own_buffers();
  reads.insert(reads.end(), writes.begin(), writes.end());
  writes.push_back(lines_);
  reads.push_back(tier_->emit(plan));
  if (io.training && exec_.on_gpu()) reads.push_back(io.step);
  plan.add({.name = spec_.name + ".admit",
            .lane = plan::Lane::kEmbedding,
            .reads = plan::present(reads),
            .writes = writes,
            .run = [this, io](const StepContext& c) { admit(c, io); },
            // The key, its number, and the map's entry, which is a cache line.
            .bytes_per_sample = static_cast<double>(spec_.layout.columns()) * (8 + 64),
            .tier = tier_->traffic(0, place_.train_batch, /*ahead=*/!index_)});
}

void TableSteps::emit_lookup(plan::Plan& plan, const TablesIo& io) {
  const double bytes =
      place_.rows_of_sample(spec_.layout) * static_cast<double>(spec_.row_bytes()) +
      static_cast<double>(spec_.layout.slots() * spec_.layout.width *
                          float_type_bytes(place_.type));
  const std::vector<plan::BufferId> reads = plan::present(
      {lookup_keys(io), storage_.rows().own_weights(), index_ ? io.keys : plan::kNoBuffer,
       io.training && exec_.on_gpu() ? io.step : plan::kNoBuffer});
  with_float_type(place_.type, [&]<typename T>() {
    plan.add({.name = spec_.name + ".lookup",
              .lane = plan::Lane::kEmbedding,
              .reads = reads,
              .writes = {io.output},
              .run = [this, io](const StepContext& c) { look_up<T>(c, io); },
              .bytes_per_sample = bytes});
  });
}

void TableSteps::emit_rows(plan::Plan& plan, const TablesIo& io) {
  plan.add(
      {.name = spec_.name + ".rows",
       .lane = plan::Lane::kEmbedding,
       .reads = plan::present({io.keys, io.training && exec_.on_gpu() ? io.step : plan::kNoBuffer}),
       .writes = {rows_},
       .run =
           [this, io](const StepContext& c) {
             number_rows(c.exec, row_slots_->ref(), key_matrix(io.keys, c.batch),
                         key_matrix(rows_, c.batch), key_check(io));
           },
       .bytes_per_sample = static_cast<double>(spec_.layout.columns()) * 8});
}

void TableSteps::emit_backward(plan::Plan& plan, const TablesIo& batch) {
  const TablesIo io = own_keys(batch);
  updates_ = true;
  if (spec_.whole_gradients) whole_.emit_clear(plan);
  if (!how().atomic) {  // depends on keys only, so it overlaps the backward pass
    std::vector<plan::BufferId> reads = {rate_of(io), io.step};
    if (exchange_)
      reads.insert(reads.end(), {exchange_->lists(), exchange_->requested()});
    else
      reads.insert(reads.end(), {lookup_keys(io), sorted_keys(io)});
    // Each of four passes reads the list from one half and writes it to the other.
    const double bytes = static_cast<double>(spec_.layout.columns()) * 4 * 16;
    plan.add({.name = spec_.name + ".sort",
              .lane = plan::Lane::kEmbedding,
              .reads = reads,
              .writes = {sorted_},
              .run = [this, io](const StepContext& c) { sort(c, io); },
              .bytes_per_sample = bytes});
  }
  if (exchange_) exchange_->emit_backward(plan, io, sorted_);
  if (spec_.whole_gradients) emit_sparse_update(plan, io, ".gradients", {whole_.gradients()});
}

void TableSteps::emit_update(plan::Plan& plan, const TablesIo& batch) {
  const TablesIo io = own_keys(batch);
  if (spec_.whole_gradients) {
    for (const WholeGradients& of : whole_gradients()) whole_.emit_update(plan, io, of);
    return;
  }
  emit_sparse_update(plan, io, ".update", storage_.rows().own_buffers());
  if (!exchange_ || storage_.replicated_rows() == 0) return;
  std::vector<plan::BufferId> changed = storage_.rows().replicated_buffers(), reads = changed;
  reads.insert(reads.end(), {exchange_->replicated_gradients(), io.rate, io.step,
                             io.capacity_exceeded, io.loss_scale});
  plan.add({.name = spec_.name + ".update_replicated",
            .lane = plan::Lane::kEmbedding,
            .reads = plan::present(reads),
            .writes = changed,
            .run = [this, io](const StepContext& c) { exchange_->update_replicated(c, io); },
            .bytes_per_sample = exchange_->forecast().moved_bytes().update_replicated});
}

std::vector<WholeGradients> TableSteps::whole_gradients() const {
  if (!spec_.whole_gradients) return {};
  std::vector<WholeGradients> list = {whole_.of_own_rows()};
  if (storage_.replicated_rows() > 0)
    list.push_back({.weights = storage_.rows().replicated_weights(),
                    .gradients = exchange_->replicated_gradients(),
                    .count = storage_.replicated_rows() * spec_.layout.width,
                    .type = spec_.table_type,
                    .replicated = true});
  return list;
}

void TableSteps::emit_sparse_update(plan::Plan& plan, const TablesIo& io, const char* name,
                                    const std::vector<plan::BufferId>& changed) {
  std::vector<plan::BufferId> reads = changed;
  reads.insert(reads.end(), {io.rate, io.step, sorted_, io.loss_scale, io.capacity_exceeded});
  if (exchange_)
    reads.insert(reads.end(), {exchange_->requested(), exchange_->outgoing()});
  else
    reads.insert(reads.end(), {lookup_keys(io), sorted_keys(io), io.grad});
  // Gradient read; row and states read and written.
  const double vector_bytes =
                   static_cast<double>(spec_.layout.width * float_type_bytes(place_.type)),
               row_bytes =
                   static_cast<double>(spec_.whole_gradients ? spec_.layout.width * kFloatBytes
                                                             : spec_.stored_row_bytes());
  const double bytes = exchange_ ? exchange_->forecast().moved_bytes().update
                                 : static_cast<double>(spec_.layout.columns()) * vector_bytes +
                                       place_.rows_of_sample(spec_.layout) * row_bytes * 2.0;
  plan.add({.name = spec_.name + name,
            .lane = plan::Lane::kEmbedding,
            .reads = plan::present(reads),
            .writes = changed,
            .run =
                [this, io](const StepContext& c) {
                  if (how().atomic) sort(c, io);
                  if (spec_.whole_gradients)
                    update(c, io, whole_.summed(), undecided_scale(*buffers_, io));
                  else
                    update(c, io, storage_.own(), gradient_scale(*buffers_, io));
                },
            .bytes_per_sample = bytes});
}

}  // namespace hlite::embedding
