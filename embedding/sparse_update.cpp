#include "embedding/sparse_update.h"

#include <algorithm>
#include <utility>

#include "embedding/key_sort.h"
#include "embedding/row_access.h"
#include "hugectr_lite/optimizer/update_loops.h"

namespace hlite::embedding {
namespace {
using optimizer::OptimizerType;
using optimizer::state_count;
using optimizer::StepScalars;
using optimizer::UpdateRule;
using optimizer::UpdateType;

// Pairs whose rows are asked for before they are used.
constexpr int64_t kPairsAhead = 16;
// Tasks a thread should get at least, so that uneven ones even out, and pairs a task is worth.
constexpr int64_t kTasksPerThread = 4, kPairsPerTask = 256;
// Floats of a task when whole tables are swept.
constexpr int64_t kSweepFloats = int64_t{1} << 16;

// One slot's share of the arrays, and its sorted pairs.
struct Slot {
  const float* dout;      // of sample 0
  int64_t sample_stride;  // floats from a sample's row of dout to the next one's
  const float* scale;     // of each sample's row; null: all 1
  float *w, *state0, *state1;
  int64_t width;
  const uint64_t *begin, *end;

  // First pair whose key is at least `row`.
  [[nodiscard]] const uint64_t* from_row(int64_t row) const {
    return std::partition_point(begin, end, [=](uint64_t pair) { return key_of(pair) < row; });
  }
  // First segment that begins at or after begin + at.
  [[nodiscard]] const uint64_t* segment_from(int64_t at) const {
    return at == 0 ? begin : from_row(key_of(begin[at - 1]) + 1);
  }
};

// Tasks that a slot's pairs are cut into, so that few slots keep many threads busy too.
int64_t parts_of_a_slot(int64_t slots, int64_t pairs, int threads) {
  const int64_t wanted = (kTasksPerThread * threads + slots - 1) / std::max<int64_t>(slots, 1);
  return threads == 1 ? 1
                      : std::clamp<int64_t>(pairs / kPairsPerTask, 1, std::max<int64_t>(wanted, 1));
}

// Rows of the array of scales: slots, or none for sums.
int64_t scaled_slots(const Pooling& pooling) {
  for (int64_t s = 0; s < pooling.slots; ++s)
    if (pooling.scales(s)) return pooling.slots;
  return 0;
}

template <OptimizerType kType, int kWidth>
class RowUpdate {
 public:
  RowUpdate(const Slot& of, const StepScalars& with, float gradient_scale, float* sum_buffer)
      : slot_(of), scalars_(with), gradient_scale_(gradient_scale), sum_(sum_buffer) {}

  // Updates the rows of pairs [pair, end), both at the edge of a segment.
  void touched(const uint64_t* pair, const uint64_t* end) const {
    start(pair);
    while (pair != end) pair = segment(pair);
  }
  // Updates all rows [row, end): those in between the segments with gradient 0.
  void all(int64_t row, int64_t end) const {
    const uint64_t* pair = slot_.from_row(row);
    start(pair);
    for (; pair != slot_.end && key_of(*pair) < end;) {
      untouched(row, key_of(*pair));
      row = key_of(*pair) + 1;
      pair = segment(pair);
    }
    untouched(row, end);
  }

 private:
  [[nodiscard]] int64_t width() const { return kWidth > 0 ? kWidth : slot_.width; }
  [[nodiscard]] const float* gradient_row(uint64_t pair) const {
    return slot_.dout + sample_of(pair) * slot_.sample_stride;
  }
  // What a later pair needs.
  void fetch(const uint64_t* pair) const {
    prefetch_row<0>(gradient_row(*pair), width());
    if (pair != slot_.begin && key_of(*pair) == key_of(pair[-1])) return;
    const int64_t at = key_of(*pair) * width();
    prefetch_row<1>(slot_.w + at, width());
    if constexpr (kStates > 0) prefetch_row<1>(slot_.state0 + at, width());
    if constexpr (kStates > 1) prefetch_row<1>(slot_.state1 + at, width());
  }
  void start(const uint64_t* pair) const {
    for (const uint64_t* p = pair; p < slot_.end && p < pair + kPairsAhead; ++p) fetch(p);
  }

