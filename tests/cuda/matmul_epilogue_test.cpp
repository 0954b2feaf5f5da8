// Whether cuBLASLt's epilogue or a kernel does the work: faults of a library that are found out.
#include <fstream>

#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/ops/matmul_algorithms.h"
#include "tests/cuda/matmul_library.h"
#include "tests/cuda/matmul_test_context.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/typed_values.h"

namespace hlite::test {
namespace {

using emulation::EpilogueFault;
using emulation::matmul_library;

constexpr int64_t kLayerBatch = 40, kLayerIn = 24, kLayerOut = 16;

// A layer whose forward and backward products have every epilogue.
template <typename T>
class FusedLayer {
 public:
  explicit FusedLayer(const cuda::Backend& table)
      : x_(table, values(kLayerBatch * kLayerIn, 1)),
        w_(table, values(kLayerIn * kLayerOut, 2)),
        dz_(table, values(kLayerBatch * kLayerOut, 3)),
        bias_(table, values(kLayerOut, 4)),
        y_(table, kLayerBatch * kLayerOut),
        dx_(table, kLayerBatch * kLayerIn),
        mask_(table, masks(kLayerOut)),
        below_(table, masks(kLayerIn)),
        sums_(table, kLayerIn),
        dw_(table, kLayerIn * kLayerOut),
        db_(table, kLayerOut) {}

  void forward(const MatmulStream& on, int64_t batch = kLayerBatch) const {
    ops::fully_connected_forward<T>(on.exec(), {x_.data(), batch, kLayerIn},
                                    {w_.data(), kLayerIn, kLayerOut}, {bias_.data(), kLayerOut},
                                    true, {y_.data(), batch, kLayerOut},
                                    {mask_.data(), batch, ops::relu_mask_bytes(kLayerOut)});
  }
  void backward(const MatmulStream& on) const {
    const ops::LayerBelow<T> below = {{x_.data(), kLayerBatch, kLayerIn},
                                      {sums_.data(), kLayerIn},
                                      {below_.data(), kLayerBatch, ops::relu_mask_bytes(kLayerIn)}};
    ops::fully_connected_backward_data<T>(on.exec(), {dz_.data(), kLayerBatch, kLayerOut},
                                          {w_.data(), kLayerIn, kLayerOut},
                                          {dx_.data(), kLayerBatch, kLayerIn}, below);
  }
  void weights(const MatmulStream& on) const {
    ops::fully_connected_backward_weights<T>(
        on.exec(), {x_.data(), kLayerBatch, kLayerIn}, {dz_.data(), kLayerBatch, kLayerOut},
        {dw_.data(), kLayerIn, kLayerOut}, {db_.data(), kLayerOut});
  }
  // What weights() wrote, and the sums that it should have.
  [[nodiscard]] std::vector<float> weight_results(const MatmulStream& on) const {
    std::vector<float> all = db_.to_host(on.get());
    const std::vector<float> dw = dw_.to_host(on.get());
    all.insert(all.end(), dw.begin(), dw.end());
    return all;
  }
  [[nodiscard]] std::vector<double> column_sums(const MatmulStream& on) const {
    std::vector<double> sums(kLayerOut);
    const std::vector<T> dz = dz_.to_host(on.get());
    for (size_t i = 0; i < dz.size(); ++i)
      sums[i % sums.size()] += static_cast<double>(to_float(dz[i]));
    return sums;
  }
  // What forward() or backward() wrote, as float.
  [[nodiscard]] std::vector<float> results(bool forward, const MatmulStream& on) const {
    std::vector<float> all;
    if (!forward) all = sums_.to_host(on.get());
    for (const T value : (forward ? y_ : dx_).to_host(on.get())) all.push_back(to_float(value));
    if (!forward) return all;
    const std::vector<uint8_t> mask = mask_.to_host(on.get());
    for (int64_t sample = 0; sample < kLayerBatch; ++sample)
      for (int64_t byte = 0; byte < kLayerOut / 8; ++byte)
        all.push_back(mask[static_cast<size_t>(sample * ops::relu_mask_bytes(kLayerOut) + byte)]);
    return all;
  }

