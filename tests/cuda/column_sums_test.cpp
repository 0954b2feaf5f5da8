// Column sums by themselves: on the emulated device, which takes host memory as its own.
#include "hugectr_lite/ops/column_sums.cuh"

#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

// The elements of a matrix as they are.
struct PlainSource {
  const float* values;
  int64_t columns;
  template <int W>
  using Item = Pack<float, W>;
  template <int W>
  Item<W> load(int64_t row, int64_t column) const {
    return load_pack<W>(values + row * columns + column);
  }
  template <int W>
  void finish(const Pack<float, W>& item, int64_t, int64_t, float* sums) const {
    for (int i = 0; i < W; ++i) sums[i] += item.value[i];
  }
};

TEST_CASE("column sums do with as much scratch memory as there is") {
  constexpr int64_t kRows = 1100, kColumns = 12;
  const auto values = random_values(kRows * kColumns, 1);
  std::vector<double> want(kColumns);
  for (size_t i = 0; i < values.size(); ++i) want[i % kColumns] += static_cast<double>(values[i]);
  for (const int64_t scratch_rows : {0, 1, 2, 3, 1000}) {
    for (const bool packable : {false, true}) {
      INFO(scratch_rows << " rows");
      std::vector<float> sums = nans(kColumns);
      std::vector<float> scratch(static_cast<size_t>(scratch_rows * kColumns));
      std::vector<unsigned> counters(ops::gpu::kBlockCounters);
      ops::gpu::sum_columns<float>("sums", nullptr, PlainSource{values.data(), kColumns}, kRows,
                                   kColumns, packable, sums.data(), {scratch, counters.data()});
      check_close(sums, want, {1.7e-4, 1e-6}, "sum");
    }
  }
}

TEST_CASE("column sums do not depend on the order in which blocks are done") {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{5000, 1}, {1100, 12}, {900, 300}}) {
    INFO(rows << " x " << columns);
    const auto values = random_values(rows * columns, 2);
    std::vector<float> scratch(size_t{1} << 18);
    std::vector<unsigned> counters(ops::gpu::kBlockCounters);
    for (const bool packable : {false, true})
      check_any_order([&, rows = rows, columns = columns] {
        std::vector<float> sums = nans(columns);
        std::fill(scratch.begin(), scratch.end(), sums[0]);
        ops::gpu::sum_columns<float>("sums", nullptr, PlainSource{values.data(), columns}, rows,
                                     columns, packable && columns % 4 == 0, sums.data(),
                                     {scratch, counters.data()});
        CHECK(std::count(counters.begin(), counters.end(), 0u) == ops::gpu::kBlockCounters);
        return sums;
      });
  }
}

}  // namespace
}  // namespace hlite::test
