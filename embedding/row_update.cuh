// The update of a table row and its states by the lanes of a warp that share the row.
#pragma once

#include <cstdint>

#include "embedding/row_pieces.cuh"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding::gpu {

struct TableRows {
  float *w, *state0, *state1;  // [*, width], and states [*, state_width(rule, width)]
  int64_t width;
  uint32_t no_row;         // pairs of this row are passed over
  bool from_zero = false;  // UpdatedRows::from_zero
};

// The lanes that take a piece each of one slice of a row: `count` neighbours, a power of two, the
// first `active` of which have columns of the row.
struct RowLanes {
  int count, lane, active;
  unsigned mask;

  // The lanes of the row whose piece at `column` < width belongs to this thread.
  __device__ static RowLanes at(int count, int piece, int64_t column, int64_t width) {
    const int lane = static_cast<int>(threadIdx.x) & (count - 1);
    const int64_t pieces = (width - column + piece - 1) / piece + lane;
    const int active = pieces < count ? static_cast<int>(pieces) : count;
    return {count, lane, active,
            (0xffffffffu >> (kWarp - active)) << (static_cast<int>(threadIdx.x) % kWarp - lane)};
  }
  [[nodiscard]] __device__ bool first() const { return lane == 0; }
  // The sum of the lanes' terms, in the first: a tree, so that its order depends on the width
  // alone.
  [[nodiscard]] __device__ float sum(float term) const {
    for (int distance = count / 2; distance > 0; distance /= 2) {
      const bool adds = lane + distance < active;
      const float other = __shfl_sync(mask, term, adds ? lane + distance : lane, count);
      if (adds) term += other;
    }
    return term;
  }
  [[nodiscard]] __device__ float of_first(float value) const {
    return __shfl_sync(mask, value, 0, count);
  }
};

// The state of a row of a row-wise rule, which the first of the row's lanes holds and moves.
template <optimizer::OptimizerType kRule>
struct RowState {
  float value = 0;

  __device__ void load(const TableRows& table, int64_t row, const RowLanes& lanes) {
    if (lanes.first()) value = table.state0[row];
  }
  // Moves it by a slice of the row's gradient; the slices of a wide row follow each other.
  template <int kPiece>
  __device__ void update(const Piece<float, kPiece>& g, int64_t width, const RowLanes& lanes) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kPiece; ++j) squares += g.at[j] * g.at[j];
    squares = lanes.sum(squares);
    if (lanes.first())
      optimizer::update_row_state<kRule>(squares / static_cast<float>(width), value);
  }
  __device__ void store(const TableRows& table, int64_t row, const RowLanes& lanes) const {
    if (lanes.first()) table.state0[row] = value;
  }
};

// The part that one launch updates. A row-wise rule updates the state before the weights, so that
// rows of several slices take a launch for the state of each slice, and one for all weights.
enum class RowPart { kAll, kState, kWeights };

// A piece of a row, and of as many states as the rule keeps.
template <optimizer::OptimizerType kRule, int kPiece, RowPart kPart = RowPart::kAll>
struct RowPieces {
  static_assert(kPart == RowPart::kAll);
  static constexpr int kStates = optimizer::state_count(kRule);
  Piece<float, kPiece> w{}, state0{}, state1{};

  __device__ void load(const TableRows& table, int64_t row, int64_t column, const RowLanes&) {
    const int64_t at = row * table.width + column;
    if (kStates > 0 || !table.from_zero) w = load_piece<kPiece>(table.w + at);
    if constexpr (kStates > 0) state0 = load_piece<kPiece>(table.state0 + at);
    if constexpr (kStates > 1) state1 = load_piece<kPiece>(table.state1 + at);
  }
  __device__ void update(const optimizer::StepScalars& scalars, const Piece<float, kPiece>& g,
                         int64_t, const RowLanes&) {
#pragma unroll
    for (int j = 0; j < kPiece; ++j)
      optimizer::update_element<kRule>(scalars, g.at[j], w.at[j], state0.at[j], state1.at[j]);
  }
  __device__ void store(const TableRows& table, int64_t row, int64_t column,
                        const RowLanes&) const {
    const int64_t at = row * table.width + column;
    store_piece<kPiece>(table.w + at, w);
    if constexpr (kStates > 0) store_piece<kPiece>(table.state0 + at, state0);
    if constexpr (kStates > 1) store_piece<kPiece>(table.state1 + at, state1);
  }
};

template <optimizer::OptimizerType kRule, int kPiece, RowPart kPart>
requires(optimizer::is_row_wise(kRule)) struct RowPieces<kRule, kPiece, kPart> {
  Piece<float, kPiece> w{};
  RowState<kRule> state{};

  __device__ void load(const TableRows& table, int64_t row, int64_t column, const RowLanes& lanes) {
    if constexpr (kPart != RowPart::kState)
      w = load_piece<kPiece>(table.w + row * table.width + column);
    state.load(table, row, lanes);
  }
  __device__ void update(const optimizer::StepScalars& scalars, const Piece<float, kPiece>& g,
                         int64_t width, const RowLanes& lanes) {
    if constexpr (kPart != RowPart::kWeights) state.update(g, width, lanes);
    if constexpr (kPart == RowPart::kState) return;
    const float shared = lanes.of_first(state.value);
#pragma unroll
    for (int j = 0; j < kPiece; ++j)
      optimizer::update_weight<kRule>(scalars, g.at[j], w.at[j], shared);
  }
  __device__ void store(const TableRows& table, int64_t row, int64_t column,
                        const RowLanes& lanes) const {
    if constexpr (kPart != RowPart::kState)
      store_piece<kPiece>(table.w + row * table.width + column, w);
    if constexpr (kPart != RowPart::kWeights) state.store(table, row, lanes);
  }
};

}  // namespace hlite::embedding::gpu
