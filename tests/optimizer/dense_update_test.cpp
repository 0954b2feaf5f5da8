#include "hugectr_lite/optimizer/dense_update.h"

#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace hlite;
using optimizer::OptimizerType;
using optimizer::UpdateRule;

namespace {
constexpr int kSteps = 6;

struct Arrays {
  std::vector<float> w, state0, state1;
};

float rate_at(int64_t step) { return 0.02f * static_cast<float>(step); }

std::vector<float> gradient_at(size_t n, int64_t step) {
  std::vector<float> g(n);
  test::fill_random(g, static_cast<uint64_t>(100 + step));
  return g;
}

Arrays start(const UpdateRule& rule, size_t n) {
  const auto has = [&](int index) {
    return optimizer::state_count(rule.type) > index ? n : size_t{0};
  };
  Arrays x{std::vector<float>(n), std::vector<float>(has(0), optimizer::initial_state(rule)),
           std::vector<float>(has(1), optimizer::initial_state(rule))};
  test::fill_random(x.w, 1);
  return x;
}

void take_step(const Exec& exec, const UpdateRule& rule, int64_t step, Arrays& x,
               const optimizer::GradientScale& scale = {}, float factor = 1) {
  std::vector<float> g = gradient_at(x.w.size(), step);
  for (float& value : g) value *= factor;
  const auto view = [](std::vector<float>& v) { return Vector<float>(v.data(), v.size()); };
  const float rate = rate_at(step);
  optimizer::dense_update(exec, rule, &rate, &step, view(x.w),
                          Vector<const float>(g.data(), g.size()), view(x.state0), view(x.state1),
                          scale);
}
}  // namespace

TEST_CASE("dense_update follows each rule's formula over several steps") {
  ThreadPool pool(2);
  const Exec exec{.pool = &pool};
  for (const UpdateRule& rule : test::all_rules()) {
    for (const size_t n : {0u, 1u, 7u, 33u, 20011u}) {
      Arrays x = start(rule, n);
      test::RuleOracle want(rule, x.w);
      for (int64_t t = 1; t <= kSteps; ++t) {
        const std::vector<float> g = gradient_at(n, t);
        for (size_t i = 0; i < n; ++i)
          want.step(static_cast<double>(rate_at(t)), t, i, static_cast<double>(g[i]));
        take_step(exec, rule, t, x);
      }
      const test::Tolerance tolerance{.absolute = 1e-6, .relative = 1e-6};
      const std::string what = "rule " + std::to_string(static_cast<int>(rule.type));
      test::check_close<float, double>(x.w, want.w, tolerance, what.c_str());
      if (!x.state0.empty())
        test::check_close<float, double>(x.state0, want.a, tolerance, "state0");
      if (!x.state1.empty())
        test::check_close<float, double>(x.state1, want.b, tolerance, "state1");
    }
  }
}

TEST_CASE("dense_update gives the same bits on any number of threads") {
  for (const UpdateRule& rule : test::all_rules()) {
    Arrays results[3];
    for (int threads = 1; threads <= 3; ++threads) {
      ThreadPool pool(threads);
      Arrays& x = results[threads - 1];
      x = start(rule, 50021);
      for (int64_t t = 1; t <= 3; ++t) take_step({.pool = &pool}, rule, t, x);
    }
    for (int i : {1, 2}) {
      CHECK(results[i].w == results[0].w);
      CHECK(results[i].state0 == results[0].state0);
      CHECK(results[i].state1 == results[0].state1);
    }
  }
}

TEST_CASE("dense_update takes scaled gradients, and leaves everything alone when told to skip") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const Exec exec{.pool = &pool};
    for (const UpdateRule& rule : test::all_rules()) {
      Arrays plain = start(rule, 50021), scaled = plain;
      const float inverse = 1.0f / 4096;  // powers of two: the same bits
      int32_t skip = 0;
      for (int64_t t = 1; t <= 3; ++t) {
        take_step(exec, rule, t, plain);
        take_step(exec, rule, t, scaled, {&inverse, &skip}, 4096);
      }
      CHECK(scaled.w == plain.w);
      CHECK(scaled.state0 == plain.state0);
      CHECK(scaled.state1 == plain.state1);
      skip = 1;
      take_step(exec, rule, 4, scaled, {&inverse, &skip}, NAN);
      CHECK(scaled.w == plain.w);
      CHECK(scaled.state0 == plain.state0);
      CHECK(scaled.state1 == plain.state1);
    }
  }
}

