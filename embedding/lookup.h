// Lookup: out[b, s, :] = the sum, or the mean, of row k of slot s's table over the keys k that
// sample b has in slot s; zero where it has none.
#pragma once

#include <cstdint>

#include "embedding/key_error_record.h"
#include "embedding/slots_ref.h"
#include "embedding/weight_rows.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// keys [B, columns] are local to their slot's table; kNoKey and keys beyond their table are absent.
// (Of slots.complete ones the CPU expects neither: the reader has checked them.) On a GPU a key
// beyond its table is recorded for KeyErrors. Overwrites out [B,S,V]. A slot with one key gets an
// exact copy of the row (rows of 16 bits are widened); several are added in the order of their
// columns, in float. T: float, bf16, and on a GPU fp16: results are rounded to it.
template <typename T>
void lookup_forward(const Exec& exec, const SlotsRef& slots,
                    const ConstWeightRows& table /*[total_rows,V]*/,
                    Matrix<const uint32_t> keys /*[B,columns]*/, View<T, 3> out /*[B,S,V]*/,
                    const KeyRecorder& check = {});

namespace kernels {
// An error for batches of 2^32 keys or output rows and more.
template <typename T>
inline const KernelOf<decltype(embedding::lookup_forward<T>)> lookup_forward{"lookup_forward"};
}  // namespace kernels

}  // namespace hlite::embedding
