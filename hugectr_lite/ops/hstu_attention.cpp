#include "hugectr_lite/ops/hstu_attention.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/lanes_exp.h"
#include "hugectr_lite/ops/small_product.h"
#include "hugectr_lite/ops/transpose.h"

namespace hlite::ops {
namespace {

constexpr int64_t kHstuPanel = 32;   // keys whose transposes lie together
constexpr int64_t kHstuBlock = 128;  // keys that all rows meet before the next ones: they fit in L2
constexpr int64_t kHstuTile = 48;  // rows that meet a block at a time: a whole number of registers

constexpr int64_t padded_width(int64_t n) { return (n + 7) / 8 * 8; }

struct Range {
  int64_t begin = 0, end = 0;
  [[nodiscard]] int64_t size() const { return end - begin; }
};

// The keys that each row of a sample sees: those before `context`, a range, and itself.
class SeenRanges {
 public:
  void find(const HstuMask& mask, int64_t n) {
    const int64_t shared = std::max<int64_t>(0, n - mask.candidates);
    context_ = std::min(mask.context, shared);
    rows_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      Range& row = rows_[static_cast<size_t>(i)];
      row = {0, shared};
      if (i < mask.context) continue;
      if (mask.window > 0) row = {std::max<int64_t>(0, i - mask.window + 1), i + mask.window};
      row.end = std::min(mask.causal ? i + 1 : mask.window > 0 ? row.end : shared, shared);
      row.begin = std::min(row.begin, row.end);
    }
  }
  [[nodiscard]] bool row_sees_any(int64_t i, Range keys) const {
    const Range row = rows_[static_cast<size_t>(i)];
    return keys.begin < context_ || (keys.begin <= i && i < keys.end) ||
           (row.begin < keys.end && keys.begin < row.end);
  }
  [[nodiscard]] bool row_sees_all(int64_t i, Range keys) const {
    const Range row = rows_[static_cast<size_t>(i)];
    return row.end >= keys.end && (row.begin <= keys.begin || row.begin <= context_);
  }
  // From the first to the last of `rows` that see any of these keys.
  [[nodiscard]] Range that_see_any(Range rows, Range keys) const {
    while (rows.size() > 0 && !row_sees_any(rows.begin, keys)) ++rows.begin;
    while (rows.size() > 0 && !row_sees_any(rows.end - 1, keys)) --rows.end;
    return rows;
  }
  [[nodiscard]] bool all_see_all(Range rows, Range keys) const {
    for (int64_t i = rows.begin; i < rows.end; ++i)
      if (!row_sees_all(i, keys)) return false;
    return true;
  }
  // Sets numbers of `keys` that row i does not see to 0.
  void clear_unseen(int64_t i, Range keys, float* numbers) const {
    const Range row = rows_[static_cast<size_t>(i)];
    const bool has_own = keys.begin <= i && i < keys.end;
    const float own = has_own ? numbers[i - keys.begin] : 0;
    const auto clear = [&](int64_t begin, int64_t end) {
      begin = std::max({begin, context_, keys.begin});
      for (int64_t j = begin; j < std::min(end, keys.end); ++j) numbers[j - keys.begin] = 0;
    };
    clear(0, row.begin);
    clear(row.end, keys.end);
    if (has_own) numbers[i - keys.begin] = own;
  }

 private:
  std::vector<Range> rows_;
  int64_t context_ = 0;
};

// Rows of floats one after another, as wide as a whole number of vectors, from a cache line on.
// Grown once.
class FloatRows {
 public:
  void resize(int64_t rows, int64_t width) {
    width_ = padded_width(width);
    if (numbers_.size() < rows * width_) numbers_ = Tensor<float, 1>(rows * width_);
  }
  void clear(int64_t rows) { std::fill_n(numbers_.data(), rows * width_, 0.0f); }
  [[nodiscard]] float* row(int64_t i) { return numbers_.data() + i * width_; }
  [[nodiscard]] int64_t width() const { return width_; }
  [[nodiscard]] StridedMatrix<float> from(int64_t i) { return {row(i), width_}; }
  [[nodiscard]] StridedMatrix<const float> const_from(int64_t i) { return {row(i), width_}; }
  [[nodiscard]] LeftFactor left(int64_t i) { return {row(i), width_, 1}; }

