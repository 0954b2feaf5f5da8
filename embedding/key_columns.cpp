#include "embedding/key_columns.h"

#include <algorithm>

#include "hugectr_lite/core/no_key.h"

namespace hlite::embedding {

constexpr int64_t kGrain = 256;  // samples

void select_columns(const Exec& exec, Matrix<const uint32_t> keys, Vector<const int32_t> columns,
                    Matrix<uint32_t> selected) {
  if (exec.on_gpu()) return kernels::select_columns(exec, keys, columns, selected);
  exec.threads().parallel_for(selected.dim(0), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t i = 0; i < columns.size(); ++i) selected(b, i) = keys(b, columns(i));
  });
}

void count_keys(const Exec& exec, Matrix<const uint32_t> keys, int64_t first, int64_t count,
                Vector<float> lengths) {
  if (exec.on_gpu()) return kernels::count_keys(exec, keys, first, count, lengths);
  exec.threads().parallel_for(lengths.size(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const uint32_t* const of = &keys(b, first);
      lengths(b) = static_cast<float>(count - std::count(of, of + count, kNoKey));
    }
  });
}

void KeyColumns::prepare(const Exec& exec) {
  if (!selects()) return;
  const size_t bytes = columns_.size() * sizeof(int32_t);
  memory_ = ExecMemory(exec, bytes, "columns of keys");
  put_bytes(exec, memory_.data(), columns_.data(), bytes);
}

void KeyColumns::select(const Exec& exec, const uint32_t* keys, Matrix<uint32_t> selected) const {
  select_columns(exec, {keys, selected.dim(0), of_},
                 {reinterpret_cast<const int32_t*>(memory_.data()), std::ssize(columns_)},
                 selected);
}

}  // namespace hlite::embedding