  // Updates the row of the segment that begins at `pair`; returns the segment's end.
  const uint64_t* segment(const uint64_t* pair) const {
    const int64_t key = key_of(*pair);
    const auto next_in_segment = [&] {
      if (slot_.end - pair > kPairsAhead) fetch(pair + kPairsAhead);
      return ++pair != slot_.end && key_of(*pair) == key;
    };
    const float* g = gradient_row(*pair);
    if (slot_.scale != nullptr) [[unlikely]] {
      pair = add_up_scaled(pair);
      g = sum_;
    } else if (next_in_segment()) {
      add(g, gradient_row(*pair), sum_);
      while (next_in_segment()) add(sum_, gradient_row(*pair), sum_);
      g = sum_;
    }
    if (gradient_scale_ != 1) [[unlikely]] {
      scale(g);
      g = sum_;
    }
    const int64_t at = key * width();
    optimizer::update_elements<kType>(scalars_, width(), g, slot_.w + at,
                                      kStates > 0 ? slot_.state0 + at : nullptr,
                                      kStates > 1 ? slot_.state1 + at : nullptr);
    return pair;
  }

  void add(const float* a, const float* b, float* out) const {
#pragma omp simd
    for (int64_t j = 0; j < width(); ++j) out[j] = a[j] + b[j];
  }

  // The same sum of scaled gradients, into sum_. Kept out of the loop of segments, which is better
  // off small.
  [[gnu::noinline]] const uint64_t* add_up_scaled(const uint64_t* pair) const {
    const int64_t key = key_of(*pair);
    std::fill_n(sum_, width(), 0.f);
    for (; pair != slot_.end && key_of(*pair) == key; ++pair) {
      if (slot_.end - pair > kPairsAhead) fetch(pair + kPairsAhead);
      const float by = slot_.scale[sample_of(*pair)];
      const float* g = gradient_row(*pair);
#pragma omp simd
      for (int64_t j = 0; j < width(); ++j) sum_[j] += g[j] * by;
    }
    return pair;
  }

  // sum_ = g * gradient_scale_; g may be sum_.
  [[gnu::noinline]] void scale(const float* g) const {
    for (int64_t j = 0; j < width(); ++j) sum_[j] = g[j] * gradient_scale_;
  }

  void untouched(int64_t begin, int64_t end) const {
    const int64_t at = begin * width();
    optimizer::update_elements_without_gradient<kType>(
        scalars_, (end - begin) * width(), slot_.w + at, kStates > 0 ? slot_.state0 + at : nullptr,
        kStates > 1 ? slot_.state1 + at : nullptr);
  }

