// What cuBLASLt without epilogues, TF32 and other orders of threads make of fully connected layers.
#include "tests/cuda/matmul_library.h"
#include "tests/ops/fully_connected_case.h"
#include "tests/support/cuda_emulation/cublasLt.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

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

constexpr LayerShape kFewInputs[] = {{1, 16, 64},   {16, 16, 128}, {15, 16, 8},   {33, 16, 520},
                                     {131, 16, 72}, {47, 16, 66},  {50, 13, 66},  {37, 13, 24},
                                     {29, 8, 512},  {17, 1, 2},    {20, 15, 577}, {0, 16, 64}};

TEMPLATE_TEST_CASE("layers of few inputs are a kernel's where no epilogue is to be had", "", bf16,
                   fp16) {
  using T = TestType;
  const WithoutEpilogues without;
  const OpDevice on = emulated_device(&kQuietProducts);
  for (const LayerShape& s : kFewInputs) {
    const LayerCase<T> layer(s);
    for (const int64_t shift : {0, 1}) check_forward<T, T>(on, layer, {.shift = shift});
  }
  for (const LayerShape& s : {LayerShape{131, 16, 72}, LayerShape{67, 5, 33}}) {
    const LayerCase<T> layer(s);
    check_any_order([&] {
      const DeviceTensor<T> x(on, layer.x), w(on, layer.w), bias(on, random_values<T>(s.out, 4));
      const DeviceTensor<T> y(on, nans(s.batch * s.out));
      const int64_t bytes = ops::relu_mask_bytes(s.out);
      const DeviceTensor<uint8_t> mask(on, std::vector<uint8_t>(at(s.batch, bytes, 0)));
      ops::fully_connected_forward<T>(on.exec(), x.view(s.batch, s.in), w.view(s.in, s.out), bias,
                                      true, y.view(s.batch, s.out), {mask.data(), s.batch, bytes});
      std::vector<float> all = y.host();
      const std::vector<uint8_t> bits = mask.host();
      CHECK(bits == mask_of(all, s.batch, s.out));
      all.insert(all.end(), bits.begin(), bits.end());
      return all;
    });
  }
}

TEMPLATE_TEST_CASE("layers of few inputs let a NaN through their ReLU", "", bf16, fp16) {
  using T = TestType;
  const WithoutEpilogues without;
  const OpDevice on = emulated_device(&kQuietProducts);
  const DeviceTensor<T> x(on, {1, NAN, -1}), w(on, {1, -1}), bias(on, {0, 0}), y(on, nans(6));
  ops::fully_connected_forward<T>(on.exec(), x.view(3, 1), w.view(1, 2), bias, true, y.view(3, 2));
  CHECK(same_values(y.host(), {1, 0, NAN, NAN, 0, 1}));
}

TEST_CASE("a layer of few inputs is a kernel's if cuBLASLt's product is slower") {
  const MatmulLibraryGuard library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  for (const bool remembered : {false, true}) {
    const MatmulOptions options = {.algorithm_file = remembered ? path.c_str() : nullptr};
    const OpDevice on = emulated_device(&options);
    for (const int64_t in : {16, 24}) {
      const LayerCase<bf16> layer({40, in, 16});
      check_forward<bf16, bf16>(on, layer);  // makes the plans
      library->multiplied.clear();
      const DeviceTensor<bf16> x(on, layer.x), w(on, layer.w), y(on, nans(40 * 16));
      ops::fully_connected_forward<bf16>(on.exec(), x.view(40, in), w.view(in, int64_t{16}), {},
                                         true, y.view(40, int64_t{16}));
      // On the emulated clock a kernel takes no time.
      CHECK(library->multiplied.empty() == (remembered && in == 16));
    }
  }
  check_contains(read_text(path), {"/16/40/16 slower ", "/16/40/24 take "});
}

}  // namespace
}  // namespace hlite::test
