// The kernels of the loss and of the penalty on the weights against their definitions in double, on
// every CUDA backend.
#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/bce_loss.h"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/regularizer.h"
#include "tests/cuda/typed_values.h"

namespace hlite::test {
namespace {

struct Result {
  float loss;
  std::vector<float> gradient;

  [[nodiscard]] std::vector<float> all() const {
    std::vector<float> list = gradient;
    list.push_back(loss);
    return list;
  }
};

// ---- Binary cross-entropy ----

struct LossBatch {
  std::vector<float> logits, labels;
};

LossBatch loss_batch(int64_t size) {
  LossBatch batch{values_of<float>(size, 1), {}};
  for (size_t i = 0; i < batch.logits.size(); ++i) {
    batch.labels.push_back(i % 3 == 0 ? 1.0f : 0.0f);
    batch.logits[i] *= i % 7 == 0 ? 30.0f : 3.0f;
  }
  return batch;
}

struct Loss {
  int64_t mean_over = 0;
  float scale = 1;
  bool gradient = true;
};

template <typename T>
Result run(const cuda::Backend& table, const LossBatch& batch, const Loss& how) {
  const OnBackend on(table);
  const auto size = static_cast<int64_t>(batch.logits.size());
  const DeviceValues<float> logits(on, batch.logits), labels(on, batch.labels), loss(on, 1);
  const DeviceValues<float> scale(on, {how.scale});
  const DeviceValues<T> dlogits(on, batch.logits.size());
  const DeviceArray<double> workspace(on.table(), ops::kBlockSums);
  ops::bce_loss<T>(on.exec(), {logits.data(), size, 1}, {labels.data(), size, 1}, loss.data(),
                   {how.gradient ? dlogits.data() : nullptr, size, 1},
                   {.mean_over = how.mean_over,
                    .scale = how.scale == 1 ? nullptr : scale.data(),
                    .workspace = {workspace.data(), ops::kBlockSums}});
  return {loss.host()[0], dlogits.host()};
}

TEST_CASE("the loss kernels agree with the definition") {
  for (const CudaBackend& backend : cuda_backends()) {
    for (const int64_t size : {0, 1, 7, 33, 256, 257, 1031}) {
      INFO(backend.name << ", " << size << " samples");
      const LossBatch batch = loss_batch(size);
      const double mean_over = size == 7 ? 28 : static_cast<double>(size);
      long double sum = 0;
      std::vector<double> want;
      for (size_t i = 0; i < batch.logits.size(); ++i) {
        const long double z = static_cast<long double>(batch.logits[i]), y = batch.labels[i];
        const long double p = 1 / (1 + std::exp(-z)), q = 1 / (1 + std::exp(z));
        sum -= y * std::log(p) + (1 - y) * std::log(q);
        want.push_back(static_cast<double>(p - y) / mean_over * 1024);
      }
      const Loss how{.mean_over = size == 7 ? 28 : 0, .scale = 1024};
      const Result got = run<float>(*backend.table, batch, how);
      const double mean = size == 0 ? 0.0 : static_cast<double>(sum) / mean_over;
      CHECK(static_cast<double>(got.loss) == Approx(mean).epsilon(1e-7));
      check_close(std::span<const float>(got.gradient), std::span<const double>(want),
                  {1e-12, 2e-7}, "dlogits");
      const Result only =
          run<float>(*backend.table, batch, {.mean_over = how.mean_over, .gradient = false});
      CHECK(only.loss == got.loss);
      CHECK(same_values(only.gradient, std::vector<float>(batch.logits.size(), NAN)));
    }
  }
}

TEMPLATE_TEST_CASE("the loss kernels write the gradient in 16 bits, rounded", "", bf16, fp16) {
  for (const CudaBackend& backend : cuda_backends()) {
    for (const int64_t size : {1, 33, 257, 1031}) {
      INFO(backend.name << ", " << size << " samples");
      const LossBatch batch = loss_batch(size);
      const Result want = run<float>(*backend.table, batch, {.scale = 1024}),
                   got = run<TestType>(*backend.table, batch, {.scale = 1024});
      CHECK(got.loss == want.loss);
      CHECK(same_values(got.gradient, widened(rounded<TestType>(want.gradient))));
    }
  }
}

TEST_CASE("the loss kernels take every sample of a batch with more of them than threads") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const LossBatch batch = loss_batch(ops::kBlockSums * 256 + 1031);
    double sum = 0;
    for (size_t i = 0; i < batch.logits.size(); ++i)
      sum += ops::bce_term(batch.logits[i], batch.labels[i]).loss;
    const Result got = run<float>(*backend.table, batch, {.mean_over = 1});
    CHECK(static_cast<double>(got.loss) == Approx(sum).epsilon(1e-7));
    CHECK(std::none_of(got.gradient.begin(), got.gradient.end(),
                       [](float g) { return std::isnan(g); }));
  }
}

