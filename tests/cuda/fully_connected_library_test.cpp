// What cuBLASLt without epilogues, TF32 and other orders of threads make of fully connected layers.
#include "tests/ops/fully_connected_case.h"
#include "tests/support/cuda_emulation/cublasLt.h"

namespace hlite::test {
namespace {

// For contexts that would warn of what a test does on purpose.
const MatmulOptions kQuietProducts = {.warn = [](const char*) {}};

// The emulated library without epilogues, while it lives.
struct WithoutEpilogues {
  WithoutEpilogues() { emulation::matmul_library().epilogues = false; }
  ~WithoutEpilogues() { emulation::matmul_library().epilogues = true; }
};

TEST_CASE("fully connected layers do without cuBLASLt's epilogues") {
  const WithoutEpilogues without;
  const OpDevice on = emulated_device(&kQuietProducts);
  for (const LayerShape& s : kLayerShapes) {
    if (s.large) continue;
    const LayerCase<float> in_float(s);
    const LayerCase<fp16> in_fp16(s);
    check_forward<float, float>(on, in_float);
    check_forward<bf16, bf16>(on, LayerCase<bf16>(s));
    check_forward<fp16, fp16>(on, in_fp16);
    check_forward<fp16, float>(on, in_fp16);
    check_backward<float>(on, in_float);
    check_backward<fp16>(on, in_fp16);
  }
}

TEST_CASE("TF32 rounds the factors of float products, and only if enabled", "[gpu]") {
  constexpr double kTf32 = 1.0 / 2048;  // of each factor
  const MatmulOptions tf32 = {.tf32 = true};
  const LayerShape s = {65, 40, 16};
  for (const OpDevice& on : op_devices<bf16>(&tf32)) {
    check_forward<float, float>(on, LayerCase<float>(s), {.term_error = 2 * kTf32});
    check_backward<float>(on, LayerCase<float>(s), {.term_error = 2 * kTf32});
    check_forward<bf16, bf16>(on, LayerCase<bf16>(s));
  }
  for (const bool rounds : {false, true}) {
    const OpDevice on = emulated_device(rounds ? &tf32 : &kPlainProducts);
    const DeviceTensor<float> x(on, {1 + 1.0f / 4096}), w(on, {1, 2}), y(on, nans(2));
    ops::fully_connected_forward(on.exec(), x.view(1, 1), w.view(1, 2), {}, false, y.view(1, 2));
    CHECK(y.host()[0] == (rounds ? 1.0f : 1 + 1.0f / 4096));
  }
}

TEST_CASE("fully connected kernels give the same bits in any order of threads") {
  const WithoutEpilogues without;
  const OpDevice on = emulated_device(&kQuietProducts);
  for (const int64_t out : {16, 1}) {
    const LayerShape s = {131, 24, out};
    const LayerCase<bf16> layer(s);
    check_any_order([&] {
      const DeviceTensor<bf16> x(on, layer.x), w(on, layer.w), dz(on, layer.dz);
      const DeviceTensor<bf16> y(on, nans(dz.size())), dx(on, nans(x.size()));
      const DeviceTensor<float> db(on, nans(s.in)), dw(on, nans(w.size()));
      const auto x_view = x.view(s.batch, s.in), w_view = w.view(s.in, out);
      const auto dz_view = dz.view(s.batch, out);
      const ops::LayerBelow<bf16> below = {x_view, db};
      ops::fully_connected_forward<bf16>(on.exec(), x_view, w_view, {}, true, y.view(s.batch, out));
      ops::fully_connected_backward_data<bf16>(on.exec(), dz_view, w_view, dx.view(s.batch, s.in),
                                               below);
      ops::fully_connected_backward_weights<bf16>(on.exec(), x_view, dz_view, dw.view(s.in, out));
      std::vector<float> all;
      for (const auto& part : {y.host(), dx.host(), db.host(), dw.host()})
        all.insert(all.end(), part.begin(), part.end());
      return all;
    });
  }
}

}  // namespace
}  // namespace hlite::test