 private:
  Tensor<float, 1> numbers_;
  int64_t width_ = 0;
};

// Some columns of a sample's rows.
template <typename T>
struct HstuRows {
  T* data;
  int64_t stride, width;
  [[nodiscard]] T* at(int64_t i) const { return data + i * stride; }
};

// The memory of one thread. Of backward dy and the gradients too.
struct HstuMemory {
  HstuMemory() {
    weights.resize(kHstuTile, kHstuBlock);
    slopes.resize(kHstuTile, kHstuBlock);
  }
  SeenRanges seen;
  FloatRows q, y, dy, dq;                      // of all rows
  FloatRows k, v, turned_k, turned_v, dk, dv;  // of a block of keys
  FloatRows weights, slopes;                   // of a tile of rows with a block
};

// One head of one sample: blocks of keys, and what each tile of rows sees of them.
template <typename T>
class HstuHead {
 public:
  HstuHead(const HstuTensors<T>& in, HstuMemory& memory)
      : m_(memory),
        scale_(in.scale),
        root_(1 / std::sqrt(static_cast<float>(in.attention_dim))),
        a_(in.attention_dim),
        c_(in.hidden_dim) {}

  // Of n rows, of which those from `from` on ask.
  void begin(int64_t n, int64_t from, HstuRows<const T> q, HstuRows<const T> k,
             HstuRows<const T> v) {
    n_ = n;
    from_ = from;
    k_ = k;
    v_ = v;
    take(q, {from, n}, root_, m_.q);
  }

  void forward(HstuRows<T> y) {
    m_.y.resize(n_ - from_, c_);
    m_.y.clear(n_ - from_);
    for_each_piece(
        [&](Range keys) {
          take(k_, keys, 1, m_.k);
          take(v_, keys, 1, m_.v);
          turn(m_.k, keys.size(), m_.turned_k);
        },
        [&](Range rows, Range keys, int64_t key, bool masked) {
          float* const weights = m_.weights.row(0);
          multiply(rows, m_.q, keys.size(), key, m_.turned_k, weights);
          wide([&]<int kLanes>() {
            for (int64_t r = 0; r < rows.size(); ++r)
              for (int64_t j = 0; j < keys.size(); j += kLanes) {
                float* const at = weights + r * kHstuBlock + j;
                const auto s = load<kLanes>(at);
                store(at, s * sigmoid(s));
              }
          });
          if (masked) clear_unseen(rows, keys, weights);
          small_product(rows.size(), m_.y.width(), keys.size(), {weights, kHstuBlock, 1},
                        m_.v.const_from(key), m_.y.from(rows.begin - from_), true);
        },
        [](Range) {});
    give(m_.y, {0, n_ - from_}, scale_, y);
  }

