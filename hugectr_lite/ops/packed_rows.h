// Histories without their padding, on the CPU (sequence.h moves them): the valid rows of [B,n,W] as
// [R,W], those of one sample after those of the one before. `offsets` [B+1] says where each sample's begin; the last of
// them is R. T: float or bf16; sums are float's, in the order of rows.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/valid_rows.h"

namespace hlite::ops {

// lengths [B], of histories of n rows, of whose valid ones the last `last` are packed (0: all);
// firsts [B]: which row of its history each sample's first one is.
void row_offsets(const Exec& exec, Vector<const float> lengths, int64_t n, int64_t last,
                 Vector<int64_t> offsets, Vector<int64_t> firsts);

// to = the packed rows of the histories [n,W] in columns [begin, begin + n W) of from [B,all].
template <typename T = float>
void cut_rows(const Exec& exec, MatrixOf<const T> from, int64_t begin,
              Vector<const int64_t> offsets, MatrixOf<T> to);
// The other way round, of rows that may be packed, with zeros for padding.
template <typename T = float>
void paste_rows(const Exec& exec, MatrixOf<const T> from, const PackedRows& rows, int64_t n,
                MatrixOf<T> to, int64_t begin);

// to [B,W] = the sum of each sample's rows of from [R,W], or their mean; of none, 0.
template <typename T = float>
void sum_packed_rows(const Exec& exec, MatrixOf<const T> from, Vector<const int64_t> offsets,
                     bool mean, MatrixOf<T> to);
// to [R,W] = for each row that of its sample in from [B,W]; with `mean`, over how many there are.
template <typename T = float>
void repeat_rows(const Exec& exec, MatrixOf<const T> from, Vector<const int64_t> offsets, bool mean,
                 MatrixOf<T> to);

// y [B,W] = the sum of each sample's rows x [R,W], each times its number in weights [B,n].
template <typename T = float>
void weigh_rows(const Exec& exec, MatrixOf<const T> weights, MatrixOf<const T> x,
                Vector<const int64_t> offsets, MatrixOf<T> y);
// dx = dy times the weights, and dweights = dy . x, 0 where there is no row. One whose data() is
// null is not wanted.
template <typename T = float>
void weigh_rows_backward(const Exec& exec, MatrixOf<const T> weights, MatrixOf<const T> x,
                         MatrixOf<const T> dy, Vector<const int64_t> offsets, MatrixOf<T> dweights,
                         MatrixOf<T> dx);

}  // namespace hlite::ops
