#include "hugectr_lite/ops/metrics.h"

#include <cmath>
#include <optional>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/support/cuda_emulation/cuda_runtime.h"
#include "tests/support/errors.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using ops::GpuMetrics;

struct Evaluation {
  std::vector<float> logits, labels;
  [[nodiscard]] int64_t size() const { return std::ssize(logits); }
};

// `levels` different scores, or as many as there are floats for 0.
Evaluation random_evaluation(size_t n, uint32_t levels, uint64_t seed) {
  Evaluation e;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t word = random::word(seed, 0, i);
    e.logits.push_back(levels > 0 ? static_cast<float>(word % levels) * 0.37f - 1.0f
                                  : 60 * random::uniform(word) - 30);
    e.labels.push_back(random::word(seed, 1, i) % 3 == 0 ? 1.0f : 0.0f);
  }
  return e;
}

struct Metrics {
  std::optional<double> auc;
  double loss;
  bool operator==(const Metrics&) const = default;
};

Metrics metrics_on(const OpDevice& on, GpuMetrics& metrics, const Evaluation& e) {
  const DeviceTensor<float> logits(on, e.logits), labels(on, e.labels);
  metrics.start(on.exec(), logits, labels);
  on.exec().cuda->stream_synchronize(on.exec().stream);
  return {metrics.auc(), metrics.log_loss()};
}

Metrics metrics_on(const OpDevice& on, const Evaluation& e) {
  if (!on.on_gpu())
    return {ops::auc(e.logits, e.labels), ops::log_loss(on.exec(), e.logits, e.labels)};
  GpuMetrics metrics(on.exec(), e.size());
  return metrics_on(on, metrics, e);
}

// The definitions: every pair of a positive and a negative, and the mean over all samples.
Metrics definition(const Evaluation& e) {
  double won = 0, pairs = 0;
  long double loss = 0;
  for (size_t i = 0; i < e.logits.size(); ++i) {
    const long double z = e.logits[i], y = e.labels[i];
    loss += y * std::log1p(std::exp(-z)) + (1 - y) * std::log1p(std::exp(z));
    if (y == 0) continue;
    for (size_t j = 0; j < e.logits.size(); ++j)
      if (e.labels[j] == 0) {
        won += e.logits[i] > e.logits[j] ? 1 : e.logits[i] == e.logits[j] ? 0.5 : 0;
        pairs += 1;
      }
  }
  Metrics m{std::nullopt,
            e.logits.empty() ? 0 : static_cast<double>(loss) / static_cast<double>(e.size())};
  if (pairs > 0) m.auc = won / pairs;
  return m;
}

TEST_CASE("AUC and log loss equal their definitions, ties included", "[gpu]") {
  const auto devices = op_devices<float>();
  for (const size_t n : {0, 1, 2, 3, 7, 100, 255, 256, 997})
    for (const uint32_t levels : {0u, 1u, 2u, 5u, 300u, 5000u}) {
      const Evaluation e = random_evaluation(n, levels, n + levels);
      const Metrics want = definition(e);
      for (const OpDevice& on : devices) {
        INFO(on.name() << ", " << n << " samples, " << levels << " levels");
        const Metrics got = metrics_on(on, e);
        REQUIRE(got.auc.has_value() == want.auc.has_value());
        if (want.auc) CHECK(*got.auc == Approx(*want.auc).epsilon(1e-12));
        CHECK(got.loss == Approx(want.loss).epsilon(1e-12));
      }
    }
}

TEST_CASE("AUC has the same bits on every device, log loss on any number of threads", "[gpu]") {
  const auto devices = op_devices<float>();
  for (const size_t n : {997, 4096, 4097, 9973, 50001})
    for (const uint32_t levels : {0u, 1u, 2u, 5u, 300u, 100000u}) {
      const Evaluation e = random_evaluation(n, levels, n + levels);
      const Metrics want = metrics_on(devices[0], e);
      for (const OpDevice& on : devices) {
        if (on.on_gpu() && n > 10000) continue;
        INFO(on.name() << ", " << n << " samples, " << levels << " levels");
        const Metrics got = metrics_on(on, e);
        CHECK((got.auc == want.auc));
        // A GPU adds up in another order; the CPU adds up 16384 in a row.
        CHECK(std::abs(got.loss - want.loss) <= (on.on_gpu() ? 1e-13 * want.loss : 0));
      }
    }
}

