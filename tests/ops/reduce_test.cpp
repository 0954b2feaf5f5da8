#include "hugectr_lite/ops/reduce.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

struct ReduceShape {
  int64_t outer, n, inner;
  [[nodiscard]] int64_t size() const { return outer * n * inner; }
};
constexpr ReduceShape kReduceShapes[] = {{0, 3, 2},  {1, 1, 1},   {5, 1, 3},  {7, 0, 3},
                                         {3, 0, 1},  {11, 13, 1}, {2, 67, 1}, {3, 5, 31},
                                         {13, 7, 8}, {2, 3, 301}, {257, 2, 1}};

template <typename T>
std::vector<float> reduce_on(const OpDevice& on, const ReduceShape& c,
                             const std::vector<float>& values, float scale, int64_t offset = 0) {
  const DeviceTensor<T> x(on, values, offset), y(on, nans(c.outer * c.inner), offset);
  ops::reduce_axis<T>(on.exec(), x.view(c.outer, c.n, c.inner), scale, y.view(c.outer, c.inner));
  return y.host();
}

TEMPLATE_TEST_CASE("reduce_axis and broadcast_axis agree with their definition", "[gpu]", float,
                   bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const ReduceShape& c : kReduceShapes)
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << c.outer << "," << c.n << "," << c.inner << "], offset "
                       << offset);
        const float scale = offset == 0 ? 1.0f : -0.375f;
        const auto values = random_values<T>(c.size(), 1);
        const auto dy_values = random_values<T>(c.outer * c.inner, 2);
        std::vector<double> sums(static_cast<size_t>(c.outer * c.inner));
        std::vector<float> repeated(values.size());
        for (size_t i = 0; i < values.size(); ++i) {
          const size_t inner = static_cast<size_t>(c.inner);
          const size_t at = i / (static_cast<size_t>(c.n) * inner) * inner + i % inner;
          sums[at] += static_cast<double>(scale) * static_cast<double>(values[i]);
          repeated[i] = scale * dy_values[at];
        }
        check_close(reduce_on<T>(on, c, values, scale, offset), sums, {2e-6, 1e-6 + kRounding<T>},
                    "y");
        const DeviceTensor<T> dy(on, dy_values, offset), dx(on, nans(c.size()), offset);
        ops::broadcast_axis<T>(on.exec(), dy.view(c.outer, c.inner), scale,
                               dx.view(c.outer, c.n, c.inner));
        CHECK(same_values(dx.host(), as<T>(repeated)));
      }
}

// To the bit as if each sample had no more rows than it has.
TEMPLATE_TEST_CASE("of a history, the rows that count are summed", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const ReduceShape& c : kReduceShapes)
      for (const bool mean : {false, true}) {
        INFO(on.name() << ", [" << c.outer << "," << c.n << "," << c.inner << "], mean " << mean);
        std::vector<float> lengths;
        for (int64_t o = 0; o < c.outer; ++o) lengths.push_back(static_cast<float>(o % (c.n + 2)));
        const auto values = random_values<T>(c.size(), 1);
        const auto dy_values = random_values<T>(c.outer * c.inner, 2);
        const DeviceTensor<T> x(on, values), dy(on, dy_values);
        const DeviceTensor<T> y(on, nans(c.outer * c.inner)), dx(on, nans(c.size()));
        const DeviceTensor<float> on_lengths(on, lengths);
        const ops::CountedRows rows = {on_lengths, mean};
        ops::reduce_axis<T>(on.exec(), x.view(c.outer, c.n, c.inner), 1, y.view(c.outer, c.inner),
                            rows);
        ops::broadcast_axis<T>(on.exec(), dy.view(c.outer, c.inner), 1,
                               dx.view(c.outer, c.n, c.inner), rows);
        std::vector<float> sums, repeated;
        for (int64_t o = 0; o < c.outer; ++o) {
          const int64_t n = std::min(c.n, o % (c.n + 2));
          const float scale = mean && n > 1 ? 1 / static_cast<float>(n) : 1.0f;
          const auto begin = values.begin() + o * c.n * c.inner;
          const auto sum = reduce_on<T>(on, {1, n, c.inner}, {begin, begin + n * c.inner}, scale);
          sums.insert(sums.end(), sum.begin(), sum.end());
          for (int64_t i = 0; i < c.n * c.inner; ++i)
            repeated.push_back(
                i < n * c.inner ? scale * dy_values[static_cast<size_t>(o * c.inner + i % c.inner)]
                                : 0.0f);
        }
        CHECK(same_values(y.host(), sums));
        CHECK(same_values(dx.host(), as<T>(repeated)));
      }
}

TEST_CASE("reduce_axis gives the same bits on any threads") {
  for (const ReduceShape& c : {ReduceShape{37, 129, 1}, ReduceShape{9, 33, 21}})
    check_same_bits([&]<typename T>(const OpDevice& on) {
      return reduce_on<T>(on, c, random_values<T>(c.size(), 3), 0.3f);
    });
}

TEST_CASE("reduce_axis and broadcast_axis refuse what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(24);
  const View<float, 3> x(m.data(), 2, 3, 4);
  const Matrix<float> other_rows(m.data(), 3, 4), other_columns(m.data(), 2, 3);
  for (const Matrix<float>& y : {other_rows, other_columns}) {
    CHECK_THROWS_AS(ops::reduce_axis(on.exec(), x, 1, y), Error);
    CHECK_THROWS_AS(ops::broadcast_axis(on.exec(), y, 1, x), Error);
  }
}

}  // namespace
}  // namespace hlite::test
