#include "hugectr_lite/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/lanes_exp.h"
#include "hugectr_lite/ops/small_product.h"
#include "hugectr_lite/ops/transpose.h"

namespace hlite::ops {
namespace {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();
constexpr int64_t kPanel = 32;  // keys whose transposes lie together

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// to[i] = factor * from[i], for i < n; eight at a time, as heads are narrow.
template <typename From, typename To>
HLITE_INLINE void scale_row(const From* __restrict from, int64_t n, float factor,
                            To* __restrict to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t k = i; k < i + 8; ++k) to[k] = from_float<To>(factor * to_float(from[k]));
  for (; i < n; ++i) to[i] = from_float<To>(factor * to_float(from[i]));
}

// What the rows of one sample see.
template <typename T>
class SeenKeys {
 public:
  struct Row {
    int64_t row, end;  // no key from `end` on is seen
    const T* gaps;     // the row's mask, if not all keys before `end` are seen; or null
  };
  // `mask`: of the sample's f rows that are here, [f,t], or null.
  void find(const T* mask, int64_t f, int64_t t) {
    rows_.clear();
    blind_.clear();
    end_ = 0;
    ends_.resize(static_cast<size_t>(2 * f));
    int32_t* const ends = ends_.data();
    wide([&] { count(mask, f, t, ends); });
    for (int64_t i = 0; i < f; ++i) {
      const Row row = {i, ends[2 * i], ends[2 * i + 1] < ends[2 * i] ? mask + i * t : nullptr};
      if (row.end > 0)
        rows_.push_back(row);
      else
        blind_.push_back(i);
      end_ = std::max(end_, row.end);
    }
  }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }  // but those that see none
  [[nodiscard]] const std::vector<int64_t>& blind() const { return blind_; }  // those
  [[nodiscard]] int64_t end() const { return end_; }

 private:
  // Of each row, the end of what it sees, and how many keys.
  static void count(const T* mask, int64_t f, int64_t t, int32_t* ends) {
    for (int64_t i = 0; i < f; ++i) {
      auto end = static_cast<int32_t>(mask ? 0 : t), seen = end;
      for (int32_t j = 0; mask && j < static_cast<int32_t>(t); ++j) {
        const int32_t is = to_float(mask[i * t + j]) != 0 ? 1 : 0;
        seen += is;
        end = std::max(end, is * (j + 1));
      }
      ends[2 * i] = end;
      ends[2 * i + 1] = seen;
    }
  }

  std::vector<Row> rows_;
  std::vector<int64_t> blind_;
  std::vector<int32_t> ends_;
  int64_t end_ = 0;
};

// One head's columns of a sample's rows.
template <typename T>
struct HeadRows {
  T* data;
  int64_t stride;
  [[nodiscard]] T* at(int64_t i) const { return data + i * stride; }
};

// The memory of one thread. Grown once.
struct AttentionMemory {
  std::vector<float> key_rows, value_rows, turned_keys, turned_values, queries, above, scores,
      gradients, outputs, key_sums, value_sums;
};

// One head of one sample: some rows of q at a time, as many as products like.
template <typename T>
class AttentionHead {
 public:
  AttentionHead(const AttentionInputs<T>& in, AttentionMemory& memory)
      : memory_(memory),
        f_(in.q.dim(1)),
        t_(in.k.dim(1)),
        width_(in.q.dim(2) / in.heads),
        padded_(round_up(width_, 8)),
        scale_(1 / std::sqrt(static_cast<float>(width_))),
        row_keys_(round_up(t_, kPanel)),
        tile_rows_(t_ <= 1024 ? 24 : 12),
        most_rows_(std::min(f_, tile_rows_ + 12)) {}

