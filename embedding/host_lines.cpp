#include "embedding/host_lines.h"

#include <algorithm>
#include <span>

#include "embedding/number_rows.h"

namespace hlite::embedding {

HostLines::HostLines(const TierSetup& setup, std::vector<StorageTier> memories,
                     const DeviceRowCacheOptions& device, const RowCacheOptions& host)
    : DiskTier(std::move(memories), host, setup.initial_weights),
      name_(setup.spec.name),
      exec_(setup.place.exec()),
      train_batch_(setup.place.train_batch),
      hashed_(setup.spec.hash_capacity > 0),
      device_(device),
      slots_(Exec{}, hashed_ ? setup.spec.layout.pooled(setup.rows) : setup.spec.layout),
      max_(setup.place.max_batch * setup.spec.layout.keys.columns),
      pinned_bytes_(bytes(setup.spec, setup.place.max_batch)),
      columns_(setup.spec.key_columns, setup.spec.batch_columns) {}

// A destructor cannot report a failure.
HostLines::~HostLines() {
  cuda::Failure ignored;
  if (recall_) (void)exec_.cuda->event_destroy.entry(&ignored, recall_);
}

int64_t HostLines::bytes(const TablesSpec& spec, int64_t max_batch) {
  const int64_t lists = spec.hash_capacity > 0 ? 4 : 2;
  return max_batch * (lists * spec.layout.keys.columns + spec.layout.columns()) *
         static_cast<int64_t>(sizeof(uint32_t));
}

void HostLines::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  const int64_t bytes = max_ * static_cast<int64_t>(sizeof(uint32_t));
  copied_ = buffers.add(name_ + ".host_lines", plan::BufferKind::kInput, bytes);
  if (hashed_) copied_rows_ = buffers.add(name_ + ".rows", plan::BufferKind::kInput, bytes);
}

void HostLines::attach(const Exec& exec, const UpdatedRows& lines) {
  device_.attach(exec, lines);
  cache_.attach(device_.host_rows());
  if (recall_) return;
  memory_ = PinnedMemory(*exec_.cuda, static_cast<size_t>(pinned_bytes_));
  columns_.prepare(Exec{});
  for (HostMemory* const keys : {&own_keys_, &own_next_keys_})
    if (columns_.selects())
      *keys = HostMemory(static_cast<size_t>(max_) * sizeof(uint32_t), "keys of a batch");
  exec_.cuda->event_create(&recall_);
}

plan::BufferId HostLines::emit(plan::Plan& plan) {
  const int64_t row_bytes = slots_.ref().columns * static_cast<int64_t>(sizeof(uint32_t));
  plan.add({.name = name_ + ".host_lines",
            .lane = plan::Lane::kCopy,
            .reads = {},
            .writes = plan::present({copied_, copied_rows_}),
            .run =
                [this, row_bytes](const plan::StepContext& c) {
                  const auto copy = [&](plan::BufferId to, const uint32_t* from) {
                    c.exec.cuda->copy(buffers_->data<std::byte>(to), from,
                                      static_cast<size_t>(c.batch * row_bytes), c.exec.stream);
                  };
                  copy(copied_, lines_on(side_, c.batch).data());
                  if (hashed_) copy(copied_rows_, rows_on(side_, c.batch).data());
                },
            .bytes_per_sample = static_cast<double>(row_bytes * (hashed_ ? 2 : 1)),
            .tier = traffic(1, train_batch_, /*ahead=*/true)});
  return copied_;
}

void HostLines::admit(const Exec& exec, Matrix<const uint32_t> rows, Matrix<uint32_t> lines,
                      int64_t first, int64_t count, bool training) {
  const Matrix<const uint32_t> host_lines(buffers_->data<uint32_t>(copied_), rows.dim(0),
                                          rows.dim(1));
  device_.admit(exec, rows, host_lines, lines, first, count, training);
}

// The GPU's lines go to those of the host first.
void HostLines::read(size_t part, std::span<const uint32_t> rows, void* out) {
  device_.flush();
  cache_.read(part, rows, out);
}
void HostLines::write(size_t part, std::span<const uint32_t> rows, const void* in) {
  device_.flush();
  device_.forget();
  cache_.write(part, rows, in);
}

