// The update of a table row and its states by the lanes of a warp that share the row.
#pragma once

#include <cstdint>

#include "embedding/row_pieces.cuh"
#include "embedding/updated_rows.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding::gpu {

// How updated weights become those of a row of W, as RowRounding has it.
template <typename W>
struct Rounding {
  RowNames names;
  const int64_t* step = nullptr;

  __device__ void prefetch(int64_t row) const {
    if (names.row_of_line) return prefetch_l2(names.row_of_line + row);
    if (names.keys) prefetch_l2(names.keys + row);
    if (names.numbers) prefetch_l2(names.numbers + row);
  }
  // A piece lies within 8 columns.
  template <int kPiece>
  __device__ Pack<W, kPiece> rounded(int64_t row, int64_t column,
                                     const Pack<float, kPiece>& from) const {
    static_assert(kPiece == 4 || kPiece == 1);
    const random::Block block = names.draws(row, *step).block(static_cast<uint32_t>(column / 8));
    // Chosen, not indexed: a GPU would put the array into memory.
    const bool upper = column % 8 >= 4;
    const uint32_t words[2] = {upper ? block.word[2] : block.word[0],
                               upper ? block.word[3] : block.word[1]};
    Pack<W, kPiece> to;
    if constexpr (kPiece == 4) {
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        to.value[j] = round_stochastically<W>(
            from.value[j], j % 2 == 0 ? words[j / 2] & 0xffffu : words[j / 2] >> 16);
    } else {
      const uint32_t word = column % 4 >= 2 ? words[1] : words[0];
      to.value[0] =
          round_stochastically<W>(from.value[0], column % 2 == 0 ? word & 0xffffu : word >> 16);
    }
    return to;
  }
};
template <>
struct Rounding<float> {
  __device__ void prefetch(int64_t) const {}
  template <int kPiece>
  __device__ Pack<float, kPiece> rounded(int64_t, int64_t, const Pack<float, kPiece>& w) const {
    return w;
  }
};

// Rows of W: float, bf16 or fp16.
template <typename W>
struct TableRows {
  W* w;                    // [*, width]
  float *state0, *state1;  // [*, state_width(rule, index, width)]
  int64_t width;
  uint32_t no_row;         // pairs of this row are passed over
  bool from_zero = false;  // UpdatedRows::from_zero
  Rounding<W> rounding = {};
};

// `step`: its number, in memory of the device.
template <typename W>
TableRows<W> table_rows(const UpdatedRows& rows, uint32_t no_row, const int64_t* step) {
  TableRows<W> table{
      rows.w.as<W>().data(), rows.state0.data(), rows.state1.data(), rows.w.dim(1), no_row,
      rows.from_zero};
  if constexpr (!std::is_same_v<W, float>) table.rounding = {rows.names, step};
  return table;
}

// The lanes that take a piece each of one slice of a row: `count` neighbours, a power of two, the
// first `active` of which have columns of the row.
struct RowLanes {
  int count, lane, active;
  unsigned mask;
  bool first_slice;