 private:
  static std::vector<T> values(int64_t n, uint64_t seed) {
    return rounded<T>(random_values(n, seed));
  }
  // Three of four bits set, in a pattern.
  static std::vector<uint8_t> masks(int64_t columns) {
    return std::vector<uint8_t>(static_cast<size_t>(kLayerBatch * ops::relu_mask_bytes(columns)),
                                0xB7);
  }
  DeviceArray<T> x_, w_, dz_, bias_, y_, dx_;
  DeviceArray<uint8_t> mask_, below_;
  DeviceArray<float> sums_, dw_, db_;
};

struct Planted {
  EpilogueFault fault;
  bool forward;  // or in the backward product
  const char* verdict;
  int varies_every = 2;
};
constexpr Planted kPlanted[] = {{EpilogueFault::kNoBias, true, "differs"},
                                {EpilogueFault::kRoundsTwice, true, "differs"},
                                {EpilogueFault::kNoRelu, true, "differs"},
                                {EpilogueFault::kFullMask, true, "differs"},
                                {EpilogueFault::kNoMask, true, "differs"},
                                {EpilogueFault::kIgnoresMask, false, "differs"},
                                {EpilogueFault::kUnmaskedSums, false, "differs"},
                                {EpilogueFault::kNoSums, false, "differs"},
                                {EpilogueFault::kVaries, false, "varies"},
                                {EpilogueFault::kVaries, false, "varies", 10}};

// Whether the last product of the library had an epilogue.
bool last_is_fused() { return matmul_library().last_epilogue != CUBLASLT_EPILOGUE_DEFAULT; }

template <typename T>
void run(const FusedLayer<T>& layer, bool forward, const MatmulStream& on) {
  if (forward)
    layer.forward(on);
  else
    layer.backward(on);
}

// That a planted fault is found, said, remembered, and makes no difference to results.
template <typename T>
void check_planted(const Planted& planted, bool remembered) {
  INFO("fault " << static_cast<int>(planted.fault) << ", with file " << remembered);
  const MatmulLibraryGuard library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  const MatmulOptions options = {.algorithm_file = remembered ? path.c_str() : nullptr,
                                 .warn = keep_warning};
  const FusedLayer<T> layer(emulated_cuda()), plain(emulated_cuda());
  warnings().clear();
  library->fault = planted.fault;
  library->varies_every = planted.varies_every;
  {
    const MatmulStream on(emulated_cuda(), options);
    for (int i = 0; i < 2; ++i) {
      run(layer, planted.forward, on);
      CHECK(!last_is_fused());
    }
    REQUIRE(!warnings().empty());
    for (const std::string& text : warnings())
      check_contains(text, {"matrix product emulated_device/9.0/1/130100/",
                            planted.forward ? "/16/40/24 with cuBLASLt's epilogue 134: algorithm "
                                            : "/24/40/16 with cuBLASLt's epilogue 152: algorithm ",
                            "656d756c61746564,000000000000000", "; a kernel is used"});
  }
  // The kernel's results, to the bit, are those without any epilogue.
  library->epilogues = false;
  {
    const MatmulStream on(emulated_cuda(), options);
    run(plain, planted.forward, on);
    CHECK(plain.results(planted.forward, on) == layer.results(planted.forward, on));
  }
  library->epilogues = true;
  if (!remembered) return;
  check_contains(read_text(path), {std::string(" ") + planted.verdict + " "});
  // Another run follows the file, even if the fault does not show, and says so once.
  library->fault = EpilogueFault::kNone;
  warnings().clear();
  const MatmulStream on(emulated_cuda(), options);
  for (int i = 0; i < 2; ++i) run(layer, planted.forward, on);
  CHECK(!last_is_fused());
  REQUIRE(warnings().size() == 1);
  check_contains(warnings()[0], {"when it was tried first; it is not used"});
}

}  // namespace

TEST_CASE("an epilogue that does wrong is found out and a kernel does its work") {
  for (const Planted& planted : kPlanted)
    for (const bool remembered : {false, true}) {
      if (planted.fault != EpilogueFault::kRoundsTwice)  // which changes no float
        check_planted<float>(planted, remembered);
      // The bias gradient is rounded to 16 bits: another order of the sum seldom shows.
      if (planted.fault != EpilogueFault::kVaries) {
        check_planted<bf16>(planted, remembered);
        check_planted<fp16>(planted, remembered);
      }
    }
}

template <typename T>
void check_sums_of_a(EpilogueFault fault, bool remembered) {
  INFO("fault " << static_cast<int>(fault) << ", with file " << remembered);
  const MatmulLibraryGuard library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  const MatmulOptions options = {.algorithm_file = remembered ? path.c_str() : nullptr,
                                 .warn = keep_warning};
  const FusedLayer<T> layer(emulated_cuda()), plain(emulated_cuda());
  const bool right = fault == EpilogueFault::kNone;
  warnings().clear();
  library->fault = fault;
  const MatmulStream on(emulated_cuda(), options);
  for (int i = 0; i < 2; ++i) {
    layer.weights(on);
    CHECK(last_is_fused() == right);
  }
  CHECK(warnings().empty() == right);
  for (const std::string& text : warnings())
    check_contains(text,
                   {"/16/24/40 with cuBLASLt's epilogue 256: algorithm ", "; a kernel is used"});
  const std::vector<float> got = layer.weight_results(on);
  check_close<const float, const double>(std::span(got).first(kLayerOut), layer.column_sums(on),
                                         {.absolute = 1e-5, .relative = 1e-5});
  // The product has the bits that it has without the sums.
  library->epilogues = false;
  const MatmulStream other(emulated_cuda(), options);
  plain.weights(other);
  CHECK(!last_is_fused());
  const std::vector<float> want = plain.weight_results(other);
  CHECK(std::equal(got.begin() + kLayerOut, got.end(), want.begin() + kLayerOut));
  if (!right) CHECK(got == want);
}

TEST_CASE("a bias gradient is summed by the product of the weights' if that is done right") {
  for (const bool remembered : {false, true})
    for (const EpilogueFault fault :
         {EpilogueFault::kNone, EpilogueFault::kNoSums, EpilogueFault::kVaries}) {
      check_sums_of_a<float>(fault, remembered);
      if (fault == EpilogueFault::kVaries) continue;  // a float sum of 40 such numbers is exact
      check_sums_of_a<bf16>(fault, remembered);
      check_sums_of_a<fp16>(fault, remembered);
    }
}

TEST_CASE("where that is asked for, smaller batches take the algorithm of the largest one") {
  for (const bool one : {false, true}) {
    INFO("one " << one);
    const MatmulLibraryGuard library;
    const TemporaryDirectory directory;
    const std::string path = directory / "algorithms.txt";
    const FusedLayer<float> layer(emulated_cuda());
    const MatmulStream on(
        emulated_cuda(),
        {.algorithm_file = path.c_str(), .one_for_all_batches = one, .warn = keep_warning});
    layer.forward(on);
    layer.forward(on);
    const int largest = library->multiplied.back();
    library->milliseconds[0] = 0.1;  // the fastest of what is searched now
    for (const int64_t batch : {8, 1})
      for (int i = 0; i < 2; ++i) {
        layer.forward(on, batch);
        CHECK((library->multiplied.back() == largest) == one);
      }
  }
}

TEST_CASE("of several algorithms those whose epilogue is wrong are passed over") {
  for (const bool remembered : {false, true}) {
    const MatmulLibraryGuard library;
    const TemporaryDirectory directory;
    const std::string path = directory / "algorithms.txt";
    warnings().clear();
    library->fault = EpilogueFault::kNoBias;
    library->faulty = remembered ? 2 : 0;  // the fastest, or the first
    const FusedLayer<float> layer(emulated_cuda());
    const MatmulStream on(emulated_cuda(), {.algorithm_file = remembered ? path.c_str() : nullptr,
                                            .warn = keep_warning});
    library->epilogue_milliseconds = -2;  // all others are fast enough
    layer.forward(on);
    CHECK(last_is_fused());
    CHECK(library->multiplied.back() == (remembered ? 3 : 1));
    CHECK(warnings().empty());
  }
}

TEST_CASE("an epilogue that costs more than a kernel is not used, and that is remembered") {
  const MatmulLibraryGuard library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  const MatmulOptions options = {.algorithm_file = path.c_str(), .warn = keep_warning};
  warnings().clear();
  const FusedLayer<bf16> layer(emulated_cuda());
  // A kernel costs nothing on the emulated clock, and the product that is added to a bias 4 ms.
  library->epilogue_milliseconds = 3.5;
  for (const bool again : {false, true}) {
    const MatmulStream on(emulated_cuda(), options);
    layer.forward(on);
    CHECK(!last_is_fused());
    layer.backward(on);
    CHECK(!last_is_fused());
    check_contains(read_text(path), {" slower ", " take "});
    if (!again) library->epilogue_milliseconds = 0;
  }
  CHECK(warnings().empty());
  // What cannot be remembered is not decided by time.
  library->epilogue_milliseconds = 0.5;
  const MatmulStream on(emulated_cuda());
  layer.forward(on);
  CHECK(last_is_fused());
}

TEST_CASE("more algorithms are tried for a product that writes a mask") {
  const MatmulLibraryGuard library;
  const MatmulStream on(emulated_cuda());
  const FusedLayer<bf16> layer(emulated_cuda());
  library->most_asked = 0;
  layer.weights(on);
  layer.backward(on);
  CHECK(library->most_asked == 16);
  layer.forward(on);
  CHECK(library->most_asked == 64);
}

TEST_CASE("an epilogue that is right and fast is used") {
  const MatmulLibraryGuard library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  warnings().clear();
  for (const bool remembered : {false, true}) {
    const MatmulStream on(emulated_cuda(), {.algorithm_file = remembered ? path.c_str() : nullptr,
                                            .warn = keep_warning});
    const FusedLayer<fp16> layer(emulated_cuda());
    for (const bool forward : {true, false}) {
      run(layer, forward, on);
      CHECK(last_is_fused());
    }
  }
  CHECK(warnings().empty());
  CHECK(read_text(path).find("slower") == std::string::npos);
}

TEST_CASE("an epilogue that numbers do not show is not used in that run, and not remembered") {
  const MatmulLibraryGuard library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  const MatmulOptions options = {.algorithm_file = path.c_str(), .warn = keep_warning};
  for (const float value : {0.0f, NAN}) {
    warnings().clear();
    const MatmulStream on(emulated_cuda(), options);
    const DeviceArray<float> zeros(emulated_cuda(),
                                   std::vector<float>(kLayerBatch * kLayerIn, value));
    const DeviceArray<float> y(emulated_cuda(), kLayerBatch * kLayerOut);
    ops::fully_connected_forward(on.exec(), {zeros.data(), kLayerBatch, kLayerIn},
                                 {zeros.data(), kLayerIn, kLayerOut}, {zeros.data(), kLayerOut},
                                 true, {y.data(), kLayerBatch, kLayerOut});
    CHECK(!last_is_fused());
    REQUIRE(warnings().size() == 1);
    check_contains(warnings()[0], {"all 0 or not finite", "in this run"});
    CHECK(std::isnan(y.to_host(on.get())[0]) == std::isnan(value));  // by the kernel
  }
  // Of the plain product, not of the one with bias and ReLU.
  CHECK(read_text(path).find("/68/0/0/1/0/0/0/16/40/24 take ") != std::string::npos);
  CHECK(read_text(path).find("/68/0/0/6/") == std::string::npos);
}

TEST_CASE("contexts that share a file take the same algorithm and the same epilogues") {
  const MatmulLibraryGuard library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  const MatmulOptions options = {.algorithm_file = path.c_str(), .warn = keep_warning};
  const FusedLayer<float> layer(emulated_cuda());
  const MatmulStream first(emulated_cuda(), options), second(emulated_cuda(), options);
  const auto both = [&](bool forward, const MatmulStream& chooses, const MatmulStream& follows) {
    library->epilogue_milliseconds = forward ? 0.5 : 0;
    run(layer, forward, chooses);
    CHECK(last_is_fused() != forward);
    const std::vector<float> want = layer.results(forward, chooses);
    // All would choose otherwise now.
    library->epilogue_milliseconds = forward ? -0.5 : 0.5;
    library->milliseconds[0] = 0.25;
    run(layer, forward, follows);
    CHECK(last_is_fused() != forward);
    CHECK((layer.results(forward, follows) == want));
    library->milliseconds[0] = 4;
  };
  both(true, first, second);
  both(false, second, first);
}

}  // namespace hlite::test
