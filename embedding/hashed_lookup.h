// Lookups of keys without a row, in an evaluation: they return the key's initial values.
#pragma once

#include "embedding/hashed_args.h"
#include "embedding/weight_rows.h"
#include "hugectr_lite/core/exec.h"

namespace hlite::embedding {

// Runs after lookup_forward() on batch.rows, which read kUnseen as absent: makes out[b, s, :] again
// where sample b has a key without a row in slot s, in the order of its columns. T: float, bf16,
// and on a GPU fp16.
template <typename T>
void pool_unseen(const Exec& exec, const HashedArgs& batch, const ConstWeightRows& table,
                 const InitialValues& first, View<T, 3> out);

}  // namespace hlite::embedding