TEST_CASE("weighted AUC, log loss and squared error equal their definitions") {
  const OpDevice one(1), three(3);
  for (const size_t n : {0, 1, 2, 3, 7, 100, 255, 997})
    for (const uint32_t levels : {0u, 1u, 2u, 300u}) {
      INFO(n << " samples, " << levels << " levels");
      const Evaluation e = random_evaluation(n, levels, n + levels);
      std::vector<float> weights;
      for (size_t i = 0; i < n; ++i)
        weights.push_back(
            random::word(9, 0, i) % 5 == 0 ? 0.0f : 10 * random::uniform(random::word(9, 1, i)));
      double won = 0, pairs = 0, all = 0, loss = 0, squares = 0;
      for (size_t i = 0; i < n; ++i) {
        const double z = e.logits[i], y = e.labels[i], w = weights[i];
        all += w;
        loss += w * (y * std::log1p(std::exp(-z)) + (1 - y) * std::log1p(std::exp(z)));
        squares += w * (z - y) * (z - y);
        for (size_t j = 0; j < n; ++j) {
          if (!(y > 0.5 && e.labels[j] < 0.5f)) continue;
          const double pair = w * static_cast<double>(weights[j]);
          won += e.logits[i] > e.logits[j] ? pair : e.logits[i] == e.logits[j] ? pair / 2 : 0;
          pairs += pair;
        }
      }
      const auto area = ops::auc(e.logits, e.labels, weights);
      REQUIRE(area.has_value() == (pairs > 0));
      if (area) CHECK(*area == Approx(won / pairs).epsilon(1e-12));
      for (const OpDevice* on : {&one, &three}) {
        const double log_loss = ops::log_loss(on->exec(), e.logits, e.labels, weights);
        CHECK(log_loss == Approx(all > 0 ? loss / all : 0).epsilon(1e-12));
        const double mse = ops::mean_squared_error(on->exec(), e.logits, e.labels, weights);
        CHECK(mse == Approx(all > 0 ? squares / all : 0).epsilon(1e-12));
      }
      // As if a sample were there as often as its weight says.
      std::vector<float> whole;
      Evaluation often;
      for (size_t i = 0; i < n; ++i) {
        whole.push_back(static_cast<float>(i % 4));
        for (size_t k = 0; k < i % 4; ++k) {
          often.logits.push_back(e.logits[i]);
          often.labels.push_back(e.labels[i]);
        }
      }
      const auto counted = ops::auc(e.logits, e.labels, whole),
                 repeated = ops::auc(often.logits, often.labels);
      REQUIRE(counted.has_value() == repeated.has_value());
      if (counted) CHECK(*counted == Approx(*repeated).epsilon(1e-14));
      CHECK(ops::mean_squared_error(one.exec(), e.logits, e.labels, whole) ==
            Approx(ops::mean_squared_error(one.exec(), often.logits, often.labels)).epsilon(1e-12));
    }
  const std::vector<float> two = {1, 2}, labels = {0, 1}, single = {1}, nan = {1, NAN};
  CHECK_THROWS_AS(ops::auc(two, labels, single), Error);
  CHECK_THROWS_AS(ops::auc(nan, labels, two), DataError);
  CHECK_THROWS_AS(ops::log_loss(one.exec(), two, labels, single), Error);
  CHECK_THROWS_AS(ops::mean_squared_error(one.exec(), two, single), Error);
}

TEST_CASE("AUC of doubles has the numbers of floats, and tells more scores apart") {
  const auto doubled = [](const std::vector<float>& of) {
    return std::vector<double>(of.begin(), of.end());
  };
  for (const uint32_t levels : {0u, 7u}) {
    const Evaluation e = random_evaluation(3000, levels, 11);
    std::vector<float> weights;
    for (size_t i = 0; i < 3000; ++i)
      weights.push_back(static_cast<float>(random::word(3, 7, i) % 5) / 3.0f);
    const auto scores = doubled(e.logits), labels = doubled(e.labels);
    CHECK(ops::auc(scores, labels) == ops::auc(e.logits, e.labels));
    const auto area = ops::auc(scores, labels, doubled(weights));
    CHECK(area.value() == Approx(ops::auc(e.logits, e.labels, weights).value()).epsilon(1e-14));
    std::vector<double> large;
    for (const float w : weights) large.push_back(std::ldexp(double{w}, 900));
    CHECK(ops::auc(scores, labels, large) == area);  // to the bit
  }
  const auto area = [](const std::vector<double>& scores) {
    return ops::auc(scores, std::vector<double>{0, 1, 0, 1});
  };
  CHECK(area({1, 1 + 1e-15, 1 - 1e-15, 1 + 2e-15}) == 1.0);
  CHECK(area({1e300, 2e300, 1e299, 3e300}) == 1.0);
  CHECK(area({1e-320, 2e-320, 1e-321, 1e-320}) == 0.875);
  CHECK(area({0.0, -0.0, 0.0, 0.0}) == 0.5);
  CHECK_THROWS_AS(area({1, 2, NAN, 3}), DataError);
  CHECK_THROWS_AS(area({1, 2, 3}), Error);
}

