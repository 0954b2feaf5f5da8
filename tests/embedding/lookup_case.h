// A layer's tables, keys and gradients for the tests of lookup and update.
#pragma once

#include <cstdint>
#include <vector>

#include "embedding/table_layout.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/compare.h"

namespace hlite::test {

struct LookupCase {
  embedding::TableLayout layout;
  int64_t batch;
  std::vector<float> table, dout;
  std::vector<uint32_t> keys;

  LookupCase(std::vector<int64_t> rows, int64_t width, int64_t samples)
      : layout(std::move(rows), width),
        batch(samples),
        table(static_cast<size_t>(layout.total_rows * width)),
        dout(static_cast<size_t>(samples * layout.slots() * width)) {
    fill_random(table, 11);
    draw(0);
  }

  // New keys, skewed so that all but the smallest tables have rows looked up never, once and often.
  void draw(uint64_t round) {
    fill_random(dout, 1000 + round);
    keys.clear();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t s = 0; s < layout.slots(); ++s) {
        const double u = static_cast<double>(
            random::uniform(random::word(round, 7, static_cast<uint64_t>(keys.size()))));
        const auto rows = static_cast<double>(layout.rows[static_cast<size_t>(s)]);
        keys.push_back(static_cast<uint32_t>(rows * u * u * u));
      }
  }

  [[nodiscard]] Matrix<const uint32_t> keys_view() const {
    return {keys.data(), batch, layout.slots()};
  }
  [[nodiscard]] View<const float, 3> dout_view() const {
    return {dout.data(), batch, layout.slots(), layout.width};
  }
  // `values` as an array of the tables' shape; empty stays empty.
  [[nodiscard]] Matrix<float> like_table(std::vector<float>& values) const {
    if (values.empty()) return {};
    return {values.data(), layout.total_rows, layout.width};
  }
};

// Odd, small and equal tables; one slot; one row.
inline std::vector<std::vector<int64_t>> table_sizes() {
  return {{1000, 3, 1, 257, 40}, {5000}, {1}, {1, 1}, {2, 3000, 2}};
}

}  // namespace hlite::test
