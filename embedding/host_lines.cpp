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
      device_(device),
      slots_(Exec{}, setup.spec.layout),
      max_(setup.place.max_batch * setup.spec.layout.keys.columns),
      pinned_bytes_(bytes(setup.spec.layout, setup.place.max_batch)) {}

// A destructor cannot report a failure.
HostLines::~HostLines() {
  cuda::Failure ignored;
  if (recall_) (void)exec_.cuda->event_destroy.entry(&ignored, recall_);
}

int64_t HostLines::bytes(const SlotLayout& layout, int64_t max_batch) {
  return max_batch * (2 * layout.keys.columns + layout.columns()) *
         static_cast<int64_t>(sizeof(uint32_t));
}

void HostLines::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  copied_ = buffers.add(name_ + ".host_lines", plan::BufferKind::kInput,
                        max_ * static_cast<int64_t>(sizeof(uint32_t)));
}

void HostLines::attach(const Exec& exec, const UpdatedRows& lines) {
  device_.attach(exec, lines);
  cache_.attach(device_.host_rows());
  if (recall_) return;
  memory_ = PinnedMemory(*exec_.cuda, static_cast<size_t>(pinned_bytes_));
  exec_.cuda->event_create(&recall_);
}

plan::BufferId HostLines::emit(plan::Plan& plan) {
  const int64_t row_bytes = slots_.ref().columns * static_cast<int64_t>(sizeof(uint32_t));
  plan.add({.name = name_ + ".host_lines",
            .lane = plan::Lane::kCopy,
            .reads = {},
            .writes = {copied_},
            .run =
                [this, row_bytes](const plan::StepContext& c) {
                  c.exec.cuda->copy(buffers_->data<std::byte>(copied_), batch_lines(),
                                    static_cast<size_t>(c.batch * row_bytes), c.exec.stream);
                },
            .bytes_per_sample = static_cast<double>(row_bytes),
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

std::byte* HostLines::side(int i) const {
  return memory_.data() + i * max_ * static_cast<int64_t>(sizeof(uint32_t));
}

Matrix<uint32_t> HostLines::lines_on(int i, int64_t batch) const {
  return {reinterpret_cast<uint32_t*>(side(i)), batch, slots_.ref().columns};
}

// ---- A batch ahead ----

// Chooses the lines of a batch and asks the GPU for the rows that they are taken from.
void HostLines::choose(const Exec& gpu, const Exec& host, Matrix<const uint32_t> keys, int to,
                       bool training) {
  const SlotsRef& slots = slots_.ref();
  const Matrix<uint32_t> lines = lines_on(to, keys.dim(0));
  number_rows(host, slots, keys, lines);
  cache_.choose(host, lines, slots.first_column, slots.lookups, training);
  chosen_ = true;
  recalled_ = !cache_.evicted().empty();
  if (!recalled_) return;
  auto* const evicted = reinterpret_cast<uint32_t*>(side(2));
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
  const int64_t columns = slots.columns;
  const std::span keys(input.keys, static_cast<size_t>(batch * columns));
  const bool known = !keys.empty() && training == next_trains_ && version_ == cache_.version() &&
                     std::ranges::equal(keys, next_keys_);
  next_keys_.clear();
  if (known) {
    side_ = 1 - side_;
    if (training)
      cache_.will_change(host, lines_on(side_, batch), slots.first_column, slots.lookups);
  } else {
    choose(gpu, host, {input.keys, batch, columns}, side_, training);
    fill(host);
  }
  if (!input.next_keys) return;
  next_keys_.assign(input.next_keys, input.next_keys + input.next_batch * columns);
  // A checkpoint may come before it, which is to hold no row that was never trained.
  choose(gpu, host, {input.next_keys, input.next_batch, columns}, 1 - side_, /*training=*/false);
  version_ = cache_.version();
  next_trains_ = training;
}

void HostLines::end_run(const Exec& host) {
  if (chosen_) fill(host);
}

}  // namespace hlite::embedding
