// The kernels of the optimizer against the rules in double precision, on every CUDA backend.
#include "hugectr_lite/ops/non_finite.h"
#include "hugectr_lite/optimizer/advance_schedules.h"
#include "hugectr_lite/optimizer/dense_update.h"
#include "hugectr_lite/optimizer/loss_scale.h"
#include "tests/cuda/typed_values.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/optimizer/schedule_cases.h"

namespace hlite::test {
namespace {

using optimizer::UpdateRule;

// Parameters, states and a mirror of type T on one backend.
template <typename T>
class Parameters {
 public:
  Parameters(const OnBackend& on, const UpdateRule& rule, const std::vector<float>& w,
             int64_t offset)
      : on_(on),
        rule_(rule),
        n_(static_cast<int64_t>(w.size())),
        w_(on, w, offset),
        state0_(on, initial(0), offset),
        state1_(on, initial(1), offset),
        mirror_(on, w.size(), offset) {}

  void step(float lr, int64_t t, const std::vector<float>& g, float inverse = 1, int skip = 0) {
    const DeviceValues<float> gradient(on_, g), rate(on_, {lr}), inverses(on_, {inverse});
    const DeviceArray<int64_t> step(on_.table(), std::vector<int64_t>{t});
    const DeviceArray<int32_t> skips(on_.table(), std::vector<int32_t>{skip});
    const bool plain = inverse == 1 && skip == 0;
    optimizer::dense_update<T>(on_.exec(), rule_, rate.data(), step.data(), {w_.data(), n_},
                               {gradient.data(), n_}, {state0_.data(), count(0)},
                               {state1_.data(), count(1)},
                               plain ? optimizer::GradientScale{}
                                     : optimizer::GradientScale{inverses.data(), skips.data()},
                               {mirror_.data(), n_});
    on_.table().stream_synchronize(on_.stream());  // the arrays above end here
  }
  [[nodiscard]] std::vector<float> weights() const { return w_.host(); }
  [[nodiscard]] std::vector<float> state(int i) const {
    return i == 0 ? state0_.host() : state1_.host();
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
  [[nodiscard]] int64_t count(int i) const {
    return optimizer::state_count(rule_.type) > i ? n_ : 0;
  }
  [[nodiscard]] std::vector<float> initial(int i) const {
    return std::vector<float>(static_cast<size_t>(count(i)), optimizer::initial_state(rule_));
  }
  const OnBackend& on_;
  UpdateRule rule_;
  int64_t n_;
  DeviceValues<float> w_, state0_, state1_;
  DeviceValues<T> mirror_;
};

float dense_rate(int64_t step) { return 0.02f * static_cast<float>(step); }

TEMPLATE_TEST_CASE("the update kernels follow each rule's formula", "", float, bf16, fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    for (const UpdateRule& rule : all_rules()) {
      for (const int64_t n : {0, 1, 3, 4, 5, 257, 1031}) {
        for (const int64_t offset : {0, 1}) {
          INFO(backend.name << ", rule " << static_cast<int>(rule.type) << ", n " << n
                            << ", offset " << offset);
          const auto w = values_of<float>(n, 1);
          RuleOracle want(rule, w);
          Parameters<T> got(on, rule, w, offset);
          for (int64_t t = 1; t <= 4; ++t) {
            auto g = values_of<float>(n, static_cast<uint64_t>(100 + t));
            for (size_t i = 0; i < g.size(); ++i)
              want.step(static_cast<double>(dense_rate(t)), t, i, static_cast<double>(g[i]));
            // Scaled from the third step on; the powers of two cost no bits.
            const float scale = t > 2 ? 512.0f : 1.0f;
            for (float& x : g) x *= scale;
            got.step(dense_rate(t), t, g, 1 / scale);
          }
          const Tolerance tolerance{.absolute = 1e-6, .relative = 1e-6};
          const auto close = [&](const std::vector<float>& a, const std::vector<double>& b,
                                 const char* what) {
            check_close(std::span<const float>(a), std::span<const double>(b), tolerance, what);
          };
          close(got.weights(), want.w, "w");
          if (optimizer::state_count(rule.type) > 0) close(got.state(0), want.a, "state0");
          if (optimizer::state_count(rule.type) > 1) close(got.state(1), want.b, "state1");
          CHECK(same_values(got.mirror(), widened(rounded<T>(got.weights()))));

          const auto before = got.all();
          got.step(1, 5, std::vector<float>(w.size(), NAN), 0.5f, 1);
          CHECK(same_values(got.all(), before));
        }
      }
    }
  }
}

// More elements than one wave of blocks takes at once.
TEST_CASE("the update kernels take every element of a large array") {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    constexpr int64_t kSize = 132 * 4 * 256 * 4 + 4099;
    const auto w = values_of<float>(kSize, 1), g = values_of<float>(kSize, 2);
    Parameters<bf16> got(on, {}, w, 0);
    got.step(0.5f, 1, g);
    std::vector<float> want;
    for (size_t i = 0; i < w.size(); ++i) want.push_back(w[i] - 0.5f * g[i]);
    CHECK(same_values(got.weights(), want));
  }
}

TEST_CASE("the update kernels give the same bits in any order of threads") {
  for (const UpdateRule& rule : all_rules())
    check_any_order([&] {
      const OnBackend on(emulated_cuda());
      Parameters<bf16> x(on, rule, values_of<float>(4099, 1), 0);
      x.step(0.1f, 1, values_of<float>(4099, 2));
      return x.all();
    });
}

TEST_CASE("the schedule kernel counts the step and gives every schedule its rate") {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    for (const size_t count : {0u, 1u, 3u, 16u, 17u, 40u}) {
      INFO(backend.name << ", " << count << " schedules");
      const auto schedules = some_schedules(count);
      const DeviceArray<int64_t> step(on.table(), std::vector<int64_t>{0});
      const DeviceValues<float> rates(on, count);
      std::vector<float*> to;
      for (size_t i = 0; i < count; ++i) to.push_back(rates.data() + i);
      for (int64_t t = 1; t <= 30; ++t) {
        optimizer::advance_schedules(on.exec(), schedules, step.data(), to);
        REQUIRE(step.to_host(on.stream())[0] == t);
        std::vector<double> want;
        for (const auto& s : schedules) want.push_back(optimizer::learning_rate(s, t));
        check_close(std::span<const float>(rates.host()), std::span<const double>(want),
                    {0, 0x1p-24 * 1.001}, "rate");
      }
    }
  }
}

