// The sparse update on the CPU.
#include <algorithm>

#include "embedding/cutter.h"
#include "embedding/key_sort.h"
#include "embedding/row_access.h"
#include "embedding/sparse_update_args.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::embedding {
namespace {
using optimizer::OptimizerType;

// Pairs whose rows are asked for before they are used.
constexpr int64_t kPairsAhead = 16;
// Tasks a thread should get at least, so that uneven ones even out, and pairs a task is worth.
constexpr int64_t kTasksPerThread = 4, kPairsPerTask = 256;
// Floats of a task when whole tables are swept.
constexpr int64_t kSweepFloats = int64_t{1} << 16;

int64_t in_lines(int64_t width) { return (width + 15) / 16 * 16; }

struct Workspace {
  uint64_t* pairs;    // [lookups, max_batch] sorted, a slot's from its first column on
  int64_t* count;     // [slots] pairs
  int64_t* tasks;     // [slots + 1] tasks of the slots before
  float* scale;       // [slots, max_batch] 1 / keys of the sample, for a mean
  uint64_t* scratch;  // [threads, max_batch * most_hotness]
  uint32_t* counts;   // [threads, kSortCounts]
  float* gradient;    // [threads, V in whole cache lines] the sum of a segment
  uint8_t* touched;   // [total_rows], for sweeps
  size_t bytes;
};

Workspace cut_workspace(const SparseUpdateShape& shape, std::byte* memory) {
  Cutter cutter(memory);
  Workspace space{};
  space.pairs = cutter.cut<uint64_t>(shape.lookups * shape.max_batch);
  space.count = cutter.cut<int64_t>(shape.slots);
  space.tasks = cutter.cut<int64_t>(shape.slots + 1);
  if (shape.scales) space.scale = cutter.cut<float>(shape.slots * shape.max_batch);
  space.scratch = cutter.cut<uint64_t>(shape.threads * shape.max_batch * shape.most_hotness);
  space.counts = cutter.cut<uint32_t>(shape.threads * kSortCounts);
  space.gradient = cutter.cut<float>(shape.threads * in_lines(shape.width));
  if (shape.sweeps) space.touched = cutter.cut<uint8_t>(shape.total_rows);
  space.bytes = cutter.bytes();
  return space;
}

uint64_t* pairs_of(const SparseSortArgs& args, const Workspace& space, int64_t slot) {
  return space.pairs +
         (args.slots.slots[slot].column - args.slots.first_column) * args.shape.max_batch;
}

// Sorts the slot's pairs; for a mean also fills its scales.
void sort_slot(const SparseSortArgs& args, const Workspace& space, int64_t slot, int worker) {
  const SlotRef& of = args.slots.slots[slot];
  const int64_t hotness = args.slots.hotness(slot);
  space.count[slot] =
      sort_pairs(args.keys, of.column, hotness, of.rows, pairs_of(args, space, slot),
                 space.scratch + worker * args.shape.max_batch * args.shape.most_hotness,
                 space.counts + worker * kSortCounts);
  if (!args.shape.scales) return;
  float* scale = space.scale + slot * args.shape.max_batch;
  for (int64_t b = 0; b < args.keys.dim(0); ++b) {
    const uint32_t* key = args.keys.row(b) + of.column;
    const int64_t found =
        std::count_if(key, key + hotness, [&](uint32_t k) { return k < of.rows; });
    scale[b] = 1 / static_cast<float>(std::max<int64_t>(found, 1));
  }
}

// One slot's share of the arrays, and its sorted pairs.
template <typename T>
struct Slot {
  const T* dout;          // of sample 0
  int64_t sample_stride;  // elements from a sample's row of dout to the next one's
  const float* scale;     // of each sample's row; null: all 1
  int64_t first_row;      // of its table
  const uint64_t *begin, *end;
  uint8_t* touched;  // of all rows; null: nobody asks

  // First segment that begins at or after begin + at.
  [[nodiscard]] const uint64_t* segment_from(int64_t at) const {
    if (at == 0) return begin;
    const int64_t row = key_of(begin[at - 1]) + 1;
    return std::partition_point(begin, end, [=](uint64_t pair) { return key_of(pair) < row; });
  }
};

// Sums segments and updates their rows.
template <OptimizerType kType, int kWidth, typename T>
class Segments {
 public:
  Segments(const Slot<T>& of, const RowUpdates<kType, kWidth>& rows, float gradient_scale,
           float* sum)
      : slot_(of), rows_(rows), gradient_scale_(gradient_scale), sum_(sum) {}

