#include "embedding/local_steps.h"

#include "embedding/hashed_lookup.h"
#include "embedding/lookup.h"

namespace hlite::embedding {

using plan::StepContext;

LocalSteps::LocalSteps(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
                       const TablesPlace& place)
    : spec_(spec),
      storage_(storage),
      index_(index),
      layout_(index ? spec.layout.pooled(storage.own_rows()) : spec.layout),
      exec_(place.exec()),
      type_(place.type),
      max_batch_(place.max_batch),
      sample_rows_(static_cast<double>(spec.layout.columns()) *
                   (place.rows_per_lookup > 0 ? place.rows_per_lookup : 1)),
      how_{.rule = spec.whole_gradients ? WholeTableUpdate::sum_rule() : spec.rule,
           .type = spec.whole_gradients ? optimizer::UpdateType::kLocal : spec.update_type,
           .atomic = spec.atomic_update && !spec.whole_gradients && exec_.on_gpu(),
           .max_batch = place.train_batch,
           .threads = place.threads},
      whole_(spec, storage) {}

void LocalSteps::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  if (index_)
    rows_ = buffers.add(spec_.name + ".rows", plan::BufferKind::kActivation,
                        max_batch_ * layout_.keys.columns * static_cast<int64_t>(sizeof(uint32_t)));
  if (spec_.whole_gradients) whole_.declare(buffers);
  if (!how_.atomic)
    sorted_ = buffers.add(spec_.name + ".sorted", plan::BufferKind::kActivation,
                          sizeof(optimizer::StepScalars));
}

int64_t LocalSteps::workspace_bytes() const {
  return SparseUpdate::workspace_bytes(exec_, DeviceSlots::numbers(exec_, layout_), how_);
}

void LocalSteps::prepare() {
  slots_ = std::make_unique<DeviceSlots>(exec_, layout_);
  if (exec_.on_gpu() && !index_)
    for (auto* const errors : {&train_errors_, &eval_errors_})
      *errors = std::make_unique<KeyErrors>(exec_, spec_.layout.keys.columns);
  if (updates_) update_ = std::make_unique<SparseUpdate>(exec_, slots_->ref(), how_);
}

Matrix<uint32_t> LocalSteps::key_matrix(plan::BufferId id, int64_t batch) const {
  return {buffers_->data<uint32_t>(id), batch, layout_.keys.columns};
}

void LocalSteps::find_rows(const StepContext& c, const TablesIo& io) {
  index_->find_rows(c.exec, slots_->ref(), key_matrix(io.keys, c.batch), key_matrix(rows_, c.batch),
                    io.training);
}

template <typename T>
void LocalSteps::look_up(const StepContext& c, const TablesIo& io) {
  KeyCheck check;
  // Counted behind the lookups: here it is the step of the iteration before.
  if (train_errors_ && io.training)
    check = train_errors_->check(buffers_->data<int64_t>(io.step));
  else if (eval_errors_)
    check = eval_errors_->check(nullptr);
  const View<T, 3> out(buffers_->data<T>(io.output), c.batch, spec_.layout.slots(),
                       spec_.layout.width);
  const Matrix<const float> table = storage_.own().w;
  const Matrix<uint32_t> keys = key_matrix(lookup_keys(io), c.batch);
  const bool unseen = index_ && !io.training;  // keys may have no row
  SlotsRef slots = slots_->ref();
  if (unseen) slots.complete = false;
  lookup_forward<T>(c.exec, slots, table, keys, out, check);
  if (!unseen) return;
  const HashedArgs batch{.slots = slots, .keys = key_matrix(io.keys, c.batch), .rows = keys};
  pool_unseen<T>(c.exec, batch, table, index_->first_values(), out);
}

void LocalSteps::sort(const StepContext& c, const TablesIo& io) {
  auto* const scalars = how_.atomic ? nullptr : buffers_->data<optimizer::StepScalars>(sorted_);
  const plan::BufferId rate = spec_.whole_gradients ? whole_.sum_rate() : io.rate;
  update_->sort(c.exec, key_matrix(lookup_keys(io), c.batch), buffers_->data<float>(rate),
                buffers_->data<int64_t>(io.step), scalars);
}

template <typename T>
void LocalSteps::update(const StepContext& c, const TablesIo& io) {
  if (how_.atomic) sort(c, io);
  const View<const T, 3> gradient(buffers_->data<T>(io.grad), c.batch, spec_.layout.slots(),
                                  spec_.layout.width);
  if (spec_.whole_gradients)
    update_->update<T>(c.exec, gradient, whole_.summed(), undecided_scale(*buffers_, io));
  else
    update_->update<T>(c.exec, gradient, storage_.own(), gradient_scale(*buffers_, io));
}