TEST_CASE("dense_update refuses arrays that do not match and steps before the first") {
  ThreadPool pool(1);
  const Exec exec{.pool = &pool};
  std::vector<float> x(4);
  const Vector<float> four(x.data(), 4), three(x.data(), 3), none;
  const UpdateRule sgd, adam{.type = OptimizerType::kAdam};
  const float lr = 1;
  const int64_t one = 1, zero = 0;
  CHECK_THROWS_AS(optimizer::dense_update(exec, sgd, &lr, &one, four, three, none, none), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, adam, &lr, &one, four, four, four, none), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, adam, &lr, &one, four, four, three, four), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, sgd, &lr, &zero, four, four, none, none), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, sgd, &lr, nullptr, four, four, none, none), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, sgd, nullptr, &one, four, four, none, none), Error);
  std::vector<bf16> copy(4);
  CHECK_THROWS_AS(optimizer::dense_update<bf16>(exec, sgd, &lr, &one, four, four, none, none, {},
                                                {copy.data(), copy.size()}),
                  Error);
}

TEST_CASE("Adam's rate keeps its precision when beta2 is close to one") {
  const UpdateRule rule{.type = OptimizerType::kAdam, .beta1 = 0.9, .beta2 = 0.9999};
  const optimizer::StepScalars s = optimizer::step_scalars(rule, 1.f, 1);
  CHECK(std::abs(static_cast<double>(s.rate) - 0.1) < 1e-7);  // sqrt(1e-4) / 0.1
  CHECK(std::abs(static_cast<double>(s.one_minus_beta2) - 1e-4) < 1e-11);
}

TEST_CASE("Names and numbers of states are those of checkpoints") {
  using optimizer::state_count;
  using optimizer::state_name;
  CHECK(state_count(OptimizerType::kSgd) == 0);
  CHECK(state_count(OptimizerType::kAdam) == 2);
  CHECK(std::string(state_name(OptimizerType::kMomentum, 0)) == "momentum");
  CHECK(std::string(state_name(OptimizerType::kNesterov, 0)) == "momentum");
  CHECK(std::string(state_name(OptimizerType::kAdaGrad, 0)) == "accumulator");
  CHECK(std::string(state_name(OptimizerType::kAdam, 0)) == "m");
  CHECK(std::string(state_name(OptimizerType::kAdam, 1)) == "v");
  CHECK(state_count(OptimizerType::kFtrl) == 2);
  CHECK(std::string(state_name(OptimizerType::kFtrl, 0)) == "n");
  CHECK(std::string(state_name(OptimizerType::kFtrl, 1)) == "z");
}

TEST_CASE("AdaGrad's state starts at its initial accumulator, the others' at zero") {
  for (const UpdateRule& rule : test::all_rules())
    CHECK(optimizer::initial_state(rule) == (rule.type == OptimizerType::kAdaGrad ? 0.05f : 0.f));
}

TEST_CASE("Ftrl keeps weights finite and zeros exact, and lets broken gradients show") {
  const auto weight_after = [](const UpdateRule& rule, const std::vector<float>& gradients) {
    const optimizer::StepScalars scalars = optimizer::step_scalars(rule, 0.25f, 1);
    float w = 0.5f, n = 0, z = 0;
    for (const float g : gradients)
      optimizer::update_element<OptimizerType::kFtrl>(scalars, g, w, n, z);
    return w;
  };
  const UpdateRule bare{.type = OptimizerType::kFtrl};  // its divisors can be 0
  const UpdateRule sparse{.type = OptimizerType::kFtrl, .lambda1 = 3};
  CHECK(weight_after(bare, {0}) == 0);
  CHECK(weight_after(bare, {0, 0}) == 0);
  CHECK(std::abs(weight_after(bare, {1e-30f})) < 1e-20f);  // the square is 0
  CHECK(weight_after(bare, {2}) == 0.25f);                 // z = 2 - 2 / 0.25 * 0.5 = -2
  CHECK(weight_after(sparse, {2}) == 0);
  CHECK(weight_after(sparse, {8}) == 5.0f / 32);  // z = -8
  for (const float broken : {NAN, INFINITY}) CHECK(!std::isfinite(weight_after(bare, {broken})));
}
