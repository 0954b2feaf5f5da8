// Packed histories, and products of pairs of them, against sums in double.
#include "hugectr_lite/ops/packed_rows.h"

#include <vector>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/ops/pair_product.h"
#include "hugectr_lite/ops/sequence.h"
#include "tests/support/compare.h"

namespace hlite::test {
namespace {

template <typename T>
class PackedHistories {
 public:
  PackedHistories(int64_t samples, int64_t most, int64_t columns, int64_t seed)
      : batch(samples),
        n(most),
        width(columns),
        offsets_(static_cast<size_t>(samples + 1)),
        firsts_(static_cast<size_t>(samples)) {
    for (int64_t b = 0; b < samples; ++b)
      lengths_.push_back(static_cast<float>((b * 3 + seed) % (most + 2)));
    count(0);
  }
  // Packs the last ones alone; 0: all.
  void count(int64_t last) {
    ops::row_offsets(exec, {lengths_.data(), batch}, n, last, {offsets_.data(), batch + 1},
                     {firsts_.data(), batch});
    rows = offsets_.back();
  }
  [[nodiscard]] ops::PackedRows places() const { return {offsets(), {firsts_.data(), batch}}; }
  [[nodiscard]] Vector<const int64_t> offsets() const { return {offsets_.data(), batch + 1}; }
  [[nodiscard]] int64_t first(int64_t b) const { return offsets_[static_cast<size_t>(b)]; }
  [[nodiscard]] int64_t valid(int64_t b) const { return first(b + 1) - first(b); }

  static std::vector<T> numbers(int64_t count, uint64_t seed) {
    std::vector<float> values(static_cast<size_t>(count));
    fill_random(values, seed);
    std::vector<T> as;
    for (const float x : values) as.push_back(from_float<T>(x));
    return as;
  }

 private:
  ThreadPool pool_{2};
  std::vector<float> lengths_;

 public:
  const int64_t batch, n, width;
  int64_t rows = 0;
  const Exec exec = {.device = Device::kCpu, .pool = &pool_};