  void backward(HstuRows<const T> dy, HstuRows<T> dq, HstuRows<T> dk, HstuRows<T> dv) {
    take(dy, {0, n_ - from_}, scale_, m_.dy);
    m_.dq.resize(n_ - from_, a_);
    m_.dq.clear(n_ - from_);
    for_each_piece(
        [&](Range keys) {
          take(k_, keys, 1, m_.k);
          take(v_, keys, 1, m_.v);
          turn(m_.k, keys.size(), m_.turned_k);
          turn(m_.v, keys.size(), m_.turned_v);
          m_.dk.resize(kHstuBlock, a_);
          m_.dv.resize(kHstuBlock, c_);
          m_.dk.clear(keys.size());
          m_.dv.clear(keys.size());
        },
        [&](Range rows, Range keys, int64_t key, bool masked) {
          float *const weights = m_.weights.row(0), *const slopes = m_.slopes.row(0);
          multiply(rows, m_.q, keys.size(), key, m_.turned_k, weights);
          multiply(rows, m_.dy, keys.size(), key, m_.turned_v, slopes);
          wide([&]<int kLanes>() {
            for (int64_t r = 0; r < rows.size(); ++r)
              for (int64_t j = 0; j < keys.size(); j += kLanes) {
                float *const at = weights + r * kHstuBlock + j, *const to = slopes + (at - weights);
                const auto s = load<kLanes>(at), sigma = sigmoid(s), silu = s * sigma;
                store(at, silu);
                store(to, load<kLanes>(to) * (sigma + silu * (1.0f - sigma)));
              }
          });
          if (masked) {
            clear_unseen(rows, keys, weights);
            clear_unseen(rows, keys, slopes);
          }
          const int64_t m = rows.size(), n = keys.size();
          small_product(m, m_.dq.width(), n, {slopes, kHstuBlock, 1}, m_.k.const_from(key),
                        m_.dq.from(rows.begin - from_), true);
          small_product(n, m_.dk.width(), m, {slopes, 1, kHstuBlock},
                        m_.q.const_from(rows.begin - from_), m_.dk.from(key), true);
          small_product(n, m_.dv.width(), m, {weights, 1, kHstuBlock},
                        m_.dy.const_from(rows.begin - from_), m_.dv.from(key), true);
        },
        [&](Range keys) {
          give(m_.dk, keys, 1, dk);  // the queries lie there multiplied by the scale of scores
          give(m_.dv, keys, 1, dv);
        });
    for (int64_t i = 0; i < from_; ++i) std::fill_n(dq.at(i), dq.width, T{});
    give(m_.dq, {from_, n_}, root_, dq);
  }

 private:
  // Of what is far below 0, as of -87: e^87 is a float.
  template <typename V>
  HLITE_INLINE static V sigmoid(V s) {
    return 1.0f / (1.0f + exp_of(-(s < -87.0f ? V{} - 87.0f : s)));
  }

  // begin(keys) and end(keys) of each block, and between them piece(rows, keys, place of the first
  // key in the block, whether some are not seen) for all that some of its rows see.
  template <typename Begin, typename Piece, typename End>
  void for_each_piece(const Begin& begin, const Piece& piece, const End& end) {
    for (Range block; block.begin < n_; block.begin = block.end) {
      block.end = std::min(n_, block.begin + kHstuBlock);
      begin(block);
      for (Range tile = {from_, 0}; tile.begin < n_; tile.begin = tile.end) {
        tile.end = std::min(n_, tile.begin + kHstuTile);
        const Range rows = m_.seen.that_see_any(tile, block);
        if (rows.size() == 0) continue;
        if (m_.seen.all_see_all(rows, block)) {
          piece(rows, block, 0, false);
          continue;
        }
        for (Range panel = {block.begin, 0}; panel.begin < block.end; panel.begin = panel.end) {
          panel.end = std::min(block.end, panel.begin + kHstuPanel);
          const Range of = m_.seen.that_see_any(rows, panel);
          if (of.size() > 0)
            piece(of, panel, panel.begin - block.begin, !m_.seen.all_see_all(of, panel));
        }
      }
      end(block);
    }
  }

  // to <- the rows of a range, multiplied by a factor.
  static void take(HstuRows<const T> from, Range rows, float factor, FloatRows& to) {
    to.resize(std::max(rows.size(), kHstuBlock), from.width);
    wide([&] {
      for (int64_t i = 0; i < rows.size(); ++i) {
        const T* const row = from.at(rows.begin + i);
        float* const wide_row = to.row(i);
        for (int64_t p = 0; p < from.width; ++p) wide_row[p] = factor * to_float(row[p]);
        for (int64_t p = from.width; p < to.width(); ++p) wide_row[p] = 0;
      }
    });
  }
  static void give(FloatRows& from, Range rows, float factor, HstuRows<T> to) {
    wide([&] {
      for (int64_t i = 0; i < rows.size(); ++i) {
        const float* const row = from.row(i);
        T* const out = to.at(rows.begin + i);
        for (int64_t p = 0; p < to.width; ++p) out[p] = from_float<T>(factor * row[p]);
      }
    });
  }
  // The transposes of kHstuPanel rows one after another: [panels, width, kHstuPanel].
  static void turn(FloatRows& from, int64_t n, FloatRows& panels) {
    panels.resize(kHstuBlock, from.width());
    wide([&] {
      for (int64_t j = 0; j < n; j += kHstuPanel)
        transpose(from.const_from(j), std::min(kHstuPanel, n - j), from.width(),
                  {panels.row(j), kHstuPanel});
    });
  }
  // to[r][j] = rows of x . keys, from `key` of the block on. Beyond them numbers mean nothing.
  void multiply(Range rows, FloatRows& x, int64_t keys, int64_t key, FloatRows& turned,
                float* to) const {
    for (int64_t j = 0; j < keys; j += kHstuPanel)
      small_product(rows.size(), std::min(kHstuPanel, padded_width(keys - j)), x.width(),
                    x.left(rows.begin - from_), {turned.row(key + j), kHstuPanel},
                    {to + j, kHstuBlock});
  }
  void clear_unseen(Range rows, Range keys, float* numbers) const {
    for (int64_t i = rows.begin; i < rows.end; ++i)
      m_.seen.clear_unseen(i, keys, numbers + (i - rows.begin) * kHstuBlock);
  }

