// The arithmetic around an exchange of embedding rows: what owners send out, what a rank makes of
// the rows that came, and the same backwards. key_routing.h says which row goes where; whoever
// calls these moves the bytes in between.
//
//   owner      gather_rows       its rows that a rank's list names                 -> vectors
//   rank       pool_rows         vectors of all its lists, and copied rows         -> out [B,S,V]
//   rank       reduce_gradients  dout [B,S,V]            -> a gradient a listed row, and a copied
//   row owner      update_rows       gradients from all ranks, summed by row in the order of ranks
//   every rank update_copied     the copied rows' gradients, summed over ranks before
//
// Every sum has a fixed order: by sample within a rank, then by rank; it is in float. T: float or
// bf16.
#pragma once

#include <cstdint>
#include <span>

#include "embedding/key_routing.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding {

// out[i] = table[rows[i]], exactly.
void gather_rows(const Exec& exec, Matrix<const float> table, std::span<const uint32_t> rows,
                 Matrix<float> out /*[rows.size(), V]*/);

// Overwrites out: the sum or mean of the rows of a sample's keys in each slot, by key; 0 where it
// has none. `vectors` [ranks * routing.block(), V]: a block of rows for each list.
template <typename T>
void pool_rows(const Exec& exec, const KeyRouting& routing, Matrix<const float> vectors,
               Matrix<const float> copied, View<T, 3> out /*[B,S,V]*/);

// Overwrites `gradients` [ranks * routing.block(), V], as far as lists go, and `copied` [copied
// rows, V]: the sum over a key's lookups of dout, over a mean's number of keys. `touched` [copied
// rows] (may be empty): 1 where a copied row was looked up, else 0.
template <typename T>
void reduce_gradients(const Exec& exec, const KeyRouting& routing,
                      View<const T, 3> dout /*[B,S,V]*/, Matrix<float> gradients,
                      Matrix<float> copied, std::span<float> touched);

// What a rank sent to an owner: gradients[order[i]], or gradients[i] without an order, of the
// owner's row rows[i]; rows ascending.
struct RowGradients {
  std::span<const uint32_t> rows;
  Matrix<const float> gradients;
  std::span<const uint32_t> order = {};
};

// How a step moves rows. `sweep`: rows without a gradient take the step too, with gradient 0.
struct RowStep {
  optimizer::UpdateRule rule;
  bool sweep = false;
  float lr = 0;
  int64_t step = 1;
};

// One step of all rows that any of `from` names, each with the sum of its
// gradients in the order of `from`.
void update_rows(const Exec& exec, const RowStep& step, std::span<const RowGradients> from,
                 const UpdatedRows& rows);

// One step of the copied rows; those with touched[i] == 0 stay as they are unless the step sweeps
// (touched may be empty when the rule moves nothing without a gradient).
void update_copied(const Exec& exec, const RowStep& step, Matrix<const float> gradients,
                   std::span<const float> touched, const UpdatedRows& rows);

}  // namespace hlite::embedding
