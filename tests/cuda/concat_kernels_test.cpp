// The kernel of column blocks against the definition, on every CUDA backend.
#include <memory>

#include "tests/cuda/typed_values.h"
#include "tests/ops/column_cases.h"

namespace hlite::test {
namespace {

template <typename T>
std::vector<float> run(const cuda::Backend& table, const ColumnCase& c, const ColumnInputs& inputs,
                       int64_t offset) {
  const OnBackend on(table);
  std::vector<std::unique_ptr<DeviceValues<T>>> on_device;
  std::vector<ops::ColumnBlock<T>> blocks;
  for (size_t b = 0; b < c.blocks.size(); ++b) {
    const ColumnCase::Block& at = c.blocks[b];
    on_device.push_back(std::make_unique<DeviceValues<T>>(on, inputs.values()[b]));
    blocks.push_back({{on_device.back()->data(), c.rows, at.from_width},
                      at.from_begin,
                      at.to_begin,
                      at.columns});
  }
  const DeviceValues<T> out(on, static_cast<size_t>(c.rows * c.width), offset);
  ops::concat_columns<T>(on.exec(), blocks, {out.data(), c.rows, c.width});
  return out.host();
}

TEMPLATE_TEST_CASE("the kernel of column blocks agrees with the definition", "", float, bf16,
                   fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    for (const ColumnCase& c : column_cases()) {
      ColumnInputs inputs(c);
      inputs.change([](float x) { return to_float(from_float<T>(x)); });
      for (const int64_t offset : {0, 1}) {
        INFO(backend.name << ", " << c.text() << ", offset " << offset);
        CHECK(same_values(run<T>(*backend.table, c, inputs, offset),
                          widened(rounded<T>(inputs.sums()))));
      }
    }
  }
}

TEST_CASE("the kernel of column blocks copies -0 as it is") {
  for (const CudaBackend& backend : cuda_backends()) {
    const ColumnCase c{1, 8, {{8, 0, 0, 8}}};
    ColumnInputs inputs(c);
    inputs.change([](float) { return -0.0f; });
    const auto out = run<float>(*backend.table, c, inputs, 0);
    CHECK(same_values(out, inputs.values()[0]));
  }
}

TEST_CASE("the kernel of column blocks gives the same bits in any order of threads") {
  const std::vector<ColumnCase> cases = column_cases();
  const ColumnInputs inputs(cases.back());
  check_any_order([&] { return run<fp16>(emulated_cuda(), cases.back(), inputs, 0); });
}

}  // namespace
}  // namespace hlite::test
