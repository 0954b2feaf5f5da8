#include "hugectr_lite/optimizer/loss_scale.h"

#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/non_finite.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using optimizer::LossScale;

// A loss scale in a device's memory.
class Scaler {
 public:
  Scaler(const OpDevice& on, float scale)
      : on_(on), state_(on, {optimizer::loss_scale_from(scale)}) {}

  [[nodiscard]] LossScale state() const { return state_.host()[0]; }
  // One iteration; returns whether its update is left out. The scan of a gradient sets the flag.
  bool iterate(bool overflow, int32_t grow_after = 3) {
    const LossScale before = state();
    const DeviceTensor<float> gradient(on_, {1, overflow ? INFINITY : 2, 3});
    ops::flag_non_finite(on_.exec(), gradient, &state_.data()->gradient_overflow);
    optimizer::update_loss_scale(on_.exec(), grow_after, state_.data());
    const LossScale after = state();
    CHECK(after.inverse == 1 / before.scale);  // that of the gradients at hand, not of the next
    CHECK(after.next_inverse == 1 / after.scale);
    CHECK(after.gradient_overflow == 0);
    return after.skip != 0;
  }

 private:
  const OpDevice& on_;
  DeviceTensor<LossScale> state_;
};

TEST_CASE("the loss scale doubles after good iterations and halves after an overflow", "[gpu]") {
  // An iteration with or without overflow, and the scale after it. After an overflow the count
  // starts over.
  const std::pair<bool, float> iterations[] = {
      {false, 1024}, {false, 1024}, {false, 2048}, {false, 2048}, {false, 2048},
      {true, 1024},  {true, 512},   {false, 512},  {false, 512},  {false, 1024}};
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    Scaler s(on, 1024);
    for (const auto& [overflow, scale] : iterations) {
      CHECK(s.iterate(overflow) == overflow);
      CHECK(s.state().scale == scale);
    }
  }
}

TEST_CASE("the loss scale stays between its limits", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    Scaler s(on, 2);
    for (int i = 0; i < 5; ++i) CHECK(s.iterate(true));
    CHECK(s.state().scale == optimizer::kMinLossScale);
    CHECK(s.state().inverse == 1);
    CHECK(s.state().lost == 4);  // all but the one that went from 2 to 1
    for (int i = 0; i < 40; ++i) CHECK_FALSE(s.iterate(false, 1));
    CHECK(s.state().scale == optimizer::kMaxLossScale);
    CHECK(s.iterate(true));
    CHECK(s.state().lost == 4);
  }
}

TEST_CASE("the loss scale goes the same way on every device", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    Scaler s(on, 16);
    LossScale want = optimizer::loss_scale_from(16);
    for (int i = 0; i < 60; ++i) {
      const bool overflow = i % 11 == 7 || (i > 30 && i < 40);
      want.gradient_overflow = overflow ? 1 : 0;
      want = optimizer::next_loss_scale(want, 2);
      s.iterate(overflow, 2);
      const LossScale got = s.state();
      CHECK(got.scale == want.scale);
      CHECK(got.inverse == want.inverse);
      CHECK(got.skip == want.skip);
      CHECK(got.good == want.good);
    }
  }
}

TEST_CASE("ranks decide by what any of them has found, and not in a run that counts for nothing",
          "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    LossScale mine = optimizer::loss_scale_from(64);
    mine.good = 1;
    for (const int32_t found : {0, 1}) {
      mine.gradient_overflow = found;
      const DeviceTensor<LossScale> state(on, {mine});
      const DeviceTensor<float> word(on, {-1});
      optimizer::report_gradient_overflow(on.exec(), state.data(), word.data());
      CHECK(word.host()[0] == static_cast<float>(found));
      for (const float of_all : {0.0f, 1.0f, 7.0f})
        for (const int32_t overflow : {0, 1}) {
          DeviceTensor<LossScale> decided(on, {mine});
          const DeviceTensor<float> sum(on, {of_all});
          const DeviceTensor<int32_t> flag(on, {overflow});
          optimizer::update_loss_scale(on.exec(), 2, decided.data(), {sum.data(), flag.data()});
          const LossScale got = decided.host()[0];
          CHECK(got.gradient_overflow == 0);
          if (overflow != 0) {
            CHECK(got.scale == 64);
            CHECK(got.good == 1);
          } else {
            CHECK(got.skip == (of_all > 0 ? 1 : 0));
            CHECK(got.scale == (of_all > 0 ? 32 : 128));
            CHECK(got.good == 0);
          }
        }
    }
  }
}

TEST_CASE("update_loss_scale refuses no state and no interval") {
  const OpDevice on(1);
  LossScale state;
  CHECK_THROWS_AS(optimizer::update_loss_scale(on.exec(), 0, &state), Error);
  CHECK_THROWS_AS(optimizer::update_loss_scale(on.exec(), 1, nullptr), Error);
  CHECK_THROWS_AS(optimizer::report_gradient_overflow(on.exec(), &state, nullptr), Error);
}

}  // namespace
}  // namespace hlite::test
