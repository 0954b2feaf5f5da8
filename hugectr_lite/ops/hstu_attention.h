// The pointwise attention of HSTU (Zhai et al., "Actions Speak Louder than Words", 2024; formulas of
// DLRM-HSTU): no softmax, so that each pair of rows stands by itself. Of each head, for the valid
// rows of a sample,
//
//   s[i,j] = q[i] . k[j] / sqrt(a),  y[i] = 1/N sum over seen j of silu(s[i,j]) v[j]
//   dv[j] = 1/N sum_i silu(s[i,j]) dy[i],  ds[i,j] = 1/N (dy[i] . v[j]) silu'(s[i,j])
//   dq[i] = sum_j ds[i,j] k[j] / sqrt(a),  dk[j] = sum_i ds[i,j] q[i] / sqrt(a)
//
// with silu(s) = s sigmoid(s) and silu'(s) = sigmoid(s) (1 + s (1 - sigmoid(s))). Nothing of [n,n]
// is in memory: backward computes scores again. T: float, or bf16, or on a GPU fp16. Sums are
// float's, in an order that a sample's length alone decides; its bits depend on no other sample.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/valid_rows.h"

namespace hlite::ops {

// The widest heads, of queries or of values, that every GPU has room for.
inline constexpr int64_t kWidestHstuHead = 256;

// Which rows see which.
struct HstuMask {
  bool causal = true;      // j <= i
  int64_t window = 0;      // i - j < window; 0: any distance
  int64_t context = 0;     // so many rows in front see all and are seen by all
  int64_t candidates = 0;  // so many valid rows at the end see the others and themselves alone

  [[nodiscard]] HLITE_HD bool sees(int64_t i, int64_t j, int64_t length) const {
    if (i == j) return true;
    if (j >= length - candidates) return false;
    if (i < context || j < context) return true;
    return (!causal || j < i) && (window == 0 || (i > j ? i - j : j - i) < window);
  }
};

template <typename T>
struct HstuTensors {
  // [R, 2 H (a + c)]: columns u [H,c], v [H,c], q [H,a], k [H,a]. u is not read here.
  Matrix<const T> uvqk;
  Vector<const float> lengths;         // [B]
  Vector<const int64_t> offsets = {};  // [B+1]: a sample's first row; null: n rows for each
  // [B+1], on the CPU: where the rows of y begin, which are a sample's last ones; null: all
  Vector<const int64_t> queries = {};
  int64_t n = 0;  // positions of a sample, of which the first `length` are valid
  int64_t heads = 1, attention_dim = 0, hidden_dim = 0;
  float scale = 1;  // 1/N
  HstuMask mask = {};

  [[nodiscard]] HLITE_HD int64_t length(int64_t sample) const {
    return valid_rows(lengths, sample, n);
  }
  [[nodiscard]] HLITE_HD int64_t first_row(int64_t sample) const {
    return offsets.data() ? offsets.data()[sample] : sample * n;
  }
  // The first row of y, and how many a sample of `length` rows has there.
  [[nodiscard]] int64_t first_query(int64_t sample) const {
    return queries.data() ? queries.data()[sample] : first_row(sample);
  }
  [[nodiscard]] int64_t query_count(int64_t sample, int64_t length) const {
    return queries.data() ? queries.data()[sample + 1] - queries.data()[sample] : length;
  }
  [[nodiscard]] HLITE_HD int64_t v_column(int64_t head) const {
    return (heads + head) * hidden_dim;
  }
  [[nodiscard]] HLITE_HD int64_t q_column(int64_t head) const {
    return 2 * heads * hidden_dim + head * attention_dim;
  }
  [[nodiscard]] HLITE_HD int64_t k_column(int64_t head) const { return q_column(heads + head); }
};
template <typename T>
using HstuTensorsOf = HstuTensors<std::type_identity_t<T>>;

// y [R, H c], or as many rows as `queries` says; rows of padding become 0.
template <typename T = float>
void hstu_attention_forward(const Exec& exec, const HstuTensorsOf<T>& in, MatrixOf<T> y);

// dy as y. Of duvqk, of uvqk's shape, the columns v, q and k are overwritten (0 at padding), and
// u is left.
template <typename T = float>
void hstu_attention_backward(const Exec& exec, const HstuTensorsOf<T>& in, MatrixOf<const T> dy,
                             MatrixOf<T> duvqk);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::hstu_attention_forward<T>)> hstu_attention_forward{
    "hstu_attention_forward"};
template <typename T>
inline const KernelOf<decltype(ops::hstu_attention_backward<T>)> hstu_attention_backward{
    "hstu_attention_backward"};
}  // namespace kernels

}  // namespace hlite::ops