  // Updates the rows of pairs [pair, end), both at the edge of a segment.
  void update(const uint64_t* pair, const uint64_t* end) const {
    for (const uint64_t* p = pair; p < slot_.end && p < pair + kPairsAhead; ++p) fetch(p);
    while (pair != end) pair = segment(pair);
  }

 private:
  [[nodiscard]] int64_t width() const { return rows_.width(); }
  [[nodiscard]] const T* gradient_row(uint64_t pair) const {
    return slot_.dout + sample_of(pair) * slot_.sample_stride;
  }
  // What a later pair needs.
  void fetch(const uint64_t* pair) const {
    prefetch_row<0>(gradient_row(*pair), width());
    if (pair != slot_.begin && key_of(*pair) == key_of(pair[-1])) return;
    rows_.prefetch(slot_.first_row + key_of(*pair));
  }

  // Updates the row of the segment that begins at `pair`; returns the segment's end.
  const uint64_t* segment(const uint64_t* pair) const {
    const int64_t key = key_of(*pair);
    const auto next_in_segment = [&] {
      if (slot_.end - pair > kPairsAhead) fetch(pair + kPairsAhead);
      return ++pair != slot_.end && key_of(*pair) == key;
    };
    const float* g = sum_;
    if (slot_.scale != nullptr) [[unlikely]] {
      pair = add_up_scaled(pair);
    } else {
      const T* const first = gradient_row(*pair);
      if (next_in_segment()) {
        add(first, gradient_row(*pair), sum_);
        while (next_in_segment()) Row<kWidth>::add(gradient_row(*pair), width(), sum_);
      } else if constexpr (std::is_same_v<T, float>) {
        g = first;
      } else {
        widen(first, width(), sum_);
      }
    }
    if (gradient_scale_ != 1) [[unlikely]] {
      scale(g);
      g = sum_;
    }
    rows_.update(slot_.first_row + key, g);
    if (slot_.touched) [[unlikely]]
      slot_.touched[slot_.first_row + key] = 1;
    return pair;
  }

  void add(const T* a, const T* b, float* out) const {
#pragma omp simd
    for (int64_t j = 0; j < width(); ++j) out[j] = to_float(a[j]) + to_float(b[j]);
  }

  // The same sum of scaled gradients, into sum_. Kept out of the loop of segments, which is better
  // off small.
  [[gnu::noinline]] const uint64_t* add_up_scaled(const uint64_t* pair) const {
    const int64_t key = key_of(*pair);
    std::fill_n(sum_, width(), 0.f);
    for (; pair != slot_.end && key_of(*pair) == key; ++pair) {
      if (slot_.end - pair > kPairsAhead) fetch(pair + kPairsAhead);
      Row<kWidth>::add_scaled(slot_.scale[sample_of(*pair)], gradient_row(*pair), width(), sum_);
    }
    return pair;
  }

  // sum_ = g * gradient_scale_; g may be sum_.
  [[gnu::noinline]] void scale(const float* g) const {
    for (int64_t j = 0; j < width(); ++j) sum_[j] = g[j] * gradient_scale_;
  }

