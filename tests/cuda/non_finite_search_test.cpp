// What becomes of numbers that are none in a fused ReLU, and that models find them whatever it is.
#include <cmath>
#include <limits>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/model/non_finite_search.h"
#include "tests/cuda/matmul_library.h"
#include "tests/cuda/matmul_test_context.h"
#include "tests/support/errors.h"
#include "tests/support/small_config.h"
#include "tests/support/typed_values.h"

namespace hlite::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// y = relu(x w + bias) with NaN in one factor; what else there is must not notice.
template <typename T>
void check_fused_relu(const CudaBackend& backend) {
  constexpr int64_t kBatch = 48, kIn = 32, kOut = 64;
  constexpr size_t kSample = 5, kInput = 7, kOutput = 9;
  const MatmulStream on(*backend.table);
  const auto values = [](int64_t n, uint64_t seed) { return rounded<T>(random_values(n, seed)); };
  const auto x = values(kBatch * kIn, 1), w = values(kIn * kOut, 2), bias = values(kOut, 3);
  const auto forward = [&](const std::vector<T>& a, const std::vector<T>& b,
                           const std::vector<T>& c) {
    const DeviceArray<T> x_data(on.table(), a), w_data(on.table(), b), bias_data(on.table(), c);
    const DeviceArray<T> y(on.table(), kBatch * kOut);
    const DeviceArray<uint8_t> mask(on.table(), kBatch * ops::relu_mask_bytes(kOut));
    ops::fully_connected_forward<T>(on.exec(), {x_data.data(), kBatch, kIn},
                                    {w_data.data(), kIn, kOut}, {bias_data.data(), kOut}, true,
                                    {y.data(), kBatch, kOut},
                                    {mask.data(), kBatch, ops::relu_mask_bytes(kOut)});
    return y.to_host(on.get());
  };
  const std::vector<T> clean = forward(x, w, bias);  // chooses an algorithm, too
  auto broken_x = x, broken_w = w, broken_bias = bias;
  broken_x[kSample * kIn + kInput] = from_float<T>(kNan);
  broken_w[kInput * kOut + kOutput] = from_float<T>(kNan);
  broken_bias[kOutput] = from_float<T>(kNan);
  const auto count_nan = [&](const char* what, const std::vector<T>& got, auto&& reached) {
    int64_t nans = 0, zeros = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const float value = to_float(got[i]);
      INFO(what << ", sample " << i / kOut << ", output " << i % kOut << ": " << value);
      if (!reached(i / kOut, i % kOut)) {
        REQUIRE(value == to_float(clean[i]));
        continue;
      }
      REQUIRE((std::isnan(value) || value == 0));
      ++(std::isnan(value) ? nans : zeros);
    }
    CHECK((nans == 0 || zeros == 0));
    if (backend.name != "emulated")
      WARN("NaN in " << what << ": this GPU's fused ReLU " << (nans > 0 ? "keeps" : "drops")
                     << " it");
    return nans;
  };
  const int64_t of_x =
      count_nan("x", forward(broken_x, w, bias), [](size_t b, size_t) { return b == kSample; });
  const int64_t of_w =
      count_nan("w", forward(x, broken_w, bias), [](size_t, size_t o) { return o == kOutput; });
  const int64_t of_bias =
      count_nan("bias", forward(x, w, broken_bias), [](size_t, size_t o) { return o == kOutput; });
  if (backend.name == "emulated") {
    const bool kept = emulation::matmul_library().relu_keeps_nan;
    CHECK(of_x == (kept ? kOut : 0));
    CHECK(of_w == (kept ? kBatch : 0));
    CHECK(of_bias == (kept ? kBatch : 0));
  }

  // What finding it rests on: gradients of weights are x^T dz, and NaN x 0 is NaN.
  const DeviceArray<T> x_data(on.table(), broken_x);
  const DeviceArray<T> dz(on.table(), std::vector<T>(kBatch * kOut, from_float<T>(0)));
  const DeviceArray<float> dw(on.table(), kIn * kOut);
  ops::fully_connected_backward_weights<T>(on.exec(), {x_data.data(), kBatch, kIn},
                                           {dz.data(), kBatch, kOut}, {dw.data(), kIn, kOut});
  const std::vector<float> gradient = dw.to_host(on.get());
  for (size_t i = 0; i < gradient.size(); ++i)
    REQUIRE(std::isnan(gradient[i]) == (i / kOut == kInput));
}

// small_config(), its two features unpadded.
std::string config_text() {
  std::string text = small_config();
  const std::string padding = R"(, "aligned": "Auto")";
  text.erase(text.find(padding), padding.size());
  return text;
}

// A small DLRM that is trained by hand.
class SmallModel {
 public:
  SmallModel(const cuda::Backend* gpu, const std::string& precision)
      : config_(config::parse_train_config(
            config_text(), "small.json",
            {"solver.precision=" + precision, "solver.algorithm_search=false"})),
        dense_(kBatch * 2, 0.5f),
        model_(*config_, 5, 1, {}, gpu) {
    if (gpu) gpu->use_device(0);
    model_.compile({.device = Device::kCpu, .pool = &pool_});
    model_.allocate();
    trainer::initialize(model_);
    trainer::weights_changed(model_);
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<float>(i % 2);
    for (size_t i = 0; i < keys_.size(); ++i) keys_[i] = static_cast<uint32_t>(i % 5);
  }