void HostLines::count(std::vector<StorageTier>& memories) const {
  memories.front().moved = device_.counts();
  DiskTier::count(memories);
}

uint32_t* HostLines::list(int i) const {
  return reinterpret_cast<uint32_t*>(memory_.data()) + i * max_;
}

Matrix<uint32_t> HostLines::lines_on(int i, int64_t batch) const {
  return {list(i), batch, slots_.ref().columns};
}

Matrix<uint32_t> HostLines::rows_on(int i, int64_t batch) const {
  return {list(2 + i), batch, slots_.ref().columns};
}

// The layer's keys of a batch: where they lie, or selected.
Matrix<const uint32_t> HostLines::own_keys(const Exec& host, const uint32_t* keys, int64_t batch,
                                           const HostMemory& memory) const {
  const int64_t columns = slots_.ref().columns;
  if (!columns_.selects()) return {keys, batch, columns};
  const Matrix<uint32_t> own(reinterpret_cast<uint32_t*>(memory.data()), batch, columns);
  columns_.select(host, keys, own);
  return own;
}

// ---- A batch ahead ----

// Finds the rows of a batch: for choose(), and if hashed also to be copied.
void HostLines::find(const Exec& host, Matrix<const uint32_t> keys, int to, bool training) {
  const SlotsRef& slots = slots_.ref();
  if (hashed_)
    rows_ = find_rows_(host, slots, keys, rows_on(to, keys.dim(0)), training);
  else
    number_rows(host, slots, keys, lines_on(to, keys.dim(0)));
}

// Chooses the lines of the batch that find() had, and asks the GPU for the rows that they are taken
// from.
void HostLines::choose(const Exec& gpu, const Exec& host, int64_t batch, int to, bool training) {
  const SlotsRef& slots = slots_.ref();
  const Matrix<uint32_t> lines = lines_on(to, batch);
  if (hashed_) std::copy_n(rows_on(to, batch).data(), lines.size(), lines.data());
  cache_.choose(host, lines, slots.first_column, slots.lookups, training);
  chosen_ = true;
  recalled_ = !cache_.evicted().empty();
  if (!recalled_) return;
  uint32_t* const evicted = list(hashed_ ? 4 : 2);
  std::ranges::copy(cache_.evicted(), evicted);
  device_.recall(gpu, {evicted, std::ssize(cache_.evicted())});
  exec_.cuda->event_record(recall_, gpu.stream);
}

void HostLines::fill(const Exec& host) {
  if (recalled_) exec_.cuda->event_synchronize(recall_);
  chosen_ = recalled_ = false;
  cache_.fill(host);
}

void HostLines::begin_run(const Exec& gpu, const Exec& host, const plan::HostInput& input,
                          int64_t batch, bool training) {
  const SlotsRef& slots = slots_.ref();
  const Matrix<const uint32_t> keys = own_keys(host, input.keys, batch, own_keys_);
  const std::span all(keys.data(), static_cast<size_t>(keys.size()));
  const bool known = !all.empty() && training == next_trains_ && version_ == cache_.version() &&
                     std::ranges::equal(all, next_keys_);
  next_keys_.clear();
  if (known) side_ = 1 - side_;
  if (hashed_ || !known) find(host, keys, side_, training);
  if (!known || rows_ != next_rows_) {
    choose(gpu, host, batch, side_, training);
    fill(host);
  } else if (training) {
    cache_.will_change(host, lines_on(side_, batch), slots.first_column, slots.lookups);
  }
  if (!input.next_keys) return;
  const Matrix<const uint32_t> next =
      own_keys(host, input.next_keys, input.next_batch, own_next_keys_);
  next_keys_.assign(next.data(), next.data() + next.size());
  // A checkpoint may come before it, which is to hold no row that was never trained.
  find(host, next, 1 - side_, /*training=*/false);
  choose(gpu, host, input.next_batch, 1 - side_, /*training=*/false);
  version_ = cache_.version();
  next_trains_ = training;
  next_rows_ = rows_;
}

void HostLines::end_run(const Exec& host) {
  if (chosen_) fill(host);
}

}  // namespace hlite::embedding
