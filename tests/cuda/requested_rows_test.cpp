// Ops around the exchange of rows; data movement exactly.
#include "embedding/requested_rows.h"

#include <cmath>

#include "hugectr_lite/core/no_key.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using namespace embedding;

std::vector<float> ramp(int64_t n, float from) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(from + static_cast<float>(i) * 1.001f);
  return values;
}

// [2 ranks][3 rows] of other ranks, then 2 replicated ones; lists of 2 and 0 rows, 1 replicated.
constexpr int64_t kWidth = 5;
const ExchangeShape kPool{.ranks = 2, .capacity = 3, .replicated_capacity = 2, .width = kWidth};
const std::vector<uint32_t> kCounts = {2, 0, 1};

TEST_CASE("requested rows are gathered and scattered, and only they", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const auto values = ramp(4 * kWidth, 1);
    const DeviceTensor<float> table(on, values);
    const DeviceTensor<uint32_t> rows(on, {3, kNoKey, 0, 2}), count(on, {3});
    for (const bool counted : {false, true}) {
      DeviceTensor<float> out(on, std::vector<float>(4 * kWidth, -1));
      embedding::gather_requested(on.exec(), table.view(4, kWidth), rows,
                                  counted ? count.data() : nullptr, out.view(4, kWidth));
      const auto got = out.host();
      const std::vector<int64_t> from = {3, -1, 0, counted ? -1 : 2};
      for (int64_t i = 0; i < 4 * kWidth; ++i) {
        const int64_t row = from[static_cast<size_t>(i / kWidth)];
        CHECK(got[static_cast<size_t>(i)] ==
              (row < 0 ? -1 : values[static_cast<size_t>(row * kWidth + i % kWidth)]));
      }
    }
    const DeviceTensor<uint32_t> to(on, {2, 0}), one(on, {1});
    const DeviceTensor<float> quarter(on, {0.25f});
    for (const bool scaled : {false, true}) {
      DeviceTensor<float> out(on, std::vector<float>(3 * kWidth, -1)), touched(on, {0, 0, 0});
      embedding::scatter_scaled(on.exec(), {.in = table.view(4, kWidth),
                                            .rows = to,
                                            .count = one.data(),
                                            .factor = scaled ? quarter.data() : nullptr,
                                            .out = out.view(3, kWidth),
                                            .touched = scaled ? nullptr : touched.data()});
      std::vector<float> want(3 * kWidth, -1);
      for (size_t i = 0; i < kWidth; ++i) want[2 * kWidth + i] = values[i] * (scaled ? 0.25f : 1);
      CHECK(out.host() == want);
      CHECK(touched.host() == (scaled ? std::vector<float>{0, 0, 0} : std::vector<float>{0, 0, 1}));
    }
  }
}

TEST_CASE("received rows that are in use travel rounded to the nearest bf16", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const auto values = ramp(kPool.rows() * kWidth, 1);
    const DeviceTensor<uint32_t> counts(on, kCounts);
    DeviceTensor<float> pool(on, values), wide(on, std::vector<float>(values.size(), -1));
    DeviceTensor<bf16> narrow(on, std::vector<float>(values.size(), -1));
    const auto listed = [](auto& tensor) {
      return Matrix<std::remove_pointer_t<decltype(tensor.data())>>(tensor.data(),
                                                                    kPool.list_capacity(), kWidth);
    };
    embedding::round_requested(on.exec(), kPool, counts.data(), listed(pool), listed(narrow));
    embedding::widen_requested(on.exec(), kPool, counts.data(), listed(narrow), listed(wide));
    const auto rounded = narrow.host(), widened = wide.host();
    for (size_t i = 0; i < values.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / kWidth;
      const float near = row < 2 ? to_float(from_float<bf16>(values[i])) : -1;
      CHECK(rounded[i] == near);
      CHECK(widened[i] == near);
      if (row < 2) CHECK(std::abs(near - values[i]) <= values[i] / 256);
    }
  }
}

TEST_CASE("replicated rows take a step if they were looked up, unless the run is repeated",
          "[gpu]") {
  constexpr int64_t kMovedRows = 3;
  for (const OpDevice& on : op_devices<float>())
    for (const optimizer::UpdateRule& rule : {all_rules()[5], all_rules()[7], all_rules()[10]})
      for (const int64_t width : {1, 5, 16, 128, 264})
        for (const bool marks : {false, true})
          for (const int32_t capacity_exceeded : {0, 1}) {
            INFO(on.name() << ", rule " << static_cast<int>(rule.type) << ", width " << width
                           << (marks ? ", marks" : "") << ", capacity_exceeded "
                           << capacity_exceeded);
            const auto start = random_values(kMovedRows * width, 1),
                       g = random_values(kMovedRows * width, 2);
            const auto initial = [&](int state) {
              const int64_t n = kMovedRows * optimizer::state_width(rule.type, state, width);
              return std::vector<float>(static_cast<size_t>(n), optimizer::initial_state(rule));
            };
            DeviceTensor<float> w(on, start), first(on, initial(0)), second(on, initial(1));
            const DeviceTensor<float> gradients(on, g), touched(on, {1, 0, 1}), rate(on, {0.5f}),
                inverse(on, {0.25f});
            const DeviceTensor<int64_t> step(on, {1});
            const DeviceTensor<int32_t> flag(on, {capacity_exceeded});
            embedding::update_rows(
                on.exec(),
                {.rule = rule,
                 .lr = rate.data(),
                 .step = step.data(),
                 .gradients = gradients.data(),
                 .touched = marks ? touched.data() : nullptr,
                 .rows = {.w = w.view(kMovedRows, width),
                          .state0 = first.view(kMovedRows, first.size() / kMovedRows),
                          .state1 = second.view(kMovedRows, second.size() / kMovedRows)},
                 .scale = {.inverse = inverse.data(), .capacity_exceeded = flag.data()}});
            RuleOracle want(rule, start, width);
            for (size_t row = 0; row < kMovedRows; ++row) {
              std::vector<double> of_row;
              for (size_t j = 0; j < want.width; ++j)
                of_row.push_back(static_cast<double>(g[row * want.width + j]) / 4);
              if (capacity_exceeded == 0 && (!marks || row != 1))
                want.step_row(0.5, 1, row, of_row);
            }
            check_close(w.host(), want.w, {.absolute = 1e-6, .relative = 1e-6}, "w");
            check_close(first.host(), want.a, {.absolute = 1e-6, .relative = 1e-6}, "state0");
            if (optimizer::state_count(rule.type) > 1)
              check_close(second.host(), want.b, {.absolute = 1e-6, .relative = 1e-6}, "state1");
          }
}

}  // namespace
}  // namespace hlite::test
