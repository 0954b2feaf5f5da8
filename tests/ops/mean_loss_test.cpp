#include "hugectr_lite/ops/mean_loss.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/block_sums.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

struct LossBatch {
  std::vector<float> logits, labels;

  explicit LossBatch(int64_t size) : logits(random_values(size, 1)) {
    for (size_t i = 0; i < logits.size(); ++i) {
      labels.push_back(i % 3 == 0 ? 1.0f : 0.0f);
      logits[i] *= i % 7 == 0 ? 30.0f : 3.0f;
    }
  }
};

struct LossOptions {
  int64_t mean_over = 0;
  float scale = 1;
  bool gradient = true, in_place = false;
  double positive_weight = 1, gradient_factor = 1;
};

struct LossResult {
  float loss;
  std::vector<float> gradient;
};

template <typename T = float>
LossResult loss_on(const OpDevice& on, const LossBatch& batch, const LossOptions& how = {}) {
  const auto size = static_cast<int64_t>(batch.logits.size());
  const DeviceTensor<float> logits(on, batch.logits), labels(on, batch.labels), loss(on, nans(1));
  const DeviceTensor<float> scale(on, {how.scale});
  const DeviceTensor<T> separate(on, nans(size));
  const DeviceTensor<double> workspace(on, std::vector<double>(ops::kBlockSums));
  Matrix<T> dlogits(how.gradient ? separate.data() : nullptr, size, 1);
  if constexpr (std::is_same_v<T, float>)
    if (how.in_place) dlogits = logits.view(size, 1);
  ops::mean_loss<T>(on.exec(), logits.view(size, 1), labels.view(size, 1), loss.data(), dlogits,
                    {.mean_over = how.mean_over,
                     .scale = how.scale == 1 ? nullptr : scale.data(),
                     .gradient_factor = how.gradient_factor,
                     .workspace = workspace,
                     .positive_weight = how.positive_weight});
  return {loss.host()[0], how.in_place ? logits.host() : separate.host()};
}