TEST_CASE("AUC of special scores and of one class", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const auto area = [&](std::vector<float> scores, std::vector<float> labels) {
      return metrics_on(on, {std::move(scores), std::move(labels)}).auc;
    };
    CHECK(area({1, 2}, {0, 1}).value() == 1);
    CHECK(area({2, 1}, {0, 1}).value() == 0);
    CHECK(area({0.0f, -0.0f}, {0, 1}).value() == 0.5);  // both zeros are one score
    CHECK(area({-INFINITY, -1, 1e-40f, INFINITY}, {0, 0, 1, 1}).value() == 1);
    CHECK(area({-1, -2, -3}, {1, 0, 0}).value() == 1);
    CHECK(area({3, 3, 3}, {0, 1, 1}).value() == 0.5);
    CHECK(!area({1, 2}, {1, 1}));
    CHECK(!area({1, 2}, {0, 0}));
    CHECK(!area({}, {}));
    CHECK_THROWS_AS(area({1, NAN}, {0, 1}), DataError);
    CHECK_THROWS_AS(area({1}, {0, 1}), Error);
    // Of several, the first is named.
    Evaluation e = random_evaluation(9000, 0, 1);
    e.logits[8999] = e.logits[4500] = NAN;
    check_contains(message_of<DataError>([&] { metrics_on(on, e); }),
                   {"evaluation sample 4500 is NaN"});
  }
}

TEST_CASE("AUC of many samples neither loses counts nor order", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const size_t n = !on.on_gpu() ? 300000 : on.name() == "emulated" ? 50021 : 5000011;
    Evaluation e{std::vector<float>(n), std::vector<float>(n)};
    double expected = 0;  // the k-th negative from below loses to every positive above it
    uint64_t negatives = 0, positives = 0;
    for (size_t i = 0; i < n; ++i) {
      const size_t rank = i * 7919 % n;
      e.logits[rank] = static_cast<float>(i);
      e.labels[rank] = random::word(3, 0, i) % 4 == 0 ? 1.0f : 0.0f;
      if (e.labels[rank] > 0.5f) {
        ++positives;
        expected += static_cast<double>(negatives);
      } else {
        ++negatives;
      }
    }
    expected /= static_cast<double>(positives) * static_cast<double>(negatives);
    CHECK(metrics_on(on, e).auc.value() == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("metrics of a GPU take smaller sets after larger ones, and refuse larger ones") {
  const OpDevice on = emulated_device(), cpu(1);
  GpuMetrics metrics(on.exec(), 5000);
  const int blocks = emulation::machine().device_blocks;
  for (const size_t n : {5000, 10, 0, 4999}) {
    const Evaluation e = random_evaluation(n, 50, n);
    CHECK((metrics_on(on, metrics, e).auc == metrics_on(cpu, e).auc));
  }
  CHECK(emulation::machine().device_blocks == blocks);
  CHECK_THROWS_AS(metrics_on(on, metrics, random_evaluation(5001, 0, 1)), Error);
  CHECK(metrics.workspace_bytes() < 5000 * 13);
  check_contains(message_of<DeviceError>([&] { GpuMetrics(on.exec(), int64_t{1} << 31); }),
                 {"fewer than 2^31 samples", "2147483648"});
}

TEST_CASE("metrics of a GPU have the same bits in any order of threads") {
  const OpDevice on = emulated_device();
  const Evaluation e = random_evaluation(9001, 1000, 2);
  const Metrics want = metrics_on(on, e);
  for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
    emulation::set_order(order, 5);
    CHECK((metrics_on(on, e) == want));
  }
  emulation::set_order(emulation::Order::kForward);
}

}  // namespace
}  // namespace hlite::test
