// Lookup: out[b, s, :] = the sum, or the mean, of table[offset[s] + k, :] over the keys k that
// sample b has in slot s; zero where it has none.
#pragma once

#include <cstdint>

#include "embedding/device_slots.h"
#include "embedding/pooling.h"
#include "embedding/table_layout.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// keys [B, columns] are local to their slot's table; the reader has checked that each is below its
// table's rows or kNoKey. Overwrites out [B,S,V]. A slot with one key gets an exact copy of the
// row; several are added in the order of their columns. Runs on the CPU.
void lookup_forward(const Exec& exec, const TableLayout& layout, const Pooling& pooling,
                    Matrix<const float> table /*[total_rows,V]*/,
                    Matrix<const uint32_t> keys /*[B,columns]*/, View<float, 3> out /*[B,S,V]*/);

// The same on a GPU, where everything but `slots` lies in device memory. T: float, bf16 or fp16;
// sums in float. Keys beyond their table are read as absent and recorded for KeyErrors.
template <typename T>
void lookup_forward(const Exec& exec, const DeviceSlots& slots,
                    Matrix<const float> table /*[total_rows,V]*/,
                    Matrix<const uint32_t> keys /*[B,columns]*/, View<T, 3> out /*[B,S,V]*/,
                    const KeyCheck& check = {});

}  // namespace hlite::embedding
