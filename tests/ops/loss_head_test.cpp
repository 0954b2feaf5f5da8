#include "hugectr_lite/ops/loss_head.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

const MatmulOptions kHeadProducts;

struct HeadCase {
  int64_t batch, in;
  bool relu = true, bias = true, weights = false;
  ops::LossOptions loss = {};
  [[nodiscard]] int64_t label_width() const { return weights ? 2 : 1; }
};

struct HeadResult {
  std::vector<float> logits, loss, dlogits, dx, dw, dbias;
};

// By one op, or by those that it is made of.
template <typename T>
HeadResult run_head_case(const OpDevice& on, const HeadCase& c, bool as_one) {
  std::vector<float> x_values = random_values<T>(c.batch * c.in, 1);
  if (c.relu)
    for (float& x : x_values) x = std::max(x, 0.0f);
  std::vector<float> label_values = random_values(c.batch * c.label_width(), 3);
  for (float& y : label_values) y = std::abs(y);
  const DeviceTensor<T> x(on, x_values), w(on, random_values<T>(c.in, 2));
  const DeviceTensor<float> bias(on, {0.375f}), labels(on, label_values), scale(on, {16});
  const DeviceTensor<float> logits(on, nans(c.batch)), loss(on, nans(1)), dw(on, nans(c.in)),
      dbias(on, nans(1));
  const DeviceTensor<T> dlogits(on, nans(c.batch)), dx(on, nans(c.batch * c.in));
  const DeviceTensor<double> workspace(on, std::vector<double>(ops::kBlockSums));
  const auto sample_labels = labels.view(c.batch, c.label_width());
  ops::LossOptions options = c.loss;
  options.scale = scale.data();
  if (as_one) {
    ops::loss_head<T>(on.exec(),
                      {.x = x.view(c.batch, c.in),
                       .w = w,
                       .bias = c.bias ? bias.data() : nullptr,
                       .relu = c.relu,
                       .labels = sample_labels,
                       .logits = logits,
                       .loss = loss.data(),
                       .dlogits = dlogits,
                       .dx = dx.view(c.batch, c.in),
                       .dw = dw,
                       .dbias = c.bias ? dbias.data() : nullptr},
                      options);
  } else {
    options.workspace = workspace;
    Vector<float> dbias_or_none, bias_or_none;
    if (c.bias) {
      dbias_or_none = dbias;
      bias_or_none = bias;
    }
    ops::LayerBelow<T> below;
    if (c.relu) below.y = x.view(c.batch, c.in);
    ops::fully_connected_forward<T, float>(on.exec(), x.view(c.batch, c.in), w.view(c.in, 1),
                                           bias_or_none, false, logits.view(c.batch, 1));
    ops::mean_loss<T>(on.exec(), logits.view(c.batch, 1), sample_labels, loss.data(),
                      dlogits.view(c.batch, 1), options);
    ops::fully_connected_backward_data<T>(on.exec(), dlogits.view(c.batch, 1), w.view(c.in, 1),
                                          dx.view(c.batch, c.in), below);
    ops::fully_connected_backward_weights<T>(on.exec(), x.view(c.batch, c.in),
                                             dlogits.view(c.batch, 1), dw.view(c.in, 1),
                                             dbias_or_none);
  }
  return {logits.host(), loss.host(), dlogits.host(), dx.host(), dw.host(), dbias.host()};
}

template <typename T>
std::vector<HeadCase> head_cases() {
  constexpr int64_t W = 16 / int64_t{sizeof(T)};  // 32 W columns: 16 bytes a lane
  return {{0, W},
          {1, 32 * W},
          {1037, 32 * W},
          {3500, 32 * W, true, true, true, {.mean_over = 7000}},
          {333, W, true, false},
          {130, 33 * W, false, true, true, {.gradient_factor = 0.5, .positive_weight = 2.5}},
          {77, 65 * W, true, true, false, {.kind = ops::LossKind::kSquaredError}},
          {450, 128 * W}};
}

TEMPLATE_TEST_CASE("a loss head makes what the layer of one output and the loss make", "[gpu]",
                   float, bf16, fp16) {
  for (const OpDevice& on : op_devices<TestType>(&kHeadProducts)) {
    if (!on.on_gpu()) continue;
    for (const HeadCase& c : head_cases<TestType>()) {
      INFO(on.name() << ", [" << c.batch << "," << c.in << "]");
      const HeadResult got = run_head_case<TestType>(on, c, true);
      const HeadResult want = run_head_case<TestType>(on, c, false);
      CHECK(same_values(got.logits, want.logits));
      CHECK(same_values(got.dlogits, want.dlogits));
      CHECK(same_values(got.dx, want.dx));
      check_close(got.loss, want.loss, {1e-6, 1e-7}, "loss");
      if (c.in * int64_t{sizeof(TestType)} == 512 || c.batch == 0)
        CHECK(same_values(got.dw, want.dw));
      else
        check_close(got.dw, want.dw, {1e-5, 1e-5}, "dw");
      if (c.bias) check_close(got.dbias, want.dbias, {1e-5, 1e-5}, "dbias");
      CHECK(std::isnan(got.dbias[0]) == !c.bias);
    }
  }
}

TEMPLATE_TEST_CASE("a loss head's bits are the same in any order of threads and blocks", "", float,
                   bf16) {
  const OpDevice on = emulated_device(&kHeadProducts);
  for (const HeadCase& c : head_cases<TestType>())
    check_any_order([&] {
      const HeadResult got = run_head_case<TestType>(on, c, true);
      std::vector<float> all;
      for (const auto* part : {&got.logits, &got.loss, &got.dlogits, &got.dx, &got.dw, &got.dbias})
        all.insert(all.end(), part->begin(), part->end());
      return all;
    });
}

TEST_CASE("a loss head takes rows of whole 16 bytes, up to 2048") {
  for (const int64_t bytes : {16, 512, 2048}) CHECK(ops::loss_head_takes(bytes));
  for (const int64_t bytes : {0, 8, 24, 2064}) CHECK(!ops::loss_head_takes(bytes));
}

}  // namespace
}  // namespace hlite::test