TEST_CASE("the loss kernels show a NaN, and may overwrite the logits") {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    LossBatch batch = loss_batch(300);
    const Result want = run<float>(*backend.table, batch, {});
    const DeviceValues<float> logits(on, batch.logits), labels(on, batch.labels), loss(on, 1);
    const DeviceArray<double> workspace(on.table(), ops::kBlockSums);
    ops::bce_loss(on.exec(), {logits.data(), 300, 1}, {labels.data(), 300, 1}, loss.data(),
                  {logits.data(), 300, 1}, {.workspace = {workspace.data(), ops::kBlockSums}});
    CHECK(loss.host()[0] == want.loss);
    CHECK(same_values(logits.host(), want.gradient));
    batch.logits[299] = NAN;
    CHECK(std::isnan(run<float>(*backend.table, batch, {}).loss));
  }
}

TEST_CASE("the loss kernels give the same bits in any order of threads") {
  const LossBatch batch = loss_batch(2053);
  check_any_order([&] { return run<float>(emulated_cuda(), batch, {}).all(); });
}

// ---- Penalty ----

Result run_penalty(const cuda::Backend& table, ops::Penalty penalty, const std::vector<float>& w,
                   const std::vector<float>& dw, int64_t offset) {
  const OnBackend on(table);
  const auto n = static_cast<int64_t>(w.size());
  const DeviceValues<float> weights(on, w, offset), gradients(on, dw), loss(on, {0.5f});
  const DeviceValues<float> scale(on, {8.0f});
  const DeviceArray<double> workspace(on.table(), ops::kBlockSums);
  ops::add_penalty(on.exec(), {weights.data(), n}, {gradients.data(), n}, loss.data(),
                   {.penalty = penalty,
                    .lambda = 0.25,
                    .scale = scale.data(),
                    .workspace = {workspace.data(), ops::kBlockSums}});
  return {loss.host()[0], gradients.host()};
}

TEST_CASE("the penalty kernels agree with the definition") {
  for (const CudaBackend& backend : cuda_backends()) {
    for (const int64_t n : kKernelSizes) {
      for (const auto penalty : {ops::Penalty::kL1, ops::Penalty::kL2}) {
        const bool l1 = penalty == ops::Penalty::kL1;
        auto w = values_of<float>(n, 1);
        if (n > 3) w[3] = 0;
        const auto dw = values_of<float>(n, 2);
        double sum = 0;
        std::vector<double> want;
        for (size_t i = 0; i < w.size(); ++i) {
          const double v = w[i], sign = v > 0 ? 1 : v < 0 ? -1 : 0;
          sum += l1 ? std::abs(v) : v * v / 2;
          want.push_back(dw[i] + 0.25 * 8 * (l1 ? sign : v));
        }
        for (const int64_t offset : {0, 1}) {
          INFO(backend.name << ", n " << n << ", offset " << offset);
          const Result got = run_penalty(*backend.table, penalty, w, dw, offset);
          CHECK(static_cast<double>(got.loss) == Approx(0.5 + 0.25 * sum).epsilon(1e-7));
          check_close(std::span<const float>(got.gradient), std::span<const double>(want),
                      {1e-6, 1e-6}, "dw");
        }
      }
    }
  }
}

TEST_CASE("the penalty kernels give the same bits in any order of threads") {
  const auto w = values_of<float>(4099, 1), dw = values_of<float>(4099, 2);
  check_any_order([&] { return run_penalty(emulated_cuda(), ops::Penalty::kL2, w, dw, 0).all(); });
}

TEST_CASE("sums on a GPU refuse a workspace that is too small") {
  const OnBackend on(emulated_cuda());
  float value = 0;
  const Vector<float> one(&value, 1);
  const Matrix<float> column(&value, 1, 1);
  CHECK_THROWS_AS(ops::bce_loss(on.exec(), column, column, &value, column), Error);
  CHECK_THROWS_AS(ops::add_penalty(on.exec(), one, one, &value, {}), Error);
}

}  // namespace
}  // namespace hlite::test
