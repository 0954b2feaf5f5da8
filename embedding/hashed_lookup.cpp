#include "embedding/hashed_lookup.h"

#include <algorithm>
#include <span>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {
namespace {

// The vector of a key without a row, as InitialValues::at() has it element by element.
void fill_absent(const InitialValues& first, int64_t table, uint32_t key, std::span<float> row) {
  const TableStream of = first.tables[table];
  if (of.bound == 0) return std::fill(row.begin(), row.end(), 0.0f);
  random::fill_uniform(row.data(), std::ssize(row), first.seed, of.stream,
                       uint64_t{key} * row.size(), -of.bound, of.bound);
  if (first.type == FloatType::kFloat) return;
  for (float& x : row) x = rounded_to(first.type, x);
}

// One bag: `hotness` keys of slot s and their rows. `value` and `sum`: [width].
template <typename W, typename T>
void pool_bag(const HashedArgs& of, Matrix<const W> table, const InitialValues& first, int64_t b,
              int64_t s, std::span<float> value, std::span<float> sum, T* out) {
  const int64_t width = of.slots.width, column = of.slots.slots[s].column,
                table_number = of.slots.table_of[s];
  const uint32_t* key = of.keys.row(b) + column;
  const uint32_t* row = of.rows.row(b) + column;
  int64_t n = 0;
  for (int64_t k = 0; k < of.slots.hotness(s); ++k) {
    if (row[k] == kNoKey) continue;
    const std::span<float> to = n == 0 ? sum : value;
    if (row[k] == kUnseen)
      fill_absent(first, table_number, key[k], to);
    else
      widen(table.row(row[k]), width, to.data());
    if (n++ == 0) continue;
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += value[j];
  }
  const float by = of.slots.mean && n > 1 ? 1 / static_cast<float>(n) : 1.0f;
  for (int64_t j = 0; j < width; ++j)
    out[j] =
        from_float<T>(by == 1.0f ? sum[static_cast<size_t>(j)] : sum[static_cast<size_t>(j)] * by);
}

template <typename W, typename T>
void pool_on_cpu(const Exec& exec, const HashedArgs& of, Matrix<const W> table,
                 const InitialValues& first, View<T, 3> out) {
  exec.threads().parallel_for(of.keys.dim(0), 64, [&](int64_t begin, int64_t end) {
    thread_local std::vector<float> values;  // grows once
    const auto width = static_cast<size_t>(of.slots.width);
    if (values.size() < 2 * width) values.resize(2 * width);
    const std::span<float> value(values.data(), width), sum(values.data() + width, width);
    for (int64_t b = begin; b < end; ++b)
      for (int64_t s = 0; s < of.slots.count; ++s) {
        const uint32_t* row = of.rows.row(b) + of.slots.slots[s].column;
        if (std::find(row, row + of.slots.hotness(s), kUnseen) != row + of.slots.hotness(s))
          pool_bag(of, table, first, b, s, value, sum, out.row(b) + s * of.slots.width);
      }
  });
}

}  // namespace

template <typename T>
void pool_unseen(const Exec& exec, const HashedArgs& batch, const ConstWeightRows& table,
                 const InitialValues& first, View<T, 3> out) {
  if (exec.on_gpu()) return kernels::pool_unseen<T>(exec, batch, table, first, out);
  if constexpr (kOnCpu<T>)
    with_float_type(table.type(),
                    [&]<typename W>() { pool_on_cpu(exec, batch, table.as<W>(), first, out); });
  else
    raise("lookup: fp16 needs a GPU");
}

HLITE_INSTANTIATE_FLOATS(pool_unseen)

}  // namespace hlite::embedding