 private:
  std::vector<int64_t> offsets_, firsts_;
};

template <typename T, typename Body>
void for_each_history(Body&& body) {
  for (const auto& [batch, n, width] :
       {std::tuple(0, 3, 2), std::tuple(1, 1, 1), std::tuple(5, 4, 8), std::tuple(9, 7, 3),
        std::tuple(700, 5, 16), std::tuple(3, 67, 5), std::tuple(2, 2, 301)})
    for (const int64_t seed : {0, 1}) {
      INFO(batch << " histories of " << n << " rows of " << width);
      body(PackedHistories<T>(batch, n, width, seed), seed);
    }
}

template <typename T>
double at(const std::vector<T>& values, int64_t i) {
  return static_cast<double>(to_float(values[static_cast<size_t>(i)]));
}
template <typename T>
void check_near(const std::vector<T>& got, const std::vector<double>& want, const char* what) {
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 2e-2;
  std::vector<float> g, w;
  for (size_t i = 0; i < want.size(); ++i) {
    g.push_back(to_float(got[i]));
    w.push_back(static_cast<float>(want[i]));
  }
  check_close(std::span<const float>(g), std::span<const float>(w), {tolerance, tolerance}, what);
}

}  // namespace

TEMPLATE_TEST_CASE("rows of histories are packed, unpacked, summed and repeated", "", float, bf16) {
  using T = TestType;
  for_each_history<T>([](const PackedHistories<T>& h, int64_t seed) {
    const int64_t n = h.n, w = h.width;
    const auto x = h.numbers(h.batch * n * w, 1), row = h.numbers(h.batch * w, 2);
    const auto weights = h.numbers(h.batch * n, 3);
    std::vector<T> packed(static_cast<size_t>(h.rows * w), from_float<T>(7)), unpacked = x;
    using Kind = ops::RowMove::Kind;
    ops::move_rows<T>(h.exec, {.kind = Kind::kSame, .to_rows = h.places()},
                      {x.data(), h.batch, n, w}, {packed.data(), h.batch, n, w});
    ops::move_rows<T>(h.exec, {.kind = Kind::kSame, .from_rows = h.places()},
                      {packed.data(), h.batch, n, w}, {unpacked.data(), h.batch, n, w});
    // The last two rows alone: from either form, and back.
    PackedHistories<T> few(h.batch, n, w, seed);
    few.count(2);
    std::vector<T> last(static_cast<size_t>(few.rows * w)), of_packed = last;
    std::vector<T> back(packed.size(), from_float<T>(7)), back_padded(x.size(), from_float<T>(7));
    const auto move = [&](const ops::PackedRows& from_rows, const std::vector<T>& from,
                          const ops::PackedRows& to_rows, std::vector<T>& to) {
      ops::move_rows<T>(h.exec, {.kind = Kind::kSame, .from_rows = from_rows, .to_rows = to_rows},
                        {from.data(), h.batch, n, w}, {to.data(), h.batch, n, w});
    };
    move({}, x, few.places(), last);
    move(h.places(), packed, few.places(), of_packed);
    move(few.places(), last, h.places(), back);
    move(few.places(), last, {}, back_padded);
    for (int64_t b = 0; b < h.batch; ++b)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < w; ++j) {
          const bool is_last = i < h.valid(b) && i >= h.valid(b) - 2;
          const double want = is_last ? at(x, (b * n + i) * w + j) : 0;
          const int64_t from_end = i - h.valid(b) + few.valid(b);
          for (const auto* const of : {&last, &of_packed})
            if (is_last) REQUIRE(at(*of, (few.first(b) + from_end) * w + j) == want);
          if (i < h.valid(b)) REQUIRE(at(back, (h.first(b) + i) * w + j) == want);
          REQUIRE(at(back_padded, (b * n + i) * w + j) == want);
        }
    for (const bool mean : {false, true}) {
      std::vector<T> sums = row, repeated(packed.size());
      ops::sum_packed_rows<T>(h.exec, {packed.data(), h.rows, w}, h.offsets(), mean,
                              {sums.data(), h.batch, w});
      ops::repeat_rows<T>(h.exec, {row.data(), h.batch, w}, h.offsets(), mean,
                          {repeated.data(), h.rows, w});
      std::vector<double> want_sums(sums.size()), want_repeated(repeated.size());
      for (int64_t b = 0; b < h.batch; ++b)
        for (int64_t i = 0; i < h.valid(b); ++i)
          for (int64_t j = 0; j < w; ++j) {
            const double over = mean ? static_cast<double>(h.valid(b)) : 1;
            want_sums[static_cast<size_t>(b * w + j)] += at(x, (b * n + i) * w + j) / over;
            want_repeated[static_cast<size_t>((h.first(b) + i) * w + j)] =
                at(row, b * w + j) / over;
          }
      check_near(sums, want_sums, "sums");
      check_near(repeated, want_repeated, "repeated");
    }
    std::vector<T> weighed = row, dweights = weights, dx = packed;
    ops::weigh_rows<T>(h.exec, {weights.data(), h.batch, n}, {packed.data(), h.rows, w},
                       h.offsets(), {weighed.data(), h.batch, w});
    ops::weigh_rows_backward<T>(h.exec, {weights.data(), h.batch, n}, {packed.data(), h.rows, w},
                                {row.data(), h.batch, w}, h.offsets(),
                                {dweights.data(), h.batch, n}, {dx.data(), h.rows, w});
    std::vector<double> want(weighed.size()), want_dweights(dweights.size()), want_dx(dx.size()),
        want_unpacked(x.size());
    for (int64_t b = 0; b < h.batch; ++b)
      for (int64_t i = 0; i < h.valid(b); ++i)
        for (int64_t j = 0; j < w; ++j) {
          const double value = at(x, (b * n + i) * w + j), weight = at(weights, b * n + i);
          want[static_cast<size_t>(b * w + j)] += weight * value;
          want_dweights[static_cast<size_t>(b * n + i)] += at(row, b * w + j) * value;
          want_dx[static_cast<size_t>((h.first(b) + i) * w + j)] = weight * at(row, b * w + j);
          want_unpacked[static_cast<size_t>((b * n + i) * w + j)] = value;
        }
    check_near(weighed, want, "weighed");
    check_near(dweights, want_dweights, "dweights");
    check_near(dx, want_dx, "dx");
    check_near(unpacked, want_unpacked, "unpacked");
  });
}

