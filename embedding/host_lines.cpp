#include "embedding/host_lines.h"

#include <algorithm>
#include <span>

#include "embedding/number_rows.h"

namespace hlite::embedding {

HostLines::HostLines(const TableStorage& storage, const SlotLayout& layout, int64_t max_batch)
    : storage_(storage), slots_(Exec{}, layout), max_(max_batch * layout.keys.columns) {}

// A destructor cannot report a failure.
HostLines::~HostLines() {
  cuda::Failure ignored;
  if (recall_) (void)gpu_->event_destroy.entry(&ignored, recall_);
}

int64_t HostLines::bytes(const SlotLayout& layout, int64_t max_batch) {
  return max_batch * (2 * layout.keys.columns + layout.columns()) *
         static_cast<int64_t>(sizeof(uint32_t));
}

void HostLines::prepare(const cuda::Backend& gpu) {
  gpu_ = &gpu;
  const SlotsRef& slots = slots_.ref();
  memory_ = PinnedMemory(
      gpu, static_cast<size_t>(2 * max_ + max_ / slots.columns * slots.lookups) * sizeof(uint32_t));
  gpu.event_create(&recall_);
}

std::byte* HostLines::side(int i) const {
  return memory_.data() + i * max_ * static_cast<int64_t>(sizeof(uint32_t));
}

Matrix<uint32_t> HostLines::lines_on(int i, int64_t batch) const {
  return {reinterpret_cast<uint32_t*>(side(i)), batch, slots_.ref().columns};
}

// Chooses the lines of a batch and asks the GPU for the rows that they are taken from.
void HostLines::choose(const Exec& gpu, const Exec& host, Matrix<const uint32_t> keys, int to,
                       bool training) {
  const SlotsRef& slots = slots_.ref();
  const Matrix<uint32_t> lines = lines_on(to, keys.dim(0));
  number_rows(host, slots, keys, lines);
  RowCache& cache = *storage_.cache();
  cache.choose(host, lines, slots.first_column, slots.lookups, training);
  chosen_ = true;
  recalled_ = !cache.evicted().empty();
  if (!recalled_) return;
  auto* const evicted = reinterpret_cast<uint32_t*>(side(2));
  std::ranges::copy(cache.evicted(), evicted);
  storage_.recall(gpu, {evicted, std::ssize(cache.evicted())});
  gpu_->event_record(recall_, gpu.stream);
}

void HostLines::fill(const Exec& host) {
  if (recalled_) gpu_->event_synchronize(recall_);
  chosen_ = recalled_ = false;
  storage_.cache()->fill(host);
}

void HostLines::begin_run(const Exec& gpu, const Exec& host, const plan::HostInput& input,
                          int64_t batch, bool training) {
  const SlotsRef& slots = slots_.ref();
  const int64_t columns = slots.columns;
  const std::span keys(input.keys, static_cast<size_t>(batch * columns));
  const bool known = !keys.empty() && training == next_trains_ &&
                     version_ == storage_.cache()->version() &&
                     std::ranges::equal(keys, next_keys_);
  next_keys_.clear();
  if (known) {
    side_ = 1 - side_;
    if (training)
      storage_.cache()->will_change(host, lines_on(side_, batch), slots.first_column,
                                    slots.lookups);
  } else {
    choose(gpu, host, {input.keys, batch, columns}, side_, training);
    fill(host);
  }
  if (!input.next_keys) return;
  next_keys_.assign(input.next_keys, input.next_keys + input.next_batch * columns);
  // A checkpoint may come before it, which is to hold no row that was never trained.
  choose(gpu, host, {input.next_keys, input.next_batch, columns}, 1 - side_, /*training=*/false);
  version_ = storage_.cache()->version();
  next_trains_ = training;
}

void HostLines::end_run(const Exec& host) {
  if (chosen_) fill(host);
}

}  // namespace hlite::embedding