  // Keys and values that are seen, as rows of `padded_` floats.
  void begin(HeadRows<const T> k, HeadRows<const T> v, const SeenKeys<T>& seen, bool of_all_rows) {
    seen_ = &seen;
    keys_ = rows_of(k, seen.end(), memory_.key_rows);
    values_ = rows_of(v, seen.end(), memory_.value_rows);
    // Where the last rows alone are there, as if all were.
    transposes_ = of_all_rows ? seen.end() >= 8 : seen.rows().size() >= 8;
    if (transposes_) turn(keys_, memory_.turned_keys);
  }

  void forward(HeadRows<const T> q, HeadRows<float> statistics, HeadRows<T> y) {
    for (const int64_t i : seen_->blind()) {
      std::fill_n(statistics.at(i), kAttentionStatistics, 0.0f);
      std::fill_n(y.at(i), width_, T{});
    }
    for_each_tile([&](const Row* rows, int64_t count, int64_t end) {
      float* const scores = score(q, rows, count, end);
      float* const sums = of_size(memory_.outputs, most_rows_ * padded_);
      wide([&]<int kLanes>() {
        for (int64_t r = 0; r < count; ++r) {
          float* const row = scores + r * row_keys_;
          Lanes<kLanes> most = Lanes<kLanes>{} + kUnseen, sum = {};
          for (int64_t j = 0; j < padded_end(end); j += kLanes)
            most = larger_of(load<kLanes>(row + j), most);
          const float largest = reduce_lanes(most, [](auto a, auto b) { return larger_of(a, b); });
          for (int64_t j = 0; j < padded_end(end); j += kLanes) {
            const auto e = exp_of(load<kLanes>(row + j) - largest);
            store(row + j, e);
            sum += e;
          }
          float* const kept = statistics.at(rows[r].row);
          kept[0] = largest;
          kept[1] = 1 / reduce_lanes(sum, [](auto a, auto b) { return a + b; });
        }
      });
      small_product(count, padded_, end, {scores, row_keys_, 1}, values_, {sums, padded_});
      write(
          sums, count, [&](int64_t r) { return y.at(rows[r].row); },
          [&](int64_t r) { return statistics.at(rows[r].row)[1]; });
    });
  }

  void backward(HeadRows<const T> q, HeadRows<const float> statistics, HeadRows<const T> dy,
                HeadRows<T> dq, HeadRows<T> dk, int64_t k_rows, HeadRows<T> dv, int64_t v_rows) {
    if (transposes_) turn(values_, memory_.turned_values);
    const int64_t all = seen_->end() * padded_;
    float *const dkeys = of_size(memory_.key_sums, all), *const dvalues =
                                                             of_size(memory_.value_sums, all);
    bool add = false;  // to the sums of tiles before
    if (dq.data)
      for (const int64_t i : seen_->blind()) std::fill_n(dq.at(i), width_, T{});
    for_each_tile([&](const Row* rows, int64_t count, int64_t end) {
      float* const weights = score(q, rows, count, end);
      float* const dscores = of_size(memory_.gradients, most_rows_ * row_keys_);
      const StridedMatrix<const float> above = take(dy, rows, count, 1, memory_.above);
      multiply_rows(above, count, values_, memory_.turned_values, end, dscores);
      wide([&]<int kLanes>() {
        for (int64_t r = 0; r < count; ++r) {
          float *const p = weights + r * row_keys_, *const ds = dscores + r * row_keys_;
          const float largest = statistics.at(rows[r].row)[0], rate = statistics.at(rows[r].row)[1];
          std::fill_n(ds + end, padded_end(end) - end, 0.0f);
          Lanes<kLanes> inner = {};
          for (int64_t j = 0; j < padded_end(end); j += kLanes) {
            const auto weight = exp_of(load<kLanes>(p + j) - largest) * rate;
            store(p + j, weight);
            inner += weight * load<kLanes>(ds + j);
          }
          const float mean = reduce_lanes(inner, [](auto a, auto b) { return a + b; });
          for (int64_t j = 0; j < padded_end(end); j += kLanes)
            store(ds + j, load<kLanes>(p + j) * (load<kLanes>(ds + j) - mean));
        }
      });
      if (dq.data) {
        float* const sums = of_size(memory_.outputs, most_rows_ * padded_);
        small_product(count, padded_, end, {dscores, row_keys_, 1}, keys_, {sums, padded_});
        write(
            sums, count, [&](int64_t r) { return dq.at(rows[r].row); },
            [&](int64_t) { return scale_; });
      }
      // The queries lie there multiplied by the scale of scores.
      const StridedMatrix<const float> queries{memory_.queries.data(), padded_};
      if (dk.data)
        small_product(end, padded_, count, {dscores, 1, row_keys_}, queries, {dkeys, padded_}, add);
      if (dv.data)
        small_product(end, padded_, count, {weights, 1, row_keys_}, above, {dvalues, padded_}, add);
      if (!add) {
        std::fill_n(dkeys + end * padded_, all - end * padded_, 0.0f);
        std::fill_n(dvalues + end * padded_, all - end * padded_, 0.0f);
      }
      add = true;
    });
    if (dk.data) write_keys(dkeys, dk, k_rows);
    if (dv.data) write_keys(dvalues, dv, v_rows);
  }