void LocalSteps::emit_forward(plan::Plan& plan, const TablesIo& io) {
  if (index_) {
    std::vector<plan::BufferId> reads = {io.keys}, writes = {rows_};
    const std::vector<plan::BufferId> own = storage_.own_buffers();
    reads.insert(reads.end(), own.begin(), own.end());
    if (io.training) writes.insert(writes.end(), own.begin(), own.end());
    plan.add({.name = spec_.name + ".index",
              .lane = plan::Lane::kEmbedding,
              .reads = reads,
              .writes = writes,
              .run = [this, io](const StepContext& c) { find_rows(c, io); },
              // A key and its place in the hash table, which is a cache line.
              .bytes_per_sample = static_cast<double>(layout_.columns()) * (8 + 64)});
  }
  const auto width = static_cast<double>(spec_.layout.width);
  const double bytes =
      width * (sample_rows_ * sizeof(float) + static_cast<double>(spec_.layout.slots()) *
                                                  static_cast<double>(float_type_bytes(type_)));
  const std::vector<plan::BufferId> reads =
      plan::present({lookup_keys(io), storage_.own_weights(), index_ ? io.keys : plan::kNoBuffer,
                     io.training && exec_.on_gpu() ? io.step : plan::kNoBuffer});
  with_float_type(type_, [&]<typename T>() {
    plan.add({.name = spec_.name + ".lookup",
              .lane = plan::Lane::kEmbedding,
              .reads = reads,
              .writes = {io.output},
              .run = [this, io](const StepContext& c) { look_up<T>(c, io); },
              .bytes_per_sample = bytes});
  });
}

// Needs no gradients: it runs beside what makes them.
void LocalSteps::emit_backward(plan::Plan& plan, const TablesIo& io) {
  if (how_.atomic) return;
  if (spec_.whole_gradients) whole_.emit_clear(plan);
  // To and fro, four times, with the list's two halves.
  const double bytes = static_cast<double>(spec_.layout.columns()) * 4 * 16;
  plan.add(
      {.name = spec_.name + ".sort",
       .lane = plan::Lane::kEmbedding,
       .reads = {lookup_keys(io), spec_.whole_gradients ? whole_.sum_rate() : io.rate, io.step},
       .writes = {sorted_},
       .run = [this, io](const StepContext& c) { sort(c, io); },
       .bytes_per_sample = bytes});
  if (spec_.whole_gradients) emit_sparse_update(plan, io, ".gradients", {whole_.gradients()});
}

void LocalSteps::emit_update(plan::Plan& plan, const TablesIo& io) {
  if (spec_.whole_gradients) return whole_.emit_update(plan, io, whole_.of_own_rows());
  emit_sparse_update(plan, io, ".update", storage_.own_buffers());
}

std::vector<WholeGradients> LocalSteps::whole_gradients() const {
  if (!spec_.whole_gradients) return {};
  return {whole_.of_own_rows()};
}

// `changed`: the rows and what is kept of them, or the gradients in place of these.
void LocalSteps::emit_sparse_update(plan::Plan& plan, const TablesIo& io, const char* name,
                                    const std::vector<plan::BufferId>& changed) {
  updates_ = true;
  std::vector<plan::BufferId> reads = {lookup_keys(io), io.grad, io.rate, io.step};
  reads.insert(reads.end(), changed.begin(), changed.end());
  reads.insert(reads.end(), {sorted_, io.loss_scale, io.overflow});
  // Gradient read; row and states read and written.
  const double vector_bytes = static_cast<double>(spec_.layout.width * float_type_bytes(type_)),
               row_bytes = static_cast<double>(spec_.layout.width) * sizeof(float);
  with_float_type(type_, [&]<typename T>() {
    plan.add(
        {.name = spec_.name + name,
         .lane = plan::Lane::kEmbedding,
         .reads = plan::present(reads),
         .writes = changed,
         .run = [this, io](const StepContext& c) { update<T>(c, io); },
         .bytes_per_sample = static_cast<double>(spec_.layout.columns()) * vector_bytes +
                             sample_rows_ * row_bytes * 2.0 * static_cast<double>(changed.size())});
  });
}

void LocalSteps::check(const Exec& exec) {
  check_keys_of(spec_.name, exec, train_errors_.get(), eval_errors_.get());
}

}  // namespace hlite::embedding
