#include "hugectr_lite/optimizer/loss_scale.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"

using namespace hlite;
using optimizer::LossScale;

namespace {
struct Scaler {
  ThreadPool pool{1};
  LossScale state;
  explicit Scaler(float scale) : state(optimizer::loss_scale_from(scale)) {}
  // One iteration; returns whether its update is left out.
  bool iterate(bool overflow, int32_t grow_after = 3) {
    if (overflow) state.found = 1;
    const float used = state.scale;
    optimizer::update_loss_scale({.pool = &pool}, grow_after, &state);
    CHECK(state.inverse == 1 / used);  // that of the gradients at hand, not of the next
    CHECK(state.found == 0);
    return state.skip != 0;
  }
};
}  // namespace

TEST_CASE("the loss scale doubles after good iterations and halves after an overflow") {
  Scaler s(1024);
  CHECK_FALSE(s.iterate(false));
  CHECK_FALSE(s.iterate(false));
  CHECK(s.state.scale == 1024);
  CHECK_FALSE(s.iterate(false));
  CHECK(s.state.scale == 2048);
  CHECK_FALSE(s.iterate(false));
  CHECK_FALSE(s.iterate(false));
  CHECK(s.iterate(true));
  CHECK(s.state.scale == 1024);
  CHECK(s.iterate(true));
  CHECK(s.state.scale == 512);
  // The count starts over, and so does the skipping.
  CHECK_FALSE(s.iterate(false));
  CHECK_FALSE(s.iterate(false));
  CHECK(s.state.scale == 512);
  CHECK_FALSE(s.iterate(false));
  CHECK(s.state.scale == 1024);
}

TEST_CASE("the loss scale stays between its limits") {
  Scaler s(2);
  for (int i = 0; i < 5; ++i) CHECK(s.iterate(true));
  CHECK(s.state.scale == optimizer::kMinLossScale);
  CHECK(s.state.inverse == 1);
  CHECK(s.state.lost == 4);  // all but the one that went from 2 to 1
  for (int i = 0; i < 40; ++i) CHECK_FALSE(s.iterate(false, 1));
  CHECK(s.state.scale == optimizer::kMaxLossScale);
  CHECK(s.iterate(true));
  CHECK(s.state.lost == 4);
}

TEST_CASE("update_loss_scale refuses no state and no interval") {
  ThreadPool pool(1);
  LossScale state;
  CHECK_THROWS_AS(optimizer::update_loss_scale({.pool = &pool}, 0, &state), Error);
  CHECK_THROWS_AS(optimizer::update_loss_scale({.pool = &pool}, 1, nullptr), Error);
}
