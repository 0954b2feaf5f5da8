// Metrics of an evaluation set in device memory against those of the CPU.
#include <cmath>
#include <limits>
#include <vector>

#include "hugectr_lite/ops/metrics.h"
#include "tests/cuda/embedding_device.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using ops::GpuMetrics;

struct Evaluation {
  std::vector<float> logits, labels;
};

// `levels` different scores, or as many as there are floats for 0.
Evaluation random_evaluation(size_t n, uint32_t levels, uint64_t seed) {
  Evaluation e;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t word = random::word(seed, 0, i);
    e.logits.push_back(levels > 0 ? static_cast<float>(word % levels) * 0.37f - 1.0f
                                  : 8 * random::uniform(word) - 4);
    e.labels.push_back(random::word(seed, 1, i) % 3 == 0 ? 1.0f : 0.0f);
  }
  return e;
}

struct Metrics {
  std::optional<double> auc;
  double loss;
  bool operator==(const Metrics&) const = default;
};

Metrics on_device(const OnDevice& device, GpuMetrics& metrics, const Evaluation& e) {
  const auto n = static_cast<int64_t>(e.logits.size());
  const DeviceArray<float> logits(device.ops(), e.logits), labels(device.ops(), e.labels);
  metrics.start(device.exec(), {logits.data(), n}, {labels.data(), n});
  device.ops().stream_synchronize(device.stream());
  return {metrics.auc(), metrics.log_loss()};
}

Metrics on_device(const OnDevice& device, const Evaluation& e) {
  GpuMetrics metrics(device.exec(), static_cast<int64_t>(e.logits.size()));
  return on_device(device, metrics, e);
}

void check_metrics(const Metrics& got, const Evaluation& e) {
  ThreadPool pool(1);
  INFO(e.logits.size() << " samples");
  CHECK((got.auc == ops::auc(e.logits, e.labels)));  // every bit
  const double loss = ops::log_loss({.pool = &pool}, e.logits, e.labels);
  CHECK(std::abs(got.loss - loss) <= 1e-13 * loss);  // the CPU adds up 16384 in a row
}

TEST_CASE("AUC and log loss of a GPU are those of the CPU, ties included") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    for (const size_t n : {0, 1, 2, 3, 7, 255, 256, 997, 4096, 4097, 9973})
      for (const uint32_t levels : {0u, 1u, 2u, 5u, 300u, 100000u}) {
        const Evaluation e = random_evaluation(n, levels, n + levels);
        check_metrics(on_device(device, e), e);
      }
  }
}

TEST_CASE("AUC of many samples on a GPU") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    const Evaluation e = random_evaluation(backend.name == "GPU" ? 5000011 : 50021, 0, 4);
    check_metrics(on_device(device, e), e);
  }
}

TEST_CASE("AUC on a GPU of special scores and of one class") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    const auto area = [&](std::vector<float> scores, std::vector<float> labels) {
      return on_device(device, {std::move(scores), std::move(labels)}).auc;
    };
    CHECK(area({1, 2}, {0, 1}).value() == 1);
    CHECK(area({2, 1}, {0, 1}).value() == 0);
    CHECK(area({0.0f, -0.0f}, {0, 1}).value() == 0.5);  // both zeros are one score
    CHECK(area({-inf, -1, 1e-40f, inf}, {0, 0, 1, 1}).value() == 1);
    CHECK(area({3, 3, 3}, {0, 1, 1}).value() == 0.5);
    CHECK(!area({1, 2}, {1, 1}));
    CHECK(!area({1, 2}, {0, 0}));
    CHECK(!area({}, {}));
  }
}

TEST_CASE("AUC on a GPU names the first score that is NaN") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    Evaluation e = random_evaluation(9000, 0, 1);
    e.logits[8999] = e.logits[4500] = std::numeric_limits<float>::quiet_NaN();
    const std::string text = message_of<DataError>([&] { on_device(device, e); });
    check_contains(text, {"evaluation sample 4500 is NaN"});
  }
}

TEST_CASE("metrics of a GPU take smaller sets after larger ones, and refuse larger ones") {
  const OnDevice device(emulated_cuda());
  GpuMetrics metrics(device.exec(), 5000);
  const int blocks = emulation::machine().device_blocks;
  for (const size_t n : {5000, 10, 0, 4999}) {
    const Evaluation e = random_evaluation(n, 50, n);
    check_metrics(on_device(device, metrics, e), e);
  }
  CHECK(emulation::machine().device_blocks == blocks);
  CHECK_THROWS_AS(on_device(device, metrics, random_evaluation(5001, 0, 1)), Error);
  CHECK(metrics.workspace_bytes() < 5000 * 13);
  check_contains(message_of<DeviceError>([&] { GpuMetrics(device.exec(), int64_t{1} << 31); }),
                 {"fewer than 2^31 samples", "2147483648"});
}

TEST_CASE("metrics kernels give the same bits in any order of threads") {
  const OnDevice device(emulated_cuda());
  const Evaluation e = random_evaluation(9001, 1000, 2);
  const Metrics want = on_device(device, e);
  for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
    emulation::set_order(order, 5);
    CHECK((on_device(device, e) == want));
  }
  emulation::set_order(emulation::Order::kForward);
}

}  // namespace
}  // namespace hlite::test
