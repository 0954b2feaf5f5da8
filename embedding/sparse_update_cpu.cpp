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

// Pairs whose rows are prefetched before they are used.
constexpr int64_t kPairsAhead = 16;
// Tasks a thread should get at least, so that uneven ones even out, and pairs a task is worth.
constexpr int64_t kTasksPerThread = 4, kPairsPerTask = 256;
// Floats of a task when whole tables are swept.
constexpr int64_t kSweepFloats = int64_t{1} << 16;

int64_t in_lines(int64_t width) { return (width + 15) / 16 * 16; }

struct Workspace {
  uint64_t* pairs;    // [lookups, max_batch] sorted, a table's from its first lookup on
  int64_t* count;     // [tables] pairs
  int64_t* tasks;     // [tables + 1] tasks of the tables before
  float* scale;       // [max_batch, slots] 1 / keys of the sample in the slot, for a mean
  uint64_t* scratch;  // [threads, max_batch * max_table_lookups]
  uint32_t* counts;   // [threads, kSortCounts]
  float* gradient;    // [threads, V in whole cache lines] the sum of a segment
  uint8_t* touched;   // [total_rows], for sweeps
  size_t bytes;
};

Workspace cut_workspace(const SparseUpdateShape& shape, std::byte* memory) {
  Cutter cutter(memory);
  Workspace space{};
  space.pairs = cutter.cut<uint64_t>(shape.lookups * shape.max_batch);
  space.count = cutter.cut<int64_t>(shape.tables);
  space.tasks = cutter.cut<int64_t>(shape.tables + 1);
  if (shape.scales) space.scale = cutter.cut<float>(shape.max_batch * shape.slots);
  space.scratch = cutter.cut<uint64_t>(shape.threads * shape.max_batch * shape.max_table_lookups);
  space.counts = cutter.cut<uint32_t>(shape.threads * kSortCounts);
  space.gradient = cutter.cut<float>(shape.threads * in_lines(shape.width));
  if (shape.sweeps) space.touched = cutter.cut<uint8_t>(shape.total_rows);
  space.bytes = cutter.bytes();
  return space;
}

uint64_t* pairs_of(const SparseSortArgs& args, const Workspace& space, int64_t table) {
  return space.pairs + args.slots.tables[table].first_lookup * args.shape.max_batch;
}

// Finds the factors of the gradients of samples [begin, end) for the combiner mean.
void find_scales(const SparseSortArgs& args, const Workspace& space, int64_t begin, int64_t end) {
  float* scale = space.scale + begin * args.shape.slots;
  for (int64_t b = begin; b < end; ++b)
    for (int64_t s = 0; s < args.shape.slots; ++s) {
      const SlotRef& of = args.slots.slots[s];
      const uint32_t* key = args.keys.row(b) + of.column;
      const int64_t found = std::count_if(key, key + args.slots.hotness(s),
                                          [&](uint32_t k) { return k < of.rows || k == kUnseen; });
      *scale++ = 1 / static_cast<float>(std::max<int64_t>(found, 1));
    }
}

void sort_table(const SparseSortArgs& args, const Workspace& space, int64_t table, int worker) {
  const TableLookups of{args.keys, args.slots, table, args.slots.tables[table].rows};
  space.count[table] =
      sort_bags(of, pairs_of(args, space, table),
                space.scratch + worker * args.shape.max_batch * args.shape.max_table_lookups,
                space.counts + worker * kSortCounts);
}

// One table's share of the arrays, and its sorted pairs.
template <typename T>
struct TableUpdate {
  const T* dout;       // [bags, V]
  const float* scale;  // [bags]; null: all 1
  int64_t first_row;
  const uint64_t *begin, *end;
  uint8_t* touched;  // of all rows, or null

  // First segment that begins at or after begin + at.
  [[nodiscard]] const uint64_t* segment_from(int64_t at) const {
    if (at == 0) return begin;
    const int64_t row = key_of(begin[at - 1]) + 1;
    return std::partition_point(begin, end, [=](uint64_t pair) { return key_of(pair) < row; });
  }
};

// Sums segments and updates their rows.
template <OptimizerType kType, int kWidth, typename W, typename T>
class Segments {
 public:
  Segments(const TableUpdate<T>& of, const RowUpdates<kType, kWidth, W>& rows, float gradient_scale,
           float* sum)
      : table_(of), rows_(rows), gradient_scale_(gradient_scale), sum_(sum) {}

  // Updates the rows of pairs [pair, end), both at the edge of a segment.
  void update(const uint64_t* pair, const uint64_t* end) const {
    for (const uint64_t* p = pair; p < table_.end && p < pair + kPairsAhead; ++p) fetch(p);
    while (pair != end) pair = segment(pair);
  }

 private:
  [[nodiscard]] int64_t width() const { return rows_.width(); }
  [[nodiscard]] const T* gradient_row(uint64_t pair) const {
    return table_.dout + number_of(pair) * width();
  }
  // Prefetches what a later pair needs.
  void fetch(const uint64_t* pair) const {
    prefetch_row<0>(gradient_row(*pair), width());
    if (pair != table_.begin && key_of(*pair) == key_of(pair[-1])) return;
    rows_.prefetch(table_.first_row + key_of(*pair));
  }