 private:
  using Row = typename SeenKeys<T>::Row;
  // A whole number of vectors.
  static constexpr int64_t padded_end(int64_t end) { return round_up(end, 16); }

  static float* of_size(std::vector<float>& of, int64_t n) {
    if (of.size() < static_cast<size_t>(n)) of.resize(static_cast<size_t>(n));
    return of.data();
  }
  void widen_row(const T* from, float factor, float* to) const {
    scale_row(from, width_, factor, to);
    for (int64_t c = width_; c < padded_; ++c) to[c] = 0;
  }
  // place(i) = factor(i) * row i of sums.
  template <typename Place, typename OfRow>
  void write(const float* sums, int64_t n, const Place& place, const OfRow& factor) const {
    wide([&] {
      for (int64_t i = 0; i < n; ++i) scale_row(sums + i * padded_, width_, factor(i), place(i));
    });
  }
  // Those of unseen keys are zeros.
  void write_keys(const float* sums, HeadRows<T> to, int64_t rows) const {
    write(
        sums, seen_->end(), [&](int64_t j) { return to.at(j); }, [](int64_t) { return 1.0f; });
    for (int64_t j = seen_->end(); j < rows; ++j) std::fill_n(to.at(j), width_, T{});
  }

  StridedMatrix<const float> rows_of(HeadRows<const T> from, int64_t n,
                                     std::vector<float>& copies) const {
    if constexpr (std::is_same_v<T, float>)
      if (padded_ == width_) return {from.data, from.stride};
    float* const to = of_size(copies, n * padded_);
    wide([&] {
      for (int64_t i = 0; i < n; ++i) widen_row(from.at(i), 1, to + i * padded_);
    });
    return {to, padded_};
  }
  // The transposes of kPanel rows of `from` one after another: [panels, width, kPanel].
  void turn(StridedMatrix<const float> from, std::vector<float>& panels) const {
    float* const to = of_size(panels, row_keys_ * width_);
    wide([&] {
      for (int64_t j = 0; j < seen_->end(); j += kPanel)
        transpose({from.data + j * from.stride, from.stride}, std::min(kPanel, seen_->end() - j),
                  width_, {to + j * width_, kPanel});
    });
  }
  // Rows of q or dy, one after another, multiplied by a factor.
  StridedMatrix<const float> take(HeadRows<const T> from, const Row* rows, int64_t count,
                                  float factor, std::vector<float>& rows_of_floats) const {
    float* const to = of_size(rows_of_floats, most_rows_ * padded_);
    wide([&] {
      for (int64_t r = 0; r < count; ++r) widen_row(from.at(rows[r].row), factor, to + r * padded_);
    });
    return {to, padded_};
  }