  const Slot<T> slot_;
  const RowUpdates<kType, kWidth> rows_;
  const float gradient_scale_;
  float* const sum_;  // [width], this thread's
};

// Tasks that a slot's pairs are cut into, so that few slots keep many threads busy too.
int64_t parts_of_a_slot(int64_t slots, int64_t pairs, int threads) {
  const int64_t wanted = (kTasksPerThread * threads + slots - 1) / std::max<int64_t>(slots, 1);
  return threads == 1 ? 1
                      : std::clamp<int64_t>(pairs / kPairsPerTask, 1, std::max<int64_t>(wanted, 1));
}

// Rows without a lookup, with gradient 0.
template <typename Updates>
void sweep(ThreadPool& pool, const Updates& rows, const uint8_t* touched, int64_t count) {
  const int64_t rows_of_task = std::max<int64_t>(1, kSweepFloats / rows.width());
  pool.run((count + rows_of_task - 1) / rows_of_task, [&](int64_t task, int) {
    const int64_t end = std::min((task + 1) * rows_of_task, count);
    wide([&] {
      for (int64_t row = task * rows_of_task; row < end;) {
        const int64_t stop = std::find(touched + row, touched + end, uint8_t{1}) - touched;
        rows.without_gradient(row, stop);
        row = std::find(touched + stop, touched + end, uint8_t{0}) - touched;
      }
    });
  });
}

template <typename T>
Slot<T> slot_of(const SparseUpdateArgs<T>& args, const Workspace& space, int64_t s) {
  const SparseSortArgs& of = args.sorted;
  const uint64_t* pairs = pairs_of(of, space, s);
  const int64_t width = of.shape.width;
  const bool scales = of.shape.scales && of.slots.hotness(s) > 1;
  return {.dout = args.dout.data() + s * width,
          .sample_stride = of.shape.slots * width,
          .scale = scales ? space.scale + s * of.shape.max_batch : nullptr,
          .first_row = of.slots.slots[s].first_row,
          .begin = pairs,
          .end = pairs + space.count[s],
          .touched = space.touched};
}
}  // namespace

size_t cpu::sparse_update_workspace(const SparseUpdateShape& shape) {
  HLITE_CHECK(shape.max_batch * shape.most_hotness < int64_t{1} << 32, "{} samples of {} keys",
              shape.max_batch, shape.most_hotness);
  return cut_workspace(shape, nullptr).bytes;
}

void cpu::sparse_sort(const Exec& exec, const SparseSortArgs& args) {
  HLITE_CHECK(exec.threads().threads() <= args.shape.threads,
              "sparse update: {} threads, expected at most {}", exec.threads().threads(),
              args.shape.threads);
  HLITE_CHECK(*args.step >= 1, "sparse update: step {}, they count from 1", *args.step);
  *args.scalars = optimizer::step_scalars(args.rule, *args.lr, *args.step);
  const Workspace space = cut_workspace(args.shape, args.workspace);
  exec.threads().run(args.shape.slots,
                     [&](int64_t slot, int worker) { sort_slot(args, space, slot, worker); });
}

template <typename T>
void cpu::sparse_update(const Exec& exec, const SparseUpdateArgs<T>& args) {
  const optimizer::GradientScale& scale = args.gradient_scale;
  if (scale.skips()) return;
  const float by = scale.inverse ? *scale.inverse : 1.0f;
  const SparseSortArgs& of = args.sorted;
  const Workspace space = cut_workspace(of.shape, of.workspace);
  ThreadPool& pool = exec.threads();
  const int64_t slots = of.shape.slots;
  space.tasks[0] = 0;
  for (int64_t s = 0; s < slots; ++s)
    space.tasks[s + 1] = space.tasks[s] + parts_of_a_slot(slots, space.count[s], pool.threads());
  if (space.touched) std::fill_n(space.touched, of.shape.total_rows, uint8_t{0});
  optimizer::with_rule_type(of.rule.type, [&]<OptimizerType kType>() {
    with_width(of.shape.width, [&]<int kWidth>() {
      const RowUpdates<kType, kWidth> rows(*of.scalars, args.rows);
      pool.run(space.tasks[slots], [&](int64_t task, int worker) {
        const int64_t* after = std::upper_bound(space.tasks, space.tasks + slots + 1, task);
        const int64_t part = task - after[-1], parts = *after - after[-1];
        const Slot<T> slot = slot_of(args, space, after - space.tasks - 1);
        const int64_t n = slot.end - slot.begin;
        const Segments<kType, kWidth, T> segments{
            slot, rows, by, space.gradient + worker * in_lines(of.shape.width)};
        wide([&] {
          segments.update(slot.segment_from(n * part / parts),
                          slot.segment_from(n * (part + 1) / parts));
        });
      });
      if (space.touched) sweep(pool, rows, space.touched, of.shape.total_rows);
    });
  });
}

template void cpu::sparse_update(const Exec&, const SparseUpdateArgs<float>&);
template void cpu::sparse_update(const Exec&, const SparseUpdateArgs<bf16>&);

}  // namespace hlite::embedding
