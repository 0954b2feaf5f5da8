#include "hugectr_lite/ops/loss_sum.h"

#include <cmath>

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using ops::LossSum;

TEST_CASE("add_loss weighs losses by samples, and leaves out void runs and what is not finite",
          "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const DeviceTensor<LossSum> sum(on, {LossSum{}});
    const DeviceTensor<int32_t> void_run(on, {1}), valid_run(on, {0});
    const auto add = [&](float loss, int64_t samples, const int32_t* flag) {
      const DeviceTensor<float> of_batch(on, {loss});
      ops::add_loss(on.exec(), of_batch.data(), samples, flag, sum.data());
      return sum.host()[0];
    };
    CHECK(std::isnan(sum.host()[0].mean()));
    CHECK(add(0.7f, 3, nullptr).mean() == static_cast<double>(0.7f));  // of one batch, exactly
    CHECK(add(0.1f, 20, void_run.data()).samples == 3);
    for (const float bad : {NAN, INFINITY, -INFINITY}) CHECK(add(bad, 20, nullptr).samples == 3);
    const LossSum two = add(0.2f, 5, valid_run.data());
    CHECK(two.samples == 8);
    CHECK(two.sum == static_cast<double>(0.7f) * 3 + static_cast<double>(0.2f) * 5);
  }
}

TEST_CASE("add_loss needs a loss and a sum") {
  const OpDevice on(1);
  LossSum sum;
  const float loss = 0;
  CHECK_THROWS_AS(ops::add_loss(on.exec(), nullptr, 1, nullptr, &sum), Error);
  CHECK_THROWS_AS(ops::add_loss(on.exec(), &loss, 1, nullptr, nullptr), Error);
}

}  // namespace
}  // namespace hlite::test