  HstuMemory& m_;
  float scale_, root_;
  int64_t a_, c_, n_ = 0, from_ = 0;
  HstuRows<const T> k_{}, v_{};
};

template <typename T>
void check_hstu_attention(const char* op, const HstuTensors<T>& in, const Matrix<const T>& y) {
  const auto rows = in.uvqk.dim(0);
  HLITE_CHECK(
      in.heads > 0 && in.attention_dim > 0 && in.hidden_dim > 0 && in.mask.window >= 0 &&
          in.mask.context >= 0 && in.mask.candidates >= 0 &&
          in.uvqk.dim(1) == 2 * in.heads * (in.attention_dim + in.hidden_dim) &&
          (in.queries.data() ? in.queries.size() == in.lengths.size() + 1 : y.dim(0) == rows) &&
          y.dim(1) == in.heads * in.hidden_dim &&
          (in.offsets.data() ? in.offsets.size() == in.lengths.size() + 1
                             : in.lengths.size() * in.n == rows),
      "{}: uvqk {}, {} heads of {} and {}, window {}, context {}, candidates {}, {} "
      "lengths, {} offsets, {} rows of a sample, y {}",
      op, in.uvqk.shape(), in.heads, in.attention_dim, in.hidden_dim, in.mask.window,
      in.mask.context, in.mask.candidates, in.lengths.size(), in.offsets.size(), in.n, y.shape());
}

// Heads of all samples, cut into parts that cost about the same.
class HstuParts {
 public:
  template <typename T>
  HstuParts(const HstuTensors<T>& in, int threads) : heads_(in.heads) {
    thread_local std::vector<int64_t> costs;  // grown once; other threads read the caller's
    const int64_t batch = in.lengths.size();
    costs.assign(1, 0);
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t n = in.length(b);
      costs.push_back(costs.back() + n * (in.query_count(b, n) + 16) + 1);
    }
    costs_ = costs;
    const int64_t width = in.attention_dim + in.hidden_dim;
    count_ = std::min({int64_t{4} * threads, batch * heads_, all() * width / kElementGrain + 1});
  }
  [[nodiscard]] int64_t count() const { return count_; }
  // The first of the heads of all samples in a part.
  [[nodiscard]] int64_t begin(int64_t part) const {
    const int64_t before = all() / count_ * part + all() % count_ * part / count_;
    const auto sample =
        std::upper_bound(costs_.begin(), costs_.end(), before / heads_) - costs_.begin() - 1;
    const int64_t from = costs_[static_cast<size_t>(sample)] * heads_;
    if (from == before) return sample * heads_;
    const int64_t cost = costs_[static_cast<size_t>(sample) + 1] - from / heads_;
    return sample * heads_ + (before - from + cost - 1) / cost;
  }

 private:
  [[nodiscard]] int64_t all() const { return costs_.back() * heads_; }

  std::span<const int64_t> costs_;  // of one head of the samples before each
  int64_t heads_, count_ = 0;
};