  // to[r][j] = a[r] . b[j] for j < end, in rows of row_keys_.
  void multiply_rows(StridedMatrix<const float> a, int64_t count, StridedMatrix<const float> b,
                     const std::vector<float>& turned, int64_t end, float* to) const {
    if (!transposes_) return small_product_of_rows(count, end, width_, a, b, {to, row_keys_});
    for (int64_t j = 0; j < end; j += kPanel)
      small_product(count, std::min(kPanel, round_up(end - j, 8)), width_, {a.data, a.stride, 1},
                    {turned.data() + j * width_, kPanel}, {to + j, row_keys_});
  }

  // The scores of rows of q, kUnseen where a key is not seen, to a whole number of vectors.
  float* score(HeadRows<const T> q, const Row* rows, int64_t count, int64_t end) {
    float* const scores = of_size(memory_.scores, most_rows_ * row_keys_);
    multiply_rows(take(q, rows, count, scale_, memory_.queries), count, keys_, memory_.turned_keys,
                  end, scores);
    for (int64_t r = 0; r < count; ++r) {
      float* const row = scores + r * row_keys_;
      std::fill_n(row + rows[r].end, padded_end(end) - rows[r].end, kUnseen);
      if (const T* const seen = rows[r].gaps)
        wide([&] {
          for (int64_t j = 0; j < rows[r].end; ++j)
            row[j] = to_float(seen[j]) == 0 ? kUnseen : row[j];
        });
    }
    return scores;
  }

  // body(rows, count, end of the keys that they see) for some rows at a time.
  template <typename Body>
  void for_each_tile(Body&& body) const {
    const std::vector<Row>& rows = seen_->rows();
    const auto all = static_cast<int64_t>(rows.size());
    for (int64_t first = 0, count = 0; first < all; first += count) {
      count = all - first <= most_rows_ ? all - first : tile_rows_;
      const Row* const from = rows.data() + first;
      int64_t end = 0;
      for (int64_t r = 0; r < count; ++r) end = std::max(end, from[r].end);
      body(from, count, end);
    }
  }

  AttentionMemory& memory_;
  int64_t f_, t_, width_, padded_;
  float scale_;
  int64_t row_keys_;               // numbers of a row of scores
  int64_t tile_rows_, most_rows_;  // of a tile, and with what is left for the last one
  const SeenKeys<T>* seen_ = nullptr;
  StridedMatrix<const float> keys_{}, values_{};
  bool transposes_ = false;  // for few rows dot products are faster
};

template <typename T>
void check_attention(const char* op, const AttentionInputs<T>& in, View<const float, 3> statistics,
                     View<const T, 3> y) {
  const int64_t batch = in.q.dim(0), f = in.q.dim(1), h = in.q.dim(2), t = in.k.dim(1);
  const auto is = [](const auto& x, int64_t a, int64_t b, int64_t c) {
    return x.dim(0) == a && x.dim(1) == b && x.dim(2) == c;
  };
  HLITE_CHECK(is(in.k, batch, t, h) && is(in.v, batch, t, h) && is(y, batch, f, h) &&
                  (!in.mask.data() || is(in.mask, batch, f, t)) && in.heads > 0 &&
                  h % in.heads == 0 && is(statistics, batch, in.heads * f, kAttentionStatistics),
              "{}: q {}, k {}, v {}, mask {}, {} heads, statistics {}, y {}", op, in.q.shape(),
              in.k.shape(), in.v.shape(), in.mask.shape(), in.heads, statistics.shape(), y.shape());
}