// -[w y log p + (1 - y) log(1 - p)] with p = sigmoid(z), in long double: for |z| <= 30.
TEST_CASE("binary cross-entropy agrees with the definition", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    for (const int64_t size : {0, 1, 7, 33, 256, 257, 1031}) {
      for (const LossOptions& how :
           {LossOptions{},
            {.mean_over = 4 * size, .scale = 1024},
            {.gradient_factor = 0.3},
            {.scale = 1024, .positive_weight = 2.75, .gradient_factor = 3}}) {
        INFO(on.name() << ", " << size << " samples, mean over " << how.mean_over);
        const LossBatch batch(size);
        const auto mean_over = static_cast<double>(how.mean_over > 0 ? how.mean_over : size);
        long double sum = 0;
        std::vector<double> want;
        for (size_t i = 0; i < batch.logits.size(); ++i) {
          const long double z = batch.logits[i], y = batch.labels[i];
          const long double p = 1 / (1 + std::exp(-z)), q = 1 / (1 + std::exp(z));
          const long double w = how.positive_weight;
          sum -= w * y * std::log(p) + (1 - y) * std::log(q);
          want.push_back(static_cast<double>((1 - y) * p - w * y * q) / mean_over *
                         static_cast<double>(how.scale) * how.gradient_factor);
        }
        const LossResult got = loss_on(on, batch, how);
        const double mean = size == 0 ? 0.0 : static_cast<double>(sum) / mean_over;
        CHECK(static_cast<double>(got.loss) == Approx(mean).epsilon(1e-7));
        check_close(got.gradient, want, {1e-12, 2e-7}, "dlogits");
        const LossResult only = loss_on(on, batch,
                                        {.mean_over = how.mean_over,
                                         .gradient = false,
                                         .positive_weight = how.positive_weight});
        CHECK(only.loss == got.loss);
        CHECK(same_values(only.gradient, nans(size)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("the loss of several tasks is weighted, and absent labels add nothing", "[gpu]",
                   float, bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const auto& [rows, count] : {std::pair(0, 3), {7, 1}, {129, 2}, {257, 5}, {11, 64}}) {
      INFO(on.name() << ", [" << rows << "," << count << "]");
      LossBatch batch(int64_t{rows} * count);
      for (size_t i = 0; i < batch.labels.size(); i += 5) batch.labels[i] = -1;
      ops::TaskWeights tasks;
      tasks.count = count;
      for (int t = 0; t < count; ++t) tasks.values[t] = 0.25f * static_cast<float>(t);
      double sum = 0;
      std::vector<double> want;
      const double share = 1.0 / (3.0 * std::max(rows, 1) * count);
      for (size_t i = 0; i < batch.labels.size(); ++i) {
        const double z = batch.logits[i], y = batch.labels[i];
        const double w = y < 0 ? 0 : 0.25 * static_cast<double>(i % static_cast<size_t>(count));
        const double p = 1 / (1 + std::exp(-z)), q = 1 / (1 + std::exp(z));
        if (w > 0) sum -= w * (y * std::log(p) + (1 - y) * std::log(q));
        want.push_back(w * (p - y) * share);
      }
      const DeviceTensor<float> logits(on, batch.logits), labels(on, batch.labels),
          loss(on, nans(1));
      const DeviceTensor<T> gradient(on, nans(logits.size()));
      const DeviceTensor<double> workspace(on, std::vector<double>(ops::kBlockSums));
      ops::mean_loss<T>(on.exec(), logits.view(rows, count), labels.view(rows, count), loss.data(),
                        gradient.view(rows, count),
                        {.mean_over = 3 * rows, .workspace = workspace, .tasks = tasks});
      CHECK(static_cast<double>(loss.host()[0]) == Approx(sum * share).epsilon(1e-6).margin(1e-9));
      check_close(gradient.host(), want, {1e-7, 2e-7 + kRounding<T>}, "dlogits");
      CHECK_THROWS_AS(
          ops::mean_loss<T>(on.exec(), logits.view(rows, count), labels.view(rows, count),
                            loss.data(), gradient.view(rows, count),
                            {.workspace = workspace, .tasks = {.count = count + 1}}),
          Error);
    }
}

// Numbers of all sizes in place of logits, labels beyond [0, 1], and a weight for each sample, some
// of them 0.
TEMPLATE_TEST_CASE("losses of weighted samples agree with their definitions", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const ops::LossKind kind :
         {ops::LossKind::kBinaryCrossEntropy, ops::LossKind::kSquaredError})
      for (const auto& [rows, count] :
           {std::pair(0, 1), {1, 1}, {7, 1}, {257, 1}, {1031, 1}, {7, 3}, {129, 2}}) {
        const bool squared = kind == ops::LossKind::kSquaredError;
        if (squared && count > 1) continue;
        INFO(on.name() << ", [" << rows << "," << count << "]" << (squared ? ", squared" : ""));
        const LossBatch batch(int64_t{rows} * count);
        const std::vector<float> weights = random_values(rows, 2);
        ops::TaskWeights tasks;
        tasks.count = count > 1 ? count : 0;
        for (int t = 0; t < count; ++t) tasks.values[t] = 1 + static_cast<float>(t);
        std::vector<float> table;
        std::vector<double> want;
        double sum = 0;
        const double share = 1.0 / (3.0 * std::max(rows, 1) * count);
        for (size_t i = 0; i < batch.logits.size(); ++i) {
          const size_t t = i % static_cast<size_t>(count), row = i / static_cast<size_t>(count);
          const float label = squared ? 5 * batch.labels[i] - 2 : batch.labels[i];
          const double w = row % 4 == 1 ? 0 : std::abs(static_cast<double>(weights[row]));
          table.push_back(label);
          if (t + 1 == static_cast<size_t>(count)) table.push_back(static_cast<float>(w));
          const double z = batch.logits[i], y = label, p = 1 / (1 + std::exp(-z));
          const double of_task = count > 1 ? static_cast<double>(t) + 1 : 1;
          sum += squared ? w * (z - y) * (z - y)
                         : w * of_task *
                               (y * std::log1p(std::exp(-z)) + (1 - y) * std::log1p(std::exp(z)));
          want.push_back((squared ? 2 * w * (z - y) : w * of_task * (p - y)) * share);
        }
        const DeviceTensor<float> logits(on, batch.logits), labels(on, table), loss(on, nans(1));
        const DeviceTensor<T> gradient(on, nans(logits.size()));
        const DeviceTensor<double> workspace(on, std::vector<double>(ops::kBlockSums));
        ops::mean_loss<T>(
            on.exec(), logits.view(rows, count), labels.view(rows, count + 1), loss.data(),
            gradient.view(rows, count),
            {.kind = kind, .mean_over = 3 * rows, .workspace = workspace, .tasks = tasks});
        CHECK(static_cast<double>(loss.host()[0]) ==
              Approx(sum * share).epsilon(1e-6).margin(1e-9));
        check_close(gradient.host(), want, {1e-7, 2e-7 + kRounding<T>}, "dlogits");
      }
}

TEST_CASE("weights of 1 give the bits of no weights", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    const LossBatch batch(515);
    const LossResult plain = loss_on(on, batch);
    std::vector<float> table;
    for (const float label : batch.labels) table.insert(table.end(), {label, 1.0f});
    const DeviceTensor<float> logits(on, batch.logits), labels(on, table), loss(on, nans(1)),
        gradient(on, nans(515));
    const DeviceTensor<double> workspace(on, std::vector<double>(ops::kBlockSums));
    ops::mean_loss<float>(on.exec(), logits.view(515, 1), labels.view(515, 2), loss.data(),
                          gradient.view(515, 1), {.workspace = workspace});
    CHECK(loss.host()[0] == plain.loss);
    CHECK(same_values(gradient.host(), plain.gradient));
    CHECK_THROWS_AS(
        ops::mean_loss<float>(on.exec(), logits.view(515, 1), labels.view(206, 5), loss.data(),
                              gradient.view(515, 1), {.workspace = workspace}),
        Error);
  }
}

TEMPLATE_TEST_CASE("mean_loss writes the gradient in 16 bits, rounded", "[gpu]", bf16, fp16) {
  for (const OpDevice& on : op_devices<TestType>()) {
    for (const int64_t size : {1, 33, 257, 1031}) {
      INFO(on.name() << ", " << size << " samples");
      const LossBatch batch(size);
      const LossResult want = loss_on(on, batch, {.scale = 1024});
      const LossResult got = loss_on<TestType>(on, batch, {.scale = 1024});
      CHECK(got.loss == want.loss);
      CHECK(same_values(got.gradient, as<TestType>(want.gradient)));
    }
  }
}

TEST_CASE("binary cross-entropy has the gradient of its loss") {
  for (const double z : {-7.0, -0.5, 0.0, 0.25, 9.0}) {
    for (const double y : {0.0, 0.3, 1.0}) {
      constexpr double kStep = 1e-6;
      const double slope =
          (ops::bce_term(z + kStep, y).loss - ops::bce_term(z - kStep, y).loss) / 2 / kStep;
      CAPTURE(z, y);
      CHECK(ops::bce_term(z, y).gradient == Approx(slope).margin(1e-9));
      const auto weighted = [&](double at) { return ops::weighted_bce_term(at, y, 0.375); };
      CHECK(weighted(z).gradient ==
            Approx((weighted(z + kStep).loss - weighted(z - kStep).loss) / 2 / kStep).margin(1e-9));
    }
  }
}

TEST_CASE("binary cross-entropy is right for huge logits", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    for (const float z : {1e2f, 1e4f, 3e38f}) {
      for (const float sign : {-1.0f, 1.0f}) {
        for (const float y : {0.0f, 1.0f}) {
          INFO(on.name() << ", logit " << sign * z << ", label " << y);
          LossBatch one(1);
          one.logits[0] = sign * z;
          one.labels[0] = y;
          const LossResult got = loss_on(on, one);
          const bool right = (sign > 0) == (y > 0);
          CHECK(got.loss == Approx(right ? 0.0f : z).margin(1e-40));
          CHECK(got.gradient[0] == Approx(right ? 0.0f : sign).margin(1e-40));
        }
      }
    }
  }
}

TEST_CASE("bce_loss gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    LossResult got = loss_on<T>(on, LossBatch(2053));
    got.gradient.push_back(got.loss);
    return got.gradient;
  });
}

