#include "embedding/host_lines.h"

#include <algorithm>

namespace hlite::embedding {

HostLines::HostLines(const TierSetup& setup, std::vector<StorageTier> memories,
                     const DeviceRowCacheOptions& device, const RowCacheOptions& host)
    : DiskTier(std::move(memories), host, setup.initial_weights),
      name_(setup.spec.name),
      exec_(setup.place.exec()),
      train_batch_(setup.place.train_batch),
      hashed_(setup.spec.hash_capacity > 0),
      device_(device),
      columns_(setup.spec.layout.keys.columns),
      max_(max_rows(setup.spec, setup.place.max_batch, setup.place.ranks.ranks())),
      pinned_bytes_(bytes(setup.spec, setup.place.max_batch, setup.place.ranks.ranks())) {}

// A destructor cannot report a failure.
HostLines::~HostLines() {
  cuda::Failure ignored;
  if (recall_) (void)exec_.cuda->event_destroy.entry(&ignored, recall_);
}

// Lists of several ranks hold the layer's lookups alone, and at most all of them.
int64_t HostLines::max_rows(const TablesSpec& spec, int64_t max_batch, int ranks) {
  return max_batch * (ranks == 1 ? spec.layout.keys.columns : ranks * spec.layout.columns());
}

int64_t HostLines::bytes(const TablesSpec& spec, int64_t max_batch, int ranks) {
  const int64_t lists = spec.hash_capacity > 0 ? 4 : 2;
  return (lists * max_rows(spec, max_batch, ranks) + ranks * max_batch * spec.layout.columns()) *
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
  exec_.cuda->event_create(&recall_);
}

plan::BufferId HostLines::emit(plan::Plan& plan) {
  const auto sample_bytes = static_cast<double>(columns_ * static_cast<int64_t>(sizeof(uint32_t)));
  plan.add({.name = name_ + ".host_lines",
            .lane = plan::Lane::kCopy,
            .reads = {},
            .writes = plan::present({copied_, copied_rows_}),
            .run =
                [this](const plan::StepContext& c) {
                  const size_t bytes =
                      static_cast<size_t>(host_rows_->shape(c.batch).size()) * sizeof(uint32_t);
                  const auto copy = [&](plan::BufferId to, const uint32_t* from) {
                    c.exec.cuda->copy(buffers_->data<std::byte>(to), from, bytes, c.exec.stream);
                  };
                  copy(copied_, list(side_));
                  if (hashed_) copy(copied_rows_, rows_on(side_));
                },
            .bytes_per_sample = sample_bytes * (hashed_ ? 2 : 1),
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

Matrix<uint32_t> HostLines::lines_on(int side, const HostRows::Shape& shape) const {
  HLITE_CHECK(shape.size() <= max_, "{}: {} rows of a batch, at most {}", name_, shape.size(),
              max_);
  return {list(side), shape.lists, shape.columns};
}

// ---- A batch ahead ----

// Finds the rows of a batch: for choose(), and if hashed also to be copied.
void HostLines::find(const Exec& host, HostRows::Batch batch, int to, bool training) {
  const Matrix<uint32_t> lines = lines_on(to, host_rows_->shape(batch));
  rows_ = host_rows_->find(host, batch, hashed_ ? rows_on(to) : lines.data(), training);
}

// Chooses the lines of the batch that find() had, and asks the GPU for the rows that they are taken
// from.
void HostLines::choose(const Exec& gpu, const Exec& host, HostRows::Batch batch, int to,
                       bool training) {
  const HostRows::Shape shape = host_rows_->shape(batch);
  const Matrix<uint32_t> lines = lines_on(to, shape);
  if (hashed_) std::copy_n(rows_on(to), lines.size(), lines.data());
  cache_.choose(host, lines, shape.first, shape.count, training);
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

void HostLines::begin_run(const Exec& gpu, const Exec& host, bool training) {
  const bool known =
      host_rows_->was_next() && training == next_trains_ && version_ == cache_.version();
  if (known) side_ = 1 - side_;
  if (hashed_ || !known) find(host, HostRows::kThis, side_, training);
  if (!known || rows_ != next_rows_) {
    choose(gpu, host, HostRows::kThis, side_, training);
    fill(host);
  } else if (training) {
    const HostRows::Shape shape = host_rows_->shape(HostRows::kThis);
    cache_.will_change(host, lines_on(side_, shape), shape.first, shape.count);
  }
  if (!host_rows_->has_next()) return;
  // A checkpoint may come before it, which is to hold no row that was never trained.
  find(host, HostRows::kNext, 1 - side_, /*training=*/false);
  choose(gpu, host, HostRows::kNext, 1 - side_, /*training=*/false);
  version_ = cache_.version();
  next_trains_ = training;
  next_rows_ = rows_;
}

void HostLines::end_run(const Exec& host) {
  if (chosen_) fill(host);
}

}  // namespace hlite::embedding