// body(head's memory, loaded; sample; head) for every head of every sample, which `products` of
// its rows with its keys' numbers cost.
template <typename T, typename Body>
void for_each_head(const Exec& exec, const char* op, const AttentionInputs<T>& in, int64_t products,
                   const Body& body) {
  ThreadPool& threads = cpu_threads_for<T>(exec, op);
  const int64_t f = in.q.dim(1), h = in.q.dim(2), t = in.k.dim(1), width = h / in.heads;
  threads.parallel_for(
      in.q.dim(0) * in.heads, kElementGrain / (products * f * t * width + 1) + 1,
      [&](int64_t begin, int64_t end) {
        thread_local AttentionMemory memory;
        thread_local SeenKeys<T> seen;
        AttentionHead<T> head(in, memory);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t sample = i / in.heads, column = i % in.heads * width;
          if (i == begin || i % in.heads == 0)
            seen.find(in.mask.data() ? in.mask.row(sample) + in.q_rows.first(sample) * t : nullptr,
                      in.q_rows.count(sample, f), t);
          head.begin({in.k.data() + in.k_rows.begin(sample, t) * h + column, h},
                     {in.v.data() + in.v_rows.begin(sample, t) * h + column, h}, seen,
                     in.q_rows.offsets.data() != nullptr);
          body(head, sample, i % in.heads);
        }
      });
}

}  // namespace

template <typename T>
void attention_forward(const Exec& exec, const AttentionInputsOf<T>& in, View<float, 3> statistics,
                       ViewOf<T, 3> y) {
  constexpr const char* kName = "attention_forward";
  check_attention<T>(kName, in, statistics, y);
  if (exec.on_gpu()) return kernels::attention_forward<T>(exec, in, statistics, y);
  const int64_t f = in.q.dim(1), h = in.q.dim(2), width = h / in.heads;
  if constexpr (kOnCpu<T>)
    for_each_head<T>(exec, kName, in, 2, [&](AttentionHead<T>& head, int64_t b, int64_t n) {
      const int64_t first = in.q_rows.begin(b, f) * h + n * width;
      head.forward({in.q.data() + first, h},
                   {statistics.row(b) + n * f * kAttentionStatistics, kAttentionStatistics},
                   {y.data() + first, h});
    });
  else
    needs_gpu(kName);
}

template <typename T>
void attention_backward(const Exec& exec, const AttentionInputsOf<T>& in,
                        View<const float, 3> statistics, ViewOf<const T, 3> y,
                        ViewOf<const T, 3> dy, ViewOf<T, 3> dq, ViewOf<T, 3> dk, ViewOf<T, 3> dv) {
  constexpr const char* kName = "attention_backward";
  check_attention<T>(kName, in, statistics, y);
  const auto or_else = [](View<T, 3> x, View<const T, 3> other) {
    return x.data() ? View<const T, 3>(x) : other;
  };
  check_attention<T>(kName,
                     {or_else(dq, in.q), or_else(dk, in.k), or_else(dv, in.v), in.mask, in.heads},
                     statistics, dy);
  if (exec.on_gpu()) return kernels::attention_backward<T>(exec, in, statistics, y, dy, dq, dk, dv);
  const int64_t f = in.q.dim(1), h = in.q.dim(2), width = h / in.heads;
  if constexpr (kOnCpu<T>)
    for_each_head<T>(exec, kName, in, 5, [&](AttentionHead<T>& head, int64_t b, int64_t n) {
      const auto place = [&](const auto& x, const PackedRows& rows) {
        using X = std::remove_pointer_t<decltype(x.data())>;
        return HeadRows<X>{x.data() ? x.data() + rows.begin(b, x.dim(1)) * h + n * width : nullptr,
                           h};
      };
      const int64_t t = in.k.dim(1);
      head.backward(place(in.q, in.q_rows),
                    {statistics.row(b) + n * f * kAttentionStatistics, kAttentionStatistics},
                    place(dy, in.q_rows), place(dq, in.q_rows), place(dk, in.k_rows),
                    in.k_rows.count(b, t), place(dv, in.v_rows), in.v_rows.count(b, t));
    });
  else
    needs_gpu(kName);
}

HLITE_INSTANTIATE_FLOATS(attention_forward)
HLITE_INSTANTIATE_FLOATS(attention_backward)

}  // namespace hlite::ops