  static constexpr int kStates = state_count(kType);
  const Slot slot_;
  const StepScalars scalars_;
  const float gradient_scale_;
  float* const sum_;  // [width], this thread's
};
}  // namespace

SparseUpdate::SparseUpdate(TableLayout layout, Pooling pooling, int64_t max_batch, int threads)
    : layout_(std::move(layout)),
      pooling_(std::move(pooling)),
      max_batch_(max_batch),
      threads_(threads),
      pairs_(pooling_.columns(), max_batch),
      pair_count_(static_cast<size_t>(layout_.slots())),
      scale_(scaled_slots(pooling_), max_batch),
      scratch_(threads, max_batch * pooling_.most_hotness()),
      counts_(threads, kSortCounts),
      gradient_(threads, (layout_.width + 15) / 16 * 16),
      touched_tasks_(static_cast<size_t>(layout_.slots()) + 1),
      sweep_rows_(std::max<int64_t>(1, kSweepFloats / layout_.width)) {
  HLITE_CHECK(pooling_.slots == layout_.slots(), "{} slots with keys, {} tables", pooling_.slots,
              layout_.slots());
  HLITE_CHECK(max_batch * pooling_.most_hotness() < int64_t{1} << 32, "{} samples of {} keys",
              max_batch, pooling_.most_hotness());
  for (const int64_t rows : layout_.rows) {
    const int64_t before = sweep_tasks_.back();
    sweep_tasks_.push_back(before + (rows + sweep_rows_ - 1) / sweep_rows_);
  }
}

int64_t SparseUpdate::workspace_bytes(const Pooling& pooling, int64_t max_batch, int threads) {
  const int64_t pairs = pooling.columns() + threads * pooling.most_hotness();
  return max_batch * (pairs * static_cast<int64_t>(sizeof(uint64_t)) +
                      scaled_slots(pooling) * static_cast<int64_t>(sizeof(float)));
}

void SparseUpdate::sort_slot(Matrix<const uint32_t> keys, int64_t s, int worker) {
  const int64_t column = pooling_.column(s), hotness = pooling_.hotness(s);
  pair_count_[static_cast<size_t>(s)] =
      sort_pairs(keys, column, hotness, layout_.rows[static_cast<size_t>(s)], pairs_of(s),
                 scratch_.view().row(worker), counts_.view().row(worker));
  if (!pooling_.scales(s)) return;
  float* scale = scale_.view().row(s);
  for (int64_t b = 0; b < keys.dim(0); ++b) {
    const uint32_t* key = keys.row(b) + column;
    const int64_t absent = std::count(key, key + hotness, kNoKey);
    scale[b] = 1 / static_cast<float>(std::max<int64_t>(hotness - absent, 1));
  }
}

void SparseUpdate::update(const Exec& exec, const UpdateRule& rule, UpdateType update_type,
                          const float* lr, const int64_t* step, Matrix<const uint32_t> keys,
                          View<const float, 3> dout, Matrix<float> table, Matrix<float> state0,
                          Matrix<float> state1, const optimizer::GradientScale& gradient_scale) {
  const int64_t batch = keys.dim(0), slots = layout_.slots(), width = layout_.width;
  const int states = state_count(rule.type);
  const auto fits = [&](Matrix<float> m) {
    return m.dim(0) == layout_.total_rows && m.dim(1) == width;
  };
  HLITE_CHECK(!exec.on_gpu() && exec.threads().threads() <= threads_,
              "sparse update: runs on the CPU, on at most {} threads", threads_);
  HLITE_CHECK(update_type != UpdateType::kLazyGlobal, "sparse update: LazyGlobal");
  HLITE_CHECK(*step >= 1, "sparse update: step {}, they count from 1", *step);
  HLITE_CHECK(batch <= max_batch_ && keys.dim(1) == pooling_.keys.columns,
              "sparse update: keys {}, expected at most {} samples of {} columns", keys.shape(),
              max_batch_, pooling_.keys.columns);
  HLITE_CHECK(dout.dim(0) == batch && dout.dim(1) == slots && dout.dim(2) == width,
              "sparse update: keys {}, dout {}, width {}", keys.shape(), dout.shape(), width);
  HLITE_CHECK(fits(table) && (states < 1 || fits(state0)) && (states < 2 || fits(state1)),
              "sparse update: table {}, states {} and {}, expected [{},{}]", table.shape(),
              state0.shape(), state1.shape(), layout_.total_rows, width);

  if (gradient_scale.skip && *gradient_scale.skip != 0) return;
  const float by = gradient_scale.inverse ? *gradient_scale.inverse : 1.0f;

  ThreadPool& pool = exec.threads();
  pool.run(slots, [&](int64_t s, int worker) { sort_slot(keys, s, worker); });

  const StepScalars scalars = optimizer::step_scalars(rule, *lr, *step);
  const auto slot_at = [&](int64_t s) {
    const int64_t first_row = layout_.offset[static_cast<size_t>(s)];
    return Slot{.dout = dout.data() + s * width,
                .sample_stride = slots * width,
                .scale = pooling_.scales(s) ? scale_.view().row(s) : nullptr,
                .w = table.row(first_row),
                .state0 = states > 0 ? state0.row(first_row) : nullptr,
                .state1 = states > 1 ? state1.row(first_row) : nullptr,
                .width = width,
                .begin = pairs_of(s),
                .end = pairs_of(s) + pair_count_[static_cast<size_t>(s)]};
  };
  const bool sweep =
      update_type == UpdateType::kGlobal && optimizer::moves_without_gradient(rule.type);
  optimizer::with_rule_type(rule.type, [&]<OptimizerType kType>() {
    with_width(width, [&]<int kWidth>() {
      if (sweep) {
        pool.run(sweep_tasks_.back(), [&](int64_t task, int worker) {
          const auto after = std::upper_bound(sweep_tasks_.begin(), sweep_tasks_.end(), task);
          const int64_t s = after - sweep_tasks_.begin() - 1;
          const int64_t begin = (task - after[-1]) * sweep_rows_;
          const int64_t end = std::min(begin + sweep_rows_, layout_.rows[static_cast<size_t>(s)]);
          const Slot slot = slot_at(s);
          const RowUpdate<kType, kWidth> rows{slot, scalars, by, gradient_.view().row(worker)};
          rows.all(begin, end);
        });
      } else {
        for (int64_t s = 0; s < slots; ++s) {
          const auto i = static_cast<size_t>(s);
          touched_tasks_[i + 1] =
              touched_tasks_[i] + parts_of_a_slot(slots, pair_count_[i], pool.threads());
        }
        pool.run(touched_tasks_.back(), [&](int64_t task, int worker) {
          const auto after = std::upper_bound(touched_tasks_.begin(), touched_tasks_.end(), task);
          const int64_t part = task - after[-1], parts = *after - after[-1];
          const Slot slot = slot_at(after - touched_tasks_.begin() - 1);
          const int64_t n = slot.end - slot.begin;
          const RowUpdate<kType, kWidth> rows{slot, scalars, by, gradient_.view().row(worker)};
          rows.touched(slot.segment_from(n * part / parts),
                       slot.segment_from(n * (part + 1) / parts));
        });
      }
    });
  });
}

}  // namespace hlite::embedding
