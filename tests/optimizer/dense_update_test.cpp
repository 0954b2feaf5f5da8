#include "hugectr_lite/optimizer/dense_update.h"

#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using optimizer::OptimizerType;
using optimizer::UpdateRule;

// Random parameters and their states on a device, and a mirror of type T.
template <typename T>
class Parameters {
 public:
  Parameters(const OpDevice& on, const UpdateRule& rule, int64_t n, int64_t offset = 0)
      : on_(on),
        rule_(rule),
        w_(on, random_values(n, 1), offset),
        state0_(on, initial(n, 0), offset),
        state1_(on, initial(n, 1), offset),
        mirror_(on, nans(n), offset) {}

  // Step t, at rate t / 64, with gradients that are multiplied by `scale` beforehand; skip: the
  // step is to be left out, and its gradients are NaN.
  void step(int64_t t, float scale = 1, bool skip = false) {
    std::vector<float> g = skip ? nans(w_.size()) : gradient(t);
    for (float& x : g) x *= scale;
    const DeviceTensor<float> gradients(on_, g), rate(on_, {rate_at(t)}), inverse(on_, {1 / scale});
    const DeviceTensor<int64_t> step(on_, {t});
    const DeviceTensor<int32_t> skips(on_, {skip ? 1 : 0});
    optimizer::GradientScale how;
    if (scale != 1) how = {inverse.data(), skips.data()};
    optimizer::dense_update<T>(on_.exec(), rule_, rate.data(), step.data(),
                               {w_, gradients, state0_, state1_}, how, mirror_);
  }
  static float rate_at(int64_t t) { return static_cast<float>(t) / 64; }
  [[nodiscard]] std::vector<float> gradient(int64_t t) const {
    return random_values(w_.size(), static_cast<uint64_t>(100 + t));
  }
  [[nodiscard]] std::vector<float> weights() const { return w_.host(); }
  [[nodiscard]] std::vector<float> state(int i) const {
    return (i == 0 ? state0_ : state1_).host();
  }
  [[nodiscard]] std::vector<float> mirror() const { return mirror_.host(); }
  // All there is.
  [[nodiscard]] std::vector<float> all() const {
    std::vector<float> list;
    for (const auto& part : {weights(), state(0), state(1), mirror()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }

 private:
  [[nodiscard]] std::vector<float> initial(int64_t n, int i) const {
    const bool kept = optimizer::state_count(rule_.type) > i;
    return std::vector<float>(static_cast<size_t>(kept ? n : 0), optimizer::initial_state(rule_));
  }
  const OpDevice& on_;
  UpdateRule rule_;
  DeviceTensor<float> w_, state0_, state1_;
  DeviceTensor<T> mirror_;
};

TEMPLATE_TEST_CASE("dense_update follows each rule's formula over several steps", "[gpu]", float,
                   bf16, fp16) {
  using T = TestType;
  constexpr int64_t kSizes[] = {0, 1, 3, 4, 5, 7, 33, 257, 1031};
  for (const UpdateRule& rule : all_rules())
    for_each_size<T>(
        [&](const OpDevice& on, int64_t n, int64_t offset) {
          INFO("rule " << static_cast<int>(rule.type));
          Parameters<T> got(on, rule, n, offset);
          RuleOracle want(rule, got.weights());
          const int64_t steps = n < kManyElements ? 6 : 2;  // many are about threads
          for (int64_t t = 1; t <= steps; ++t) {
            const std::vector<float> g = got.gradient(t);
            const auto rate = static_cast<double>(Parameters<T>::rate_at(t));
            for (size_t i = 0; i < g.size(); ++i) want.step(rate, t, i, static_cast<double>(g[i]));
            got.step(t);
          }
          const Tolerance tolerance{.absolute = 1e-6, .relative = 1e-6};
          check_close(got.weights(), want.w, tolerance, "w");
          if (optimizer::state_count(rule.type) > 0)
            check_close(got.state(0), want.a, tolerance, "state0");
          if (optimizer::state_count(rule.type) > 1)
            check_close(got.state(1), want.b, tolerance, "state1");
          CHECK(same_values(got.mirror(), as<T>(got.weights())));
        },
        kSizes);
}

TEMPLATE_TEST_CASE("dense_update takes scaled gradients, and leaves all alone when it must skip",
                   "[gpu]", float, bf16, fp16) {
  for (const OpDevice& on : op_devices<TestType>())
    for (const UpdateRule& rule : all_rules()) {
      INFO(on.name() << ", rule " << static_cast<int>(rule.type));
      const int64_t n = on.on_gpu() ? 1031 : 50021;
      Parameters<TestType> plain(on, rule, n), scaled(on, rule, n);
      for (int64_t t = 1; t <= 3; ++t) {
        plain.step(t);
        scaled.step(t, 4096);  // powers of two: the same bits
      }
      CHECK(same_values(scaled.all(), plain.all()));
      scaled.step(4, 4096, true);
      CHECK(same_values(scaled.all(), plain.all()));
    }
}

// More elements than one wave of blocks takes at once.
TEST_CASE("dense_update takes every element of a large array", "[gpu]") {
  for (const OpDevice& on : op_devices<bf16>()) {
    INFO(on.name());
    constexpr int64_t kSize = 132 * 4 * 256 * 4 + 4099;
    Parameters<bf16> got(on, {}, kSize);
    std::vector<float> want = got.weights();
    const std::vector<float> g = got.gradient(1);
    got.step(1);
    for (size_t i = 0; i < want.size(); ++i) want[i] -= Parameters<bf16>::rate_at(1) * g[i];
    CHECK(same_values(got.weights(), want));
  }
}

TEST_CASE("dense_update gives the same bits on any threads") {
  for (const UpdateRule& rule : all_rules())
    check_same_bits([&]<typename T>(const OpDevice& on) {
      Parameters<T> x(on, rule, on.on_gpu() ? 4099 : 50021);
      for (int64_t t = 1; t <= (on.on_gpu() ? 1 : 3); ++t) x.step(t);
      return x.all();
    });
}

TEST_CASE("dense_update refuses arrays that do not match and steps before the first") {
  ThreadPool pool(1);
  const Exec exec{.pool = &pool};
  std::vector<float> x(4);
  const Vector<float> four(x.data(), 4), three(x.data(), 3), none;
  const UpdateRule sgd, adam{.type = OptimizerType::kAdam};
  const float lr = 1;
  const int64_t one = 1, zero = 0;
  CHECK_THROWS_AS(optimizer::dense_update(exec, sgd, &lr, &one, {four, three, none, none}), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, adam, &lr, &one, {four, four, four, none}), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, adam, &lr, &one, {four, four, three, four}), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, sgd, &lr, &zero, {four, four, none, none}), Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, sgd, &lr, nullptr, {four, four, none, none}),
                  Error);
  CHECK_THROWS_AS(optimizer::dense_update(exec, sgd, nullptr, &one, {four, four, none, none}),
                  Error);
  std::vector<fp16> copy(4);
  CHECK_THROWS_AS(optimizer::dense_update<fp16>(exec, sgd, &lr, &one, {four, four, none, none}, {},
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
  CHECK(std::string(state_name(OptimizerType::kRowWiseAdaGrad, 0)) == "accumulator");
  CHECK(optimizer::state_width(OptimizerType::kAdaGrad, 0, 16) == 16);
  CHECK(optimizer::state_width(OptimizerType::kRowWiseAdaGrad, 0, 16) == 1);
  CHECK(std::string(state_name(OptimizerType::kRowWiseAdam, 0)) == "m");
  CHECK(std::string(state_name(OptimizerType::kRowWiseAdam, 1)) == "v");
  CHECK(optimizer::state_width(OptimizerType::kRowWiseAdam, 0, 16) == 16);
  CHECK(optimizer::state_width(OptimizerType::kRowWiseAdam, 1, 16) == 1);
  CHECK(std::string(state_name(OptimizerType::kAdam, 0)) == "m");
  CHECK(std::string(state_name(OptimizerType::kAdam, 1)) == "v");
  CHECK(state_count(OptimizerType::kFtrl) == 2);
  CHECK(std::string(state_name(OptimizerType::kFtrl, 0)) == "n");
  CHECK(std::string(state_name(OptimizerType::kFtrl, 1)) == "z");
}

TEST_CASE("AdaGrad's states start at their initial accumulator, the others' at zero") {
  for (const UpdateRule& rule : all_rules())
    CHECK(optimizer::initial_state(rule) == static_cast<float>(rule.initial_accumulator));
}

TEST_CASE("row-wise rules give weights without rows the bits of AdaGrad and Adam") {
  const bool adam = GENERATE(false, true);
  check_same_bits([&]<typename T>(const OpDevice& on) {
    UpdateRule rule = all_rules()[adam ? 10 : 7];
    Parameters<T> row_wise(on, rule, 1031);
    rule.type = adam ? OptimizerType::kAdam : OptimizerType::kAdaGrad;
    Parameters<T> plain(on, rule, 1031);
    for (int64_t t = 1; t <= 2; ++t) {
      row_wise.step(t);
      plain.step(t);
    }
    CHECK(same_values(row_wise.all(), plain.all()));
    return row_wise.all();
  });
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

}  // namespace
}  // namespace hlite::test