TEMPLATE_TEST_CASE("histories are cut out of wider rows, and pasted back", "", float, bf16) {
  using T = TestType;
  for_each_history<T>([](const PackedHistories<T>& h, int64_t) {
    const int64_t n = h.n, w = h.width, begin = 3, all = begin + n * w + 2;
    const auto x = h.numbers(h.batch * all, 1);
    std::vector<T> packed(static_cast<size_t>(h.rows * w)), whole = x, padded;
    ops::cut_rows<T>(h.exec, {x.data(), h.batch, all}, begin, h.offsets(),
                     {packed.data(), h.rows, w});
    ops::paste_rows<T>(h.exec, {packed.data(), h.rows, w}, h.places(), n,
                       {whole.data(), h.batch, all}, begin);
    for (int64_t b = 0; b < h.batch; ++b)
      for (int64_t i = 0; i < all; ++i) {
        const bool is_padding = i >= begin + h.valid(b) * w && i < begin + n * w;
        REQUIRE(at(whole, b * all + i) == (is_padding ? 0 : at(x, b * all + i)));
        if (i >= begin && i < begin + n * w)
          padded.push_back(whole[static_cast<size_t>(b * all + i)]);
      }
    std::vector<T> again = x;
    ops::paste_rows<T>(h.exec, {padded.data(), h.batch * n, w}, {}, n, {again.data(), h.batch, all},
                       begin);
    for (int64_t i = 0; i < h.batch * all; ++i) REQUIRE(at(again, i) == at(whole, i));
  });
}

TEMPLATE_TEST_CASE("pairs of a target and its history, and back", "", float, bf16) {
  using T = TestType;
  for_each_history<T>([](const PackedHistories<T>& p, int64_t) {
    const int64_t w = p.width;
    const auto q = p.numbers(p.batch * w, 1), h = p.numbers(p.rows * w, 2);
    const auto d = p.numbers(p.rows * 2 * w, 3), before = p.numbers(p.batch * w, 4);
    std::vector<T> pairs(d.size()), dq = before, dh(h.size()), sum = h;
    ops::make_pairs<T>(p.exec, {q.data(), p.batch, w}, {h.data(), p.rows, w}, p.offsets(),
                       {pairs.data(), p.rows, 2 * w});
    ops::make_pairs_backward<T>(p.exec, {q.data(), p.batch, w}, {pairs.data(), p.rows, 2 * w},
                                {d.data(), p.rows, 2 * w}, p.offsets(), {dq.data(), p.batch, w},
                                {dh.data(), p.rows, w});
    ops::add_sample_rows<T>(p.exec, {q.data(), p.batch, w}, p.offsets(), {sum.data(), p.rows, w});
    std::vector<double> want(pairs.size()), want_dq, want_dh(dh.size()), want_sum(h.size());
    for (const T x : before) want_dq.push_back(static_cast<double>(to_float(x)));
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t i = p.first(b); i < p.first(b + 1); ++i)
        for (int64_t j = 0; j < w; ++j) {
          const double target = at(q, b * w + j), event = at(h, i * w + j);
          const double to_event = at(d, i * 2 * w + j), to_product = at(d, i * 2 * w + w + j);
          want[static_cast<size_t>(i * 2 * w + j)] = event;
          want[static_cast<size_t>(i * 2 * w + w + j)] = target * event;
          want_dq[static_cast<size_t>(b * w + j)] += event * to_product;
          want_dh[static_cast<size_t>(i * w + j)] = to_event + target * to_product;
          want_sum[static_cast<size_t>(i * w + j)] = target + event;
        }
    check_near(pairs, want, "pairs");
    check_near(dq, want_dq, "dq");
    check_near(dh, want_dh, "dh");
    check_near(sum, want_sum, "sum");
  });
}

TEST_CASE("folded weights give the product of all four, and their gradients come back") {
  ThreadPool pool(2);
  const Exec exec = {.device = Device::kCpu, .pool = &pool};
  std::vector<float> w(4 * 6), folded(3 * 6), dw(4 * 6);
  fill_random(w, 1);
  ops::fold_pair_weights<float>(exec, {w.data(), 8, 3}, {folded.data(), 6, 3});
  ops::unfold_pair_gradients(exec, {folded.data(), 6, 3}, {dw.data(), 8, 3});
  for (size_t i = 0; i < 6; ++i) {
    CHECK(folded[i] == w[6 + i] - w[12 + i]);
    CHECK(folded[6 + i] == w[18 + i]);
    CHECK(folded[12 + i] == w[i] + w[12 + i]);
    CHECK(dw[i] == folded[12 + i]);
    CHECK(dw[6 + i] == folded[i]);
    CHECK(dw[12 + i] == folded[12 + i] - folded[i]);
    CHECK(dw[18 + i] == folded[6 + i]);
  }
}

}  // namespace hlite::test