// body(head's memory, begun; sample; valid rows; head) for all heads of all samples.
template <typename T, typename Body>
void for_each_hstu_head(const Exec& exec, const char* op, const HstuTensors<T>& in,
                        const Body& body) {
  ThreadPool& threads = cpu_threads_for<T>(exec, op);
  const HstuParts parts(in, threads.threads());
  if (parts.count() == 0) return;
  threads.run(parts.count(), [&](int64_t part, int) {
    thread_local HstuMemory memory;
    HstuHead<T> of(in, memory);
    for (int64_t i = parts.begin(part), last = -1; i < parts.begin(part + 1); ++i) {
      const int64_t sample = i / in.heads, head = i % in.heads;
      const int64_t n = in.length(sample), first = in.first_row(sample);
      const int64_t from = n - in.query_count(sample, n);
      if (sample != last) memory.seen.find(in.mask, n);
      last = sample;
      const auto columns = [&](int64_t column, int64_t width) {
        return HstuRows<const T>{in.uvqk.data() + first * in.uvqk.dim(1) + column, in.uvqk.dim(1),
                                 width};
      };
      of.begin(n, from, columns(in.q_column(head), in.attention_dim),
               columns(in.k_column(head), in.attention_dim),
               columns(in.v_column(head), in.hidden_dim));
      body(of, sample, n, head);
    }
  });
}

}  // namespace

template <typename T>
void hstu_attention_forward(const Exec& exec, const HstuTensorsOf<T>& in, MatrixOf<T> y) {
  constexpr const char* kName = "hstu_attention_forward";
  check_hstu_attention<T>(kName, in, y);
  if (exec.on_gpu()) return kernels::hstu_attention_forward<T>(exec, in, y);
  if constexpr (kOnCpu<T>)
    for_each_hstu_head<T>(
        exec, kName, in, [&](HstuHead<T>& of, int64_t sample, int64_t n, int64_t head) {
          const HstuRows<T> rows{y.row(in.first_query(sample)) + head * in.hidden_dim, y.dim(1),
                                 in.hidden_dim};
          of.forward(rows);
          for (int64_t i = n; !in.offsets.data() && i < in.n; ++i)
            std::fill_n(rows.at(i), rows.width, T{});
        });
  else
    needs_gpu(kName);
}

template <typename T>
void hstu_attention_backward(const Exec& exec, const HstuTensorsOf<T>& in, MatrixOf<const T> dy,
                             MatrixOf<T> duvqk) {
  constexpr const char* kName = "hstu_attention_backward";
  check_hstu_attention<T>(kName, in, dy);
  HLITE_CHECK(duvqk.dim(0) == in.uvqk.dim(0) && duvqk.dim(1) == in.uvqk.dim(1),
              "{}: uvqk {}, its gradient {}", kName, in.uvqk.shape(), duvqk.shape());
  if (exec.on_gpu()) return kernels::hstu_attention_backward<T>(exec, in, dy, duvqk);
  if constexpr (kOnCpu<T>)
    for_each_hstu_head<T>(
        exec, kName, in, [&](HstuHead<T>& of, int64_t sample, int64_t n, int64_t head) {
          const int64_t first = in.first_row(sample);
          const auto columns = [&](int64_t column, int64_t width) {
            return HstuRows<T>{duvqk.row(first) + column, duvqk.dim(1), width};
          };
          const HstuRows<T> all[] = {columns(in.q_column(head), in.attention_dim),
                                     columns(in.k_column(head), in.attention_dim),
                                     columns(in.v_column(head), in.hidden_dim)};
          of.backward(
              {dy.row(in.first_query(sample)) + head * in.hidden_dim, dy.dim(1), in.hidden_dim},
              all[0], all[1], all[2]);
          for (const HstuRows<T>& rows : all)
            for (int64_t i = n; !in.offsets.data() && i < in.n; ++i)
              std::fill_n(rows.at(i), rows.width, T{});
        });
  else
    needs_gpu(kName);
}

HLITE_INSTANTIATE_FLOATS(hstu_attention_forward)
HLITE_INSTANTIATE_FLOATS(hstu_attention_backward)

}  // namespace hlite::ops
