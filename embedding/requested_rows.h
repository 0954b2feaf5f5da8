// Ops around the exchange of rows between ranks; the lists are those of routing.h.
#pragma once

#include "embedding/routing.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/optimizer/gradient_scale.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding {

// One step of rows whose gradients are complete: summed over the ranks if the rows are replicated.
// `touched` [rows]: rows with 0 stay as they are; null: all take the step.
struct RowsUpdateArgs {
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

// out[i] = table[rows[i]], exactly, in float, for i < rows.size(), and where `count` is given below
// *count; none for a row kNoKey.
void gather_requested(const Exec& exec, const ConstWeightRows& table, Vector<const uint32_t> rows,
                      const uint32_t* count, Matrix<float> out);
// Rounds or widens the rows of lists, [ranks * capacity, V]: narrow[i] = the bf16 nearest to
// rows[i], ties to even; rows[i] = narrow[i], exactly. `counts` [ranks].
void round_requested(const Exec& exec, const ExchangeShape& shape, const uint32_t* counts,
                     Matrix<const float> rows, Matrix<bf16> narrow);
void widen_requested(const Exec& exec, const ExchangeShape& shape, const uint32_t* counts,
                     Matrix<const bf16> narrow, Matrix<float> rows);
void scatter_scaled(const Exec& exec, const ScatterArgs& args);
void update_rows(const Exec& exec, const RowsUpdateArgs& args);

namespace kernels {
inline const KernelOf<decltype(embedding::gather_requested)> gather_requested{"gather_requested"};
inline const KernelOf<decltype(embedding::round_requested)> round_requested{"round_requested"};
inline const KernelOf<decltype(embedding::widen_requested)> widen_requested{"widen_requested"};
inline const KernelOf<decltype(embedding::scatter_scaled)> scatter_scaled{"scatter_scaled"};
inline const KernelOf<decltype(embedding::update_rows)> update_rows{"update_rows"};
}  // namespace kernels

}  // namespace hlite::embedding
