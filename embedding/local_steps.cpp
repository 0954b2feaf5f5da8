#include "embedding/local_steps.h"

#include "embedding/lookup.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

using plan::StepContext;

LocalSteps::LocalSteps(const TablesSpec& spec, const TableStorage& storage, const Exec& exec,
                       FloatType type, int64_t train_batch, int threads)
    : spec_(spec),
      storage_(storage),
      exec_(exec),
      type_(type),
      how_{.rule = spec.rule,
           .type = spec.update_type,
           .atomic = spec.atomic_update && exec.on_gpu(),
           .max_batch = train_batch,
           .threads = threads} {}

void LocalSteps::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  if (!how_.atomic)
    sorted_ = buffers.add(spec_.name + ".sorted", plan::BufferKind::kActivation,
                          sizeof(optimizer::StepScalars));
}

int64_t LocalSteps::workspace_bytes() const {
  return SparseUpdate::workspace_bytes(exec_, DeviceSlots::numbers(exec_, spec_.layout), how_);
}

void LocalSteps::prepare() {
  slots_ = std::make_unique<DeviceSlots>(exec_, spec_.layout);
  if (exec_.on_gpu())
    for (auto* const errors : {&train_errors_, &eval_errors_})
      *errors = std::make_unique<KeyErrors>(exec_, spec_.layout.keys.columns);
  if (updates_) update_ = std::make_unique<SparseUpdate>(exec_, slots_->ref(), how_);
}

Matrix<const uint32_t> LocalSteps::keys_of(const TablesIo& io, int64_t batch) const {
  return {buffers_->data<uint32_t>(io.keys), batch, spec_.layout.keys.columns};
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
  lookup_forward<T>(c.exec, slots_->ref(), storage_.own().w, keys_of(io, c.batch), out, check);
}

void LocalSteps::sort(const StepContext& c, const TablesIo& io) {
  auto* const scalars = how_.atomic ? nullptr : buffers_->data<optimizer::StepScalars>(sorted_);
  update_->sort(c.exec, keys_of(io, c.batch), buffers_->data<float>(io.rate),
                buffers_->data<int64_t>(io.step), scalars);
}

template <typename T>
void LocalSteps::update(const StepContext& c, const TablesIo& io) {
  if (how_.atomic) sort(c, io);
  const View<const T, 3> gradient(buffers_->data<T>(io.grad), c.batch, spec_.layout.slots(),
                                  spec_.layout.width);
  update_->update<T>(c.exec, gradient, storage_.own(), gradient_scale(*buffers_, io));
}

void LocalSteps::emit_forward(plan::Plan& plan, const TablesIo& io) {
  const auto width = static_cast<double>(spec_.layout.width);
  const double bytes = width * (static_cast<double>(spec_.layout.columns()) * sizeof(float) +
                                static_cast<double>(spec_.layout.slots()) *
                                    static_cast<double>(float_type_bytes(type_)));
  std::vector<plan::BufferId> reads = {io.keys, storage_.own_weights()};
  if (io.training && exec_.on_gpu()) reads.push_back(io.step);
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
  // To and fro, four times, with the list's two halves.
  const double bytes = static_cast<double>(spec_.layout.columns()) * 4 * 16;
  plan.add({.name = spec_.name + ".sort",
            .lane = plan::Lane::kEmbedding,
            .reads = {io.keys, io.rate, io.step},
            .writes = {sorted_},
            .run = [this, io](const StepContext& c) { sort(c, io); },
            .bytes_per_sample = bytes});
}

void LocalSteps::emit_update(plan::Plan& plan, const TablesIo& io) {
  updates_ = true;
  const std::vector<plan::BufferId> own = storage_.own_buffers();
  std::vector<plan::BufferId> reads = {io.keys, io.grad, io.rate, io.step};
  reads.insert(reads.end(), own.begin(), own.end());
  if (sorted_ != plan::kNoBuffer) reads.push_back(sorted_);
  for (const plan::BufferId verdict : {io.loss_scale, io.overflow})
    if (verdict != plan::kNoBuffer) reads.push_back(verdict);
  // Gradient read; row and states read and written.
  const double vector_bytes = static_cast<double>(spec_.layout.width * float_type_bytes(type_)),
               row_bytes = static_cast<double>(spec_.layout.width) * sizeof(float);
  with_float_type(type_, [&]<typename T>() {
    plan.add(
        {.name = spec_.name + ".update",
         .lane = plan::Lane::kEmbedding,
         .reads = reads,
         .writes = own,
         .run = [this, io](const StepContext& c) { update<T>(c, io); },
         .bytes_per_sample = static_cast<double>(spec_.layout.columns()) *
                             (vector_bytes + row_bytes * 2.0 * static_cast<double>(own.size()))});
  });
}

void LocalSteps::check(const Exec& exec) {
  for (auto* const errors : {train_errors_.get(), eval_errors_.get()}) {
    if (!errors) continue;
    errors->fetch(exec);
    exec.cuda->stream_synchronize(exec.stream);
    const auto error = errors->found();
    if (!error) continue;
    raise<DeviceError>(
        "{}: a lookup on the GPU met a key beyond its table: {} in column {} of sample {} of the "
        "batch in {}; the reader lets none pass, so the batch changed on its way: a fault of "
        "memory, or of this program",
        spec_.name, error->key, error->column, error->sample,
        errors == train_errors_.get() ? fmt::format("iteration {}", error->step + 1)
                                      : "an evaluation");
  }
}

}  // namespace hlite::embedding
