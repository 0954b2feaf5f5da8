#include "hugectr_lite/ops/elementwise.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using ops::Elementwise;
constexpr Elementwise kAll[] = {Elementwise::kSum, Elementwise::kDifference, Elementwise::kProduct};

struct Terms {
  Elementwise how;
  std::vector<std::vector<float>> values;
  std::vector<float> want, on_gpu;  // in order in float, rounded to T as the contract says
};

template <typename T>
Terms terms_of(Elementwise how, int64_t count, int64_t n) {
  Terms terms{how, {}, random_values<T>(n, 0), random_values<T>(n, 0)};
  for (int64_t t = 0; t < count; ++t) {
    terms.values.push_back(random_values<T>(n, static_cast<uint64_t>(t)));
    for (auto* const all : {&terms.want, &terms.on_gpu})
      for (size_t i = 0; t > 0 && i < all->size(); ++i) {
        float &to = (*all)[i], from = terms.values.back()[i];
        to = how == Elementwise::kSum       ? to + from
             : how == Elementwise::kProduct ? to * from
                                            : to - from;
      }
    // On a GPU 64 inputs, then 63 at a time; at the end whatever there is.
    if (t > 0 && t % 63 == 0) terms.on_gpu = as<T>(terms.on_gpu);
  }
  terms.want = as<T>(terms.want);
  terms.on_gpu = as<T>(terms.on_gpu);
  return terms;
}

// Into a tensor of its own, or in place of the first term.
template <typename T>
std::vector<float> combine_on(const OpDevice& on, const Terms& terms, int64_t offset,
                              bool in_place) {
  std::vector<DeviceTensor<T>> all;
  all.reserve(terms.values.size());
  std::vector<Vector<const T>> inputs;
  for (const auto& v : terms.values) {
    // The last term alone is out of line: one pointer decides for all.
    const bool last = all.size() + 1 == terms.values.size();
    inputs.push_back(all.emplace_back(on, v, last ? offset : 0));
  }
  const DeviceTensor<T> separate(on, nans(inputs[0].size()));
  const DeviceTensor<T>& out = in_place ? all[0] : separate;
  ops::elementwise<T>(on.exec(), terms.how, inputs, out);
  return out.host();
}

TEMPLATE_TEST_CASE("elementwise combines its inputs in order, in place too", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  const auto devices = op_devices<T>();
  const auto check = [&](Elementwise how, int64_t count, int64_t n) {
    const auto terms = terms_of<T>(how, count, n);
    for (const OpDevice& on : devices) {
      if (on.on_gpu() && n > 2000) continue;
      for (const int64_t offset : {0, 1})
        for (const bool in_place : {false, true}) {
          INFO(on.name() << ", how " << static_cast<int>(how) << ", " << count << " terms of " << n
                         << ", offset " << offset);
          CHECK(same_values(combine_on<T>(on, terms, offset, in_place),
                            on.on_gpu() ? terms.on_gpu : terms.want));
        }
    }
  };
  for (const int64_t count : {1, 2, 5, 64, 65, 130})
    for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{33}, int64_t{1031},
                            int64_t{2053}, kManyElements}) {
      if (n == kManyElements && (count > 5 || !std::is_same_v<T, float>)) continue;
      for (const Elementwise how : kAll)
        if (how == Elementwise::kSum || (count != 64 && n < 1000)) check(how, count, n);
    }
}

TEST_CASE("elementwise gives the same bits on any threads") {
  for (const Elementwise how : kAll)
    check_same_bits([&]<typename T>(const OpDevice& on) {
      return combine_on<T>(on, terms_of<T>(how, 65, 1031), 0, true);
    });
}

TEST_CASE("elementwise refuses no inputs and unequal sizes") {
  const OpDevice on(1);
  const DeviceTensor<float> four(on, nans(4)), five(on, nans(5));
  const Vector<const float> inputs[] = {four, five};
  CHECK_THROWS_AS(ops::elementwise(on.exec(), Elementwise::kSum, {}, four), Error);
  CHECK_THROWS_AS(ops::elementwise(on.exec(), Elementwise::kProduct, inputs, four), Error);
}

}  // namespace
}  // namespace hlite::test
