#include "embedding/number_rows.h"

namespace hlite::embedding {

void number_rows(const Exec& exec, const SlotsRef& slots, Matrix<const uint32_t> keys,
                 Matrix<uint32_t> rows, const KeyRecorder& check) {
  if (exec.on_gpu()) return kernels::number_rows(exec, slots, keys, rows, check);
  exec.threads().parallel_for(keys.dim(0), 256, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t c = 0; c < slots.lookups; ++c) {
        const int64_t at = slots.first_column + c;
        rows(b, at) = slots.slots[slots.slot_of[c]].row_of(keys(b, at));
      }
  });
}

}  // namespace hlite::embedding
