#include "embedding/hashed_lookup.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {
namespace {

// One bag: `hotness` keys of slot s and their rows.
template <typename W, typename T>
void pool_bag(const HashedArgs& of, Matrix<const W> table, const FirstValues& first, int64_t b,
              int64_t s, T* out) {
  const int64_t width = of.slots.width, column = of.slots.slots[s].column,
                table_number = of.slots.table_of[s];
  const uint32_t* key = of.keys.row(b) + column;
  const uint32_t* row = of.rows.row(b) + column;
  for (int64_t j = 0; j < width; ++j) {
    float sum = 0;
    int64_t n = 0;
    for (int64_t k = 0; k < of.slots.hotness(s); ++k) {
      if (row[k] == kNoKey) continue;
      const float value = row[k] == kUnseen ? first.at(table_number, key[k], width, j)
                                            : to_float(table.row(row[k])[j]);
      sum = n++ == 0 ? value : sum + value;
    }
    out[j] = from_float<T>(of.slots.mean && n > 1 ? sum * (1 / static_cast<float>(n)) : sum);
  }
}

template <typename W, typename T>
void pool_on_cpu(const Exec& exec, const HashedArgs& of, Matrix<const W> table,
                 const FirstValues& first, View<T, 3> out) {
  exec.threads().parallel_for(of.keys.dim(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t s = 0; s < of.slots.count; ++s) {
        const uint32_t* row = of.rows.row(b) + of.slots.slots[s].column;
        if (std::find(row, row + of.slots.hotness(s), kUnseen) != row + of.slots.hotness(s))
          pool_bag(of, table, first, b, s, out.row(b) + s * of.slots.width);
      }
  });
}

}  // namespace

template <typename T>
void pool_unseen(const Exec& exec, const HashedArgs& batch, const ConstWeightRows& table,
                 const FirstValues& first, View<T, 3> out) {
  if (exec.on_gpu()) return kernels::pool_unseen<T>(exec, batch, table.as<float>(), first, out);
  if constexpr (kOnCpu<T>)
    with_float_type(table.type(),
                    [&]<typename W>() { pool_on_cpu(exec, batch, table.as<W>(), first, out); });
  else
    raise("lookup: fp16 needs a GPU");
}

HLITE_INSTANTIATE_FLOATS(pool_unseen)

}  // namespace hlite::embedding