  void train() {
    model_.train({.batch = kBatch, .input = {labels_.data(), dense_.data(), keys_.data(), {}}});
  }
  void set(const std::string& tensor, int64_t element, float value) {
    for (const auto& t : trainer::weights_of(model_)) {
      if (t.name != tensor) continue;
      if (t.put)
        t.put(element, {&value, 1});
      else
        t.data[element] = value;
    }
    trainer::weights_changed(model_);
  }
  void set_dense(size_t element, float value) { dense_[element] = value; }
  [[nodiscard]] trainer::NonFiniteWeight found() { return trainer::find_non_finite_weight(model_); }
  [[nodiscard]] trainer::Model& model() { return model_; }

 private:
  static constexpr int64_t kBatch = 32;
  ThreadPool pool_{1};
  std::unique_ptr<config::TrainConfig> config_;
  std::vector<float> labels_ = std::vector<float>(kBatch), dense_;
  std::vector<uint32_t> keys_ = std::vector<uint32_t>(kBatch * 3);
  trainer::Model model_;  // waits for copies from the above when it goes
};

// A fault in one number, and what is found right away (of weights) and after one more step.
struct Fault {
  const char* tensor;
  int64_t element;
};
constexpr Fault kFaults[] = {{"b1.weight", 3}, {"b1.bias", 2},    {"t1.weight", 17},
                             {"t1.bias", 15},  {"t2.weight", 0},  {"t2.bias", 0},
                             {"dense", 20},    {"emb.table_1", 4}};

void check_faults(const cuda::Backend* gpu, const std::string& precision) {
  for (const float value : {kNan, kInfinity, -kInfinity})
    for (const Fault& fault : kFaults) {
      INFO(precision << ", " << value << " in " << fault.tensor);
      SmallModel small(gpu, precision);
      small.train();
      REQUIRE(small.found().tensor.empty());
      const std::string tensor = fault.tensor;
      if (tensor == "dense")
        small.set_dense(static_cast<size_t>(fault.element), value);
      else
        small.set(tensor, fault.element, value);
      if (tensor != "dense" && !tensor.starts_with("emb")) {
        const auto at_once = small.found();
        CHECK(at_once.tensor == tensor);
        CHECK(at_once.element == fault.element);
        CHECK(std::isnan(at_once.value) == std::isnan(value));
      }
      small.train();
      CHECK(!small.found().tensor.empty());
      small.train();
      CHECK(!small.found().tensor.empty());  // for good
    }
}

}  // namespace

TEST_CASE("a fused ReLU keeps NaN or makes 0 of it, and nothing else", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends())
    for (const bool keeps : {false, true}) {
      const MatmulLibraryGuard library;
      library->relu_keeps_nan = keeps;
      INFO(backend.name << ", the emulated one keeps it: " << keeps);
      check_fused_relu<float>(backend);
      check_fused_relu<bf16>(backend);
      check_fused_relu<fp16>(backend);
    }
}

TEST_CASE("what is not finite is found among the weights, whatever a fused ReLU makes of it",
          "[gpu][slow]") {
  check_faults(nullptr, "fp32");
  for (const CudaBackend& backend : cuda_backends())
    for (const bool keeps : {false, true}) {
      const MatmulLibraryGuard library;
      library->relu_keeps_nan = keeps;
      INFO(backend.name << ", the emulated one keeps NaN: " << keeps);
      for (const char* precision : {"fp32", "bf16"}) check_faults(backend.table, precision);
    }
}

TEST_CASE("a dynamic loss scale that cannot help is counted", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    SmallModel small(backend.table, "fp16");
    small.model().loss_scaling().set_dynamic_state(optimizer::loss_scale_from(4));
    small.train();
    CHECK(small.model().loss_scaling().dynamic_state()->lost == 0);
    small.set_dense(3, 1e5f);  // more than fp16 holds
    for (int i = 0; i < 2; ++i) small.train();
    CHECK(small.model().loss_scaling().dynamic_state()->lost == 0);
    for (int i = 0; i < 3; ++i) small.train();
    CHECK(small.model().loss_scaling().dynamic_state()->lost == 3);
    CHECK(small.found().tensor.empty());
    small.set("t1.weight", 4, 7e4f);  // products read NaN
    CHECK(small.found().tensor == "t1.weight");
    CHECK(std::isinf(small.found().value));
  }
}

TEST_CASE("on a GPU float features are padded, and the zeros stay zeros", "[gpu]") {
  SmallModel cpu(nullptr, "fp32");
  CHECK_THROWS_AS(cpu.model().train_plan().index_of("dense.pad"), Error);
  for (const CudaBackend& backend : cuda_backends()) {
    SmallModel small(backend.table, "fp32");
    const plan::Plan& plan = small.model().train_plan();
    CHECK(plan.index_of("dense.pad") < plan.index_of("b1.fprop"));
    for (int i = 0; i < 3; ++i) small.train();
    const auto& weight = small.model().layers().network->parameters()[0];
    REQUIRE(weight.dims == network::Dims{2, 4});
    std::vector<float> stored(8 * 4, kNan);
    backend.table->copy(stored.data(), plan.buffers().data<float>(weight.buffers.value),
                        stored.size() * sizeof(float), nullptr);
    backend.table->stream_synchronize(nullptr);
    CHECK(stored[0] != 0);
    for (size_t i = 2 * 4; i < stored.size(); ++i) CHECK(stored[i] == 0);
  }
}

}  // namespace hlite::test