TEST_CASE("bce_loss takes every sample of a batch with more of them than threads of a GPU",
          "[gpu]") {
  const LossBatch batch(ops::kBlockSums * 256 + 1031);
  double sum = 0;
  for (size_t i = 0; i < batch.logits.size(); ++i)
    sum += ops::bce_term(batch.logits[i], batch.labels[i]).loss;
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const LossResult got = loss_on(on, batch, {.mean_over = 1});
    CHECK(static_cast<double>(got.loss) == Approx(sum).epsilon(1e-7));
    CHECK(std::none_of(got.gradient.begin(), got.gradient.end(),
                       [](float g) { return std::isnan(g); }));
  }
}

TEST_CASE("bce_loss shows NaN and may overwrite the logits", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    LossBatch batch(300);
    const LossResult want = loss_on(on, batch), got = loss_on(on, batch, {.in_place = true});
    CHECK(got.loss == want.loss);
    CHECK(same_values(got.gradient, want.gradient));
    batch.logits[299] = NAN;
    CHECK(std::isnan(loss_on(on, batch).loss));
  }
}

TEST_CASE("bce_loss divides by the whole batch, and scales the gradient but not the loss",
          "[gpu]") {
  const LossBatch batch(300);
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    LossResult want = loss_on(on, batch);
    const LossResult got = loss_on(on, batch, {.mean_over = 1200, .scale = 1024});
    CHECK(got.loss == want.loss / 4);  // powers of two: exact
    for (float& g : want.gradient) g *= 256;
    CHECK(got.gradient == want.gradient);
  }
}

TEST_CASE("bce_loss refuses what does not fit, and on a GPU a workspace that is too small") {
  const OpDevice on(1);
  std::vector<float> m(10);
  float loss = 0;
  const Matrix<float> four(m.data(), 4, 1), five(m.data(), 5, 1), wide(m.data(), 4, 2);
  CHECK_THROWS_AS(ops::mean_loss(on.exec(), four, five, &loss, four), Error);
  CHECK_THROWS_AS(ops::mean_loss(on.exec(), wide, wide, &loss, wide), Error);
  CHECK_THROWS_AS(ops::mean_loss(on.exec(), four, four, &loss, five), Error);
  CHECK_THROWS_AS(ops::mean_loss(on.exec(), four, four, nullptr, four), Error);
  CHECK_THROWS_AS(ops::mean_loss(emulated_device().exec(), four, four, &loss, four), Error);
}

}  // namespace
}  // namespace hlite::test
