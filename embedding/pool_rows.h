// Kernels around the exchange of rows among GPUs; the lists are those of routing_args.h.
#pragma once

#include "embedding/routing_args.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/optimizer/gradient_scale.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding {

// One step of copied rows, whose gradients have been summed over the ranks. `touched` [rows]: rows
// with 0 stay as they are; null: all take the step.
struct CopiedUpdateArgs {
  optimizer::UpdateRule rule;
  const float* lr = nullptr;
  const int64_t* step = nullptr;
  const float* gradients = nullptr;  // [rows,V]
  const float* touched = nullptr;
  UpdatedRows rows = {};
  optimizer::GradientScale scale = {};
};

// out[rows[i]] = in[i] * *factor, and touched[rows[i]] = 1, for i < *count.
struct ScatterArgs {
  Matrix<const float> in = {};       // [n,V]
  Vector<const uint32_t> rows = {};  // [n] of out, each once
  const uint32_t* count = nullptr;
  const float* factor = nullptr;  // null: 1
  Matrix<float> out = {};
  float* touched = nullptr;  // [rows of out], or null
};

namespace kernels {
// out[i] = table[rows[i]], exactly, for i < rows.size(), and where `count` is given below *count;
// none for a row kNoKey.
inline const Kernel<void(Matrix<const float> /*table*/, Vector<const uint32_t> /*rows*/,
                         const uint32_t* /*count*/, Matrix<float> /*out*/)>
    gather_listed{"gather_listed"};
// The rows of the pool that are in use become 0.
inline const Kernel<void(const PoolShape&, const uint32_t* /*counts [ranks + 1]*/,
                         Matrix<float> /*pool*/)>
    clear_pool{"clear_pool"};
// Of the rows that lists have, [ranks * capacity, V]: narrow[i] = the bf16 nearest to rows[i], ties
// to even; rows[i] = narrow[i], exactly.
inline const Kernel<void(const PoolShape&, const uint32_t* /*counts [ranks]*/,
                         Matrix<const float> /*rows*/, Matrix<bf16> /*narrow*/)>
    round_listed{"round_listed"};
inline const Kernel<void(const PoolShape&, const uint32_t* /*counts [ranks]*/,
                         Matrix<const bf16> /*narrow*/, Matrix<float> /*rows*/)>
    widen_listed{"widen_listed"};
inline const Kernel<void(const ScatterArgs&)> scatter_listed{"scatter_listed"};
inline const Kernel<void(const CopiedUpdateArgs&)> update_copied{"update_copied"};
}  // namespace kernels

}  // namespace hlite::embedding
