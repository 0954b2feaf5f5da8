#include "hugectr_lite/ops/bce_loss.h"

#include <bit>

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {
using test::span_of;

struct Batch {
  std::vector<float> logits, labels;
  explicit Batch(int64_t size) : logits(test::random_values(size, 1)) {
    for (size_t i = 0; i < logits.size(); ++i) {
      labels.push_back(i % 3 == 0 ? 1.0f : 0.0f);
      logits[i] *= i % 7 == 0 ? 30.0f : 3.0f;
    }
  }
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(logits.size()); }
  [[nodiscard]] Matrix<const float> z() const { return {logits.data(), size(), 1}; }
  [[nodiscard]] Matrix<const float> y() const { return {labels.data(), size(), 1}; }
};

// -[y log p + (1 - y) log(1 - p)] with p = sigmoid(z), in long double: for |z| <= 30.
long double definition(long double z, long double y) {
  const long double p = 1 / (1 + std::exp(-z)), q = 1 / (1 + std::exp(z));
  return -(y * std::log(p) + (1 - y) * std::log(q));
}

TEST_CASE("bce_loss agrees with the definition") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t size : {1, 7, 33, 256, 257, 1031}) {
      CAPTURE(count, size);
      const Batch batch(size);
      std::vector<double> want(static_cast<size_t>(size));
      long double sum = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        const long double z = static_cast<long double>(batch.logits[i]), y = batch.labels[i] > 0;
        sum += definition(z, y);
        want[i] = static_cast<double>((1 / (1 + std::exp(-z)) - y) / size);
      }
      float loss = NAN, loss_only = NAN;
      std::vector<float> gradient(want.size(), NAN);
      bce_loss(threads.exec(), batch.z(), batch.y(), &loss, {gradient.data(), size, 1});
      bce_loss(threads.exec(), batch.z(), batch.y(), &loss_only, {nullptr, size, 1});
      CHECK(static_cast<double>(loss) == Approx(static_cast<double>(sum / size)).epsilon(1e-7));
      CHECK(loss_only == loss);
      test::check_close(span_of(gradient), span_of(want), {1e-12, 2e-7}, "dlogits");
    }
  }
}

TEST_CASE("bce_loss has the gradient of its loss") {
  for (const double z : {-7.0, -0.5, 0.0, 0.25, 9.0}) {
    for (const double y : {0.0, 0.3, 1.0}) {
      constexpr double kStep = 1e-6;
      const double slope = (bce_term(z + kStep, y).loss - bce_term(z - kStep, y).loss) / 2 / kStep;
      CAPTURE(z, y);
      CHECK(bce_term(z, y).gradient == Approx(slope).margin(1e-9));
    }
  }
}

TEST_CASE("bce_loss is right for huge logits") {
  test::Threads threads(1);
  for (const float z : {1e2f, 1e4f, 3e38f}) {
    for (const float sign : {-1.0f, 1.0f}) {
      for (const float y : {0.0f, 1.0f}) {
        const float logit = sign * z;
        float loss = NAN, gradient = NAN;
        bce_loss(threads.exec(), {&logit, 1, 1}, {&y, 1, 1}, &loss, {&gradient, 1, 1});
        const bool right = (sign > 0) == (y > 0);
        CAPTURE(logit, y);
        CHECK(loss == Approx(right ? 0.0f : z).margin(1e-40));
        CHECK(gradient == Approx(right ? 0.0f : sign).margin(1e-40));
      }
    }
  }
}

TEST_CASE("bce_loss has the same bits for any thread count") {
  const Batch batch(2053);
  float first = 0;
  for (const int count : {1, 2, 3, 6}) {
    test::Threads threads(count);
    float loss = NAN;
    bce_loss(threads.exec(), batch.z(), batch.y(), &loss, {nullptr, batch.size(), 1});
    if (count == 1) first = loss;
    CHECK(std::bit_cast<uint32_t>(loss) == std::bit_cast<uint32_t>(first));
  }
}

TEST_CASE("bce_loss takes an empty batch, shows NaN and may overwrite the logits") {
  test::Threads threads(2);
  float loss = NAN;
  bce_loss(threads.exec(), {nullptr, 0, 1}, {nullptr, 0, 1}, &loss, {nullptr, 0, 1});
  CHECK(loss == 0);
  Batch batch(300);
  std::vector<float> gradient(300);
  bce_loss(threads.exec(), batch.z(), batch.y(), &loss, {gradient.data(), 300, 1});
  bce_loss(threads.exec(), batch.z(), batch.y(), &loss, {batch.logits.data(), 300, 1});
  CHECK(batch.logits == gradient);
  batch.logits[299] = NAN;
  bce_loss(threads.exec(), batch.z(), batch.y(), &loss, {nullptr, 300, 1});
  CHECK(std::isnan(loss));
}

TEST_CASE("bce_loss divides by the whole batch, and scales the gradient but not the loss") {
  test::Threads threads(2);
  const Batch batch(300);
  const float scale = 1024;
  float loss = NAN, scaled_loss = NAN;
  std::vector<float> gradient(300), scaled(300), want;
  bce_loss(threads.exec(), batch.z(), batch.y(), &loss, {gradient.data(), 300, 1});
  bce_loss(threads.exec(), batch.z(), batch.y(), &scaled_loss, {scaled.data(), 300, 1},
           {.mean_over = 1200, .scale = &scale});
  CHECK(scaled_loss == loss / 4);  // powers of two: exact
  for (const float g : gradient) want.push_back(g * 256);
  CHECK(scaled == want);
}

TEST_CASE("bce_loss refuses shapes that do not fit") {
  test::Threads threads(1);
  std::vector<float> m(10);
  float loss = 0;
  const Matrix<float> four(m.data(), 4, 1), five(m.data(), 5, 1), wide(m.data(), 4, 2);
  CHECK_THROWS_AS(bce_loss(threads.exec(), four, five, &loss, four), Error);
  CHECK_THROWS_AS(bce_loss(threads.exec(), wide, wide, &loss, wide), Error);
  CHECK_THROWS_AS(bce_loss(threads.exec(), four, four, &loss, five), Error);
  CHECK_THROWS_AS(bce_loss(threads.exec(), four, four, nullptr, four), Error);
}

}  // namespace
}  // namespace hlite::ops