TEST_CASE("the loss scale goes the same way on a GPU as on the CPU") {
  ThreadPool pool(1);
  const Exec cpu{.pool = &pool};
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    optimizer::LossScale want = optimizer::loss_scale_from(16);
    const DeviceArray<optimizer::LossScale> state(on.table(), std::vector{want});
    const DeviceValues<float> good(on, {1, 2, 3}), bad(on, {1, INFINITY, 3});
    for (int i = 0; i < 60; ++i) {
      const bool overflow = i % 11 == 7 || (i > 30 && i < 40);
      want.found = overflow ? 1 : 0;
      optimizer::update_loss_scale(cpu, 2, &want);
      // As in an iteration: the flag of the device's state is set by the scan of a gradient.
      const auto& gradient = overflow ? bad : good;
      ops::flag_non_finite(on.exec(), {gradient.data(), 3}, &state.data()->found);
      optimizer::update_loss_scale(on.exec(), 2, state.data());
      const optimizer::LossScale got = state.to_host(on.stream())[0];
      CHECK(got.scale == want.scale);
      CHECK(got.inverse == want.inverse);
      CHECK(got.skip == want.skip);
      CHECK(got.good == want.good);
      CHECK(got.found == 0);
    }
  }
}

}  // namespace
}  // namespace hlite::test