  // Updates the row of the segment that begins at `pair`; returns the segment's end.
  const uint64_t* segment(const uint64_t* pair) const {
    const int64_t key = key_of(*pair);
    const auto next_in_segment = [&] {
      if (table_.end - pair > kPairsAhead) fetch(pair + kPairsAhead);
      return ++pair != table_.end && key_of(*pair) == key;
    };
    const float* g = sum_;
    if (table_.scale != nullptr) [[unlikely]] {
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
    rows_.update(table_.first_row + key, g);
    if (table_.touched) [[unlikely]]
      table_.touched[table_.first_row + key] = 1;
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
    for (; pair != table_.end && key_of(*pair) == key; ++pair) {
      if (table_.end - pair > kPairsAhead) fetch(pair + kPairsAhead);
      Row<kWidth>::add_scaled(table_.scale[number_of(*pair)], gradient_row(*pair), width(), sum_);
    }
    return pair;
  }

  // sum_ = g * gradient_scale_; g may be sum_.
  [[gnu::noinline]] void scale(const float* g) const {
    for (int64_t j = 0; j < width(); ++j) sum_[j] = g[j] * gradient_scale_;
  }

  const TableUpdate<T> table_;
  const RowUpdates<kType, kWidth, W> rows_;
  const float gradient_scale_;
  float* const sum_;  // [width], this thread's
};

// Tasks that a table's pairs are cut into, so that few tables keep many threads busy too.
int64_t parts_of_a_table(int64_t tables, int64_t pairs, int threads) {
  const int64_t wanted = (kTasksPerThread * threads + tables - 1) / std::max<int64_t>(tables, 1);
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
TableUpdate<T> table_of(const SparseUpdateArgs<T>& args, const Workspace& space, int64_t t) {
  const SparseSortArgs& of = args.sorted;
  const uint64_t* pairs = pairs_of(of, space, t);
  const auto slots = of.slots.slots_of_table(t);
  const bool scales = of.shape.scales && std::any_of(slots.begin(), slots.end(), [&](int32_t s) {
                        return of.slots.hotness(s) > 1;
                      });
  return {.dout = args.dout.data(),
          .scale = scales ? space.scale : nullptr,
          .first_row = of.slots.tables[t].first_row,
          .begin = pairs,
          .end = pairs + space.count[t],
          .touched = space.touched};
}
}  // namespace

size_t cpu::sparse_update_workspace(const SparseUpdateShape& shape) {
  HLITE_CHECK(shape.max_batch * shape.max_table_lookups < int64_t{1} << 32 &&
                  shape.max_batch * shape.slots < int64_t{1} << 32,
              "{} samples of {} keys in a table and {} slots", shape.max_batch,
              shape.max_table_lookups, shape.slots);
  return cut_workspace(shape, nullptr).bytes;
}

void cpu::sparse_sort(const Exec& exec, const SparseSortArgs& args) {
  HLITE_CHECK(exec.threads().threads() <= args.shape.threads,
              "sparse update: {} threads, expected at most {}", exec.threads().threads(),
              args.shape.threads);
  HLITE_CHECK(*args.step >= 1, "sparse update: step {}, they count from 1", *args.step);
  *args.scalars = optimizer::step_scalars(args.rule, *args.lr, *args.step);
  const Workspace space = cut_workspace(args.shape, args.workspace);
  exec.threads().run(args.shape.tables,
                     [&](int64_t table, int worker) { sort_table(args, space, table, worker); });
  if (!args.shape.scales) return;
  exec.threads().parallel_for(args.keys.dim(0), 256, [&](int64_t begin, int64_t end) {
    find_scales(args, space, begin, end);
  });
}

template <typename T>
void cpu::sparse_update(const Exec& exec, const SparseUpdateArgs<T>& args) {
  const optimizer::GradientScale& scale = args.gradient_scale;
  if (scale.skips()) return;
  const float by = scale.inverse ? *scale.inverse : 1.0f;
  const SparseSortArgs& of = args.sorted;
  const Workspace space = cut_workspace(of.shape, of.workspace);
  ThreadPool& pool = exec.threads();
  const int64_t tables = of.shape.tables;
  space.tasks[0] = 0;
  for (int64_t t = 0; t < tables; ++t)
    space.tasks[t + 1] = space.tasks[t] + parts_of_a_table(tables, space.count[t], pool.threads());
  if (space.touched) std::fill_n(space.touched, of.shape.total_rows, uint8_t{0});
  optimizer::with_rule_type(of.rule.type, [&]<OptimizerType kType>() {
    with_row_type(args.rows, [&]<typename W, int kWidth>() {
      const RowUpdates<kType, kWidth, W> rows(*of.scalars, args.rows, *of.step);
      pool.run(space.tasks[tables], [&](int64_t task, int worker) {
        const int64_t* after = std::upper_bound(space.tasks, space.tasks + tables + 1, task);
        const int64_t part = task - after[-1], parts = *after - after[-1];
        const TableUpdate<T> table = table_of(args, space, after - space.tasks - 1);
        const int64_t n = table.end - table.begin;
        const Segments<kType, kWidth, W, T> segments{
            table, rows, by, space.gradient + worker * in_lines(of.shape.width)};
        wide([&] {
          segments.update(table.segment_from(n * part / parts),
                          table.segment_from(n * (part + 1) / parts));
        });
      });
      if constexpr (optimizer::may_move_without_gradient(kType))
        if (space.touched) sweep(pool, rows, space.touched, of.shape.total_rows);
    });
  });
}

template void cpu::sparse_update(const Exec&, const SparseUpdateArgs<float>&);
template void cpu::sparse_update(const Exec&, const SparseUpdateArgs<bf16>&);

}  // namespace hlite::embedding