  // The lanes of the row whose piece at `column` < width belongs to this thread.
  __device__ static RowLanes at(int count, int piece, int64_t column, int64_t width) {
    const int lane = static_cast<int>(threadIdx.x) & (count - 1);
    const int64_t pieces = (width - column + piece - 1) / piece + lane;
    const int active = pieces < count ? static_cast<int>(pieces) : count;
    return {count, lane, active,
            (0xffffffffu >> (kWarp - active)) << (static_cast<int>(threadIdx.x) % kWarp - lane),
            column == int64_t{lane} * piece};
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

// The part that one launch updates. A row-wise rule updates the row's state before the weights, so
// that rows of several slices take a launch for the state of each slice, and one for all weights.
enum class RowPart { kAll, kState, kWeights };

template <int kPiece, bool kPassing, typename T>
__device__ inline Pack<T, kPiece> load_row_piece(const T* from) {
  if constexpr (kPassing) return load_passing<kPiece>(from);
  return load_pack<kPiece>(from);
}
template <bool kPassing, int kPiece, typename T>
__device__ inline void store_row_piece(T* to, const Pack<T, kPiece>& piece) {
  if constexpr (kPassing)
    store_passing(to, piece);
  else
    store_whole(to, piece);
}

// A piece of a row and of the states that the rule keeps of each weight, and the row's own state,
// which the first of the row's lanes holds and moves. kPassing: rows are used once.
template <optimizer::OptimizerType kRule, typename W, int kPiece, RowPart kPart = RowPart::kAll,
          bool kPassing = false>
class RowPieces {
 public:
  __device__ void load(const TableRows<W>& table, int64_t row, int64_t column,
                       const RowLanes& lanes) {
    const int64_t at = row * table.width + column;
    if (kWeights && (kStates > 0 || !table.from_zero))
      stored_ = load_row_piece<kPiece, kPassing>(table.w + at);
    if (kWeights && lanes.first()) table.rounding.prefetch(row);
    if constexpr (has(0)) state0_ = load_row_piece<kPiece, kPassing>(table.state0 + at);
    if constexpr (has(1)) state1_ = load_row_piece<kPiece, kPassing>(table.state1 + at);
    if constexpr (kRowWise)
      if (lanes.first()) of_row_ = states_of_rows(table)[row];
  }
  // Asks for what load() will read into the L2 cache.
  __device__ static void prefetch(const TableRows<W>& table, int64_t row, int64_t column,
                                  const RowLanes& lanes) {
    const int64_t at = row * table.width + column;
    if (kWeights && (kStates > 0 || !table.from_zero)) prefetch_l2(table.w + at);
    if (kWeights && lanes.first()) table.rounding.prefetch(row);
    if constexpr (has(0)) prefetch_l2(table.state0 + at);
    if constexpr (has(1)) prefetch_l2(table.state1 + at);
    if constexpr (kRowWise)
      if (lanes.first()) prefetch_l2(states_of_rows(table) + row);
  }
  __device__ void update(const optimizer::StepScalars& scalars, const Pack<float, kPiece>& g,
                         int64_t width, const RowLanes& lanes) {
    w_ = floats_of(stored_);
    if constexpr (!kRowWise) {
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        optimizer::update_element<kRule>(scalars, g.value[j], w_.value[j], state0_.value[j],
                                         state1_.value[j]);
    } else {
      if constexpr (kPart != RowPart::kWeights) update_state(scalars, g, width, lanes);
      if constexpr (!kWeights) return;
      float shared = lanes.of_first(of_row_);
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        optimizer::update_weight<kRule>(scalars, g.value[j], w_.value[j],
                                        has(0) ? state0_.value[j] : shared,
                                        has(1) ? state1_.value[j] : shared);
    }
  }
  __device__ void store(const TableRows<W>& table, int64_t row, int64_t column,
                        const RowLanes& lanes) const {
    const int64_t at = row * table.width + column;
    if constexpr (kWeights)
      store_row_piece<kPassing>(table.w + at, table.rounding.rounded(row, column, w_));
    if constexpr (has(0)) store_row_piece<kPassing>(table.state0 + at, state0_);
    if constexpr (has(1)) store_row_piece<kPassing>(table.state1 + at, state1_);
    if constexpr (kRowWise && kPart != RowPart::kWeights)
      if (lanes.first()) states_of_rows(table)[row] = of_row_;
  }

 private:
  static constexpr int kStates = optimizer::state_count(kRule);
  static constexpr bool kRowWise = optimizer::is_row_wise(kRule),
                        kWeights = kPart != RowPart::kState;
  static_assert(kRowWise || kPart == RowPart::kAll);
  HLITE_HD static constexpr bool has(int state) {
    return kWeights && optimizer::is_per_weight(kRule, state);
  }
  __device__ static float* states_of_rows(const TableRows<W>& table) {
    return optimizer::states_of(kRule).list[0].per_row ? table.state0 : table.state1;
  }
  // Moves the row's state by a slice of its gradient; the slices of a wide row follow each other.
  __device__ void update_state(const optimizer::StepScalars& scalars, const Pack<float, kPiece>& g,
                               int64_t width, const RowLanes& lanes) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kPiece; ++j) squares += g.value[j] * g.value[j];
    squares = lanes.sum(squares);
    if (lanes.first())
      optimizer::update_row_state<kRule>(scalars, squares / static_cast<float>(width),
                                         lanes.first_slice, of_row_);
  }

  Pack<W, kPiece> stored_{};
  Pack<float, kPiece> w_{}, state0_{}, state1_{};
  float of_row_ = 0;
};

// Updates a whole row. `lanes` lanes share it, and `first` < width is the first column of this one.
// gradient(column) returns the gradient of a piece.
template <optimizer::OptimizerType kRule, int kPiece, bool kPassing, typename W, typename Gradient>
__device__ inline void update_whole_row(const optimizer::StepScalars& scalars,
                                        const TableRows<W>& table, int64_t row, int lanes,
                                        int64_t first, Gradient&& gradient) {
  const auto update = [&]<RowPart kPart>() {
    for (int64_t column = first; column < table.width; column += lanes * kPiece) {
      const RowLanes of = RowLanes::at(lanes, kPiece, column, table.width);
      RowPieces<kRule, W, kPiece, kPart, kPassing> pieces;
      pieces.load(table, row, column, of);
      pieces.update(scalars, gradient(column), table.width, of);
      pieces.store(table, row, column, of);
    }
  };
  if constexpr (optimizer::is_row_wise(kRule)) {
    update.template operator()<RowPart::kState>();
    update.template operator()<RowPart::kWeights>();
  } else {
    update.template operator()<RowPart::kAll>();
  }
}

}  // namespace hlite::embedding::gpu
