#include "hugectr_lite/ops/add.h"

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {

TEST_CASE("add_forward sums its inputs in order, in place too") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t n : {0, 1, 7, 33, 2053, 70001}) {
      for (const int64_t terms : {1, 2, 5}) {
        std::vector<std::vector<float>> values;
        std::vector<Vector<const float>> inputs;
        std::vector<float> want(static_cast<size_t>(n)), out(want.size(), NAN);
        for (int64_t t = 0; t < terms; ++t) {
          values.push_back(test::random_values(n, static_cast<uint64_t>(t)));
          for (size_t i = 0; i < want.size(); ++i)
            want[i] = t == 0 ? values.back()[i] : want[i] + values.back()[i];
        }
        for (const auto& v : values) inputs.emplace_back(v.data(), n);
        add_forward(threads.exec(), inputs, {out.data(), n});
        CAPTURE(count, n, terms);
        CHECK(out == want);
        add_forward(threads.exec(), inputs, {values[0].data(), n});
        CHECK(values[0] == want);
      }
    }
  }
}

TEST_CASE("add_forward refuses no inputs and unequal sizes") {
  test::Threads threads(1);
  std::vector<float> m(10);
  const Vector<const float> inputs[] = {{m.data(), 4}, {m.data(), 5}};
  CHECK_THROWS_AS(add_forward(threads.exec(), {}, {m.data(), 4}), Error);
  CHECK_THROWS_AS(add_forward(threads.exec(), inputs, {m.data(), 4}), Error);
}

}  // namespace
}  // namespace hlite::ops
