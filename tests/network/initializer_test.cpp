// Initial values of parameters against their formulas.
#include "hugectr_lite/network/initializer.h"

#include <array>
#include <cmath>

#include "tests/support/catch.h"

namespace hlite::test {

TEST_CASE("initialisers follow their formulas") {
  using network::Initializer;
  using network::InitializerType;
  constexpr size_t n = 200000;
  std::vector<float> x(n);
  const auto moments = [&](const Initializer& init) {
    network::initialize(init, 5, "t", x);
    double sum = 0, squares = 0, most = 0;
    for (const float v : x) {
      sum += v;
      squares += static_cast<double>(v) * v;
      most = std::max(most, std::abs(static_cast<double>(v)));
    }
    return std::array<double, 3>{sum / n, std::sqrt(squares / n), most};
  };
  const auto weight = moments({InitializerType::kDefaultWeight, 300, 100});
  CHECK(weight[0] == Approx(0).margin(1e-3));
  CHECK(weight[1] == Approx(std::sqrt(1.0 / 200)).epsilon(0.01));  // what is left after the cut
  CHECK(weight[2] <= 2 * std::sqrt(1.0 / 200) / 0.87962 + 1e-6);
  const auto bias = moments({InitializerType::kDefaultBias, 0, 100});
  CHECK(bias[1] == Approx(0.1 * 0.87963).epsilon(0.01));
  CHECK(bias[2] <= 0.2 + 1e-6);
  const auto xavier = moments({InitializerType::kXavierUniform, 300, 100});
  CHECK(xavier[2] == Approx(std::sqrt(3.0 / 200)).epsilon(1e-3));
  CHECK(xavier[1] == Approx(std::sqrt(1.0 / 200)).epsilon(0.01));
  const auto normal = moments({InitializerType::kNormal, 300, 100});
  CHECK(normal[0] == Approx(0).margin(1e-3));
  CHECK(normal[1] == Approx(std::sqrt(1.0 / 200)).epsilon(0.01));
  CHECK(normal[2] > 3 * std::sqrt(1.0 / 200));
  CHECK(moments({InitializerType::kUniform, 300, 100})[2] == Approx(1.0 / 400).epsilon(1e-3));
  const auto fan_in = moments({InitializerType::kFanInUniform, 300, 100});
  CHECK(fan_in[0] == Approx(0).margin(1e-3));
  CHECK(fan_in[1] == Approx(std::sqrt(1.0 / 300 / 3)).epsilon(0.01));
  CHECK(fan_in[2] == Approx(std::sqrt(1.0 / 300)).epsilon(1e-3));
  CHECK(moments({InitializerType::kZero, 300, 100})[2] == 0);
  CHECK(moments({InitializerType::kConstant, 0, 100, 0.25f})[0] == 0.25);
  std::vector<float> again(n);
  network::initialize({InitializerType::kDefaultWeight, 300, 100}, 5, "t", again);
  network::initialize({InitializerType::kDefaultWeight, 300, 100}, 5, "t", x);
  CHECK(x == again);
  network::initialize({InitializerType::kDefaultWeight, 300, 100}, 6, "t", again);
  CHECK(x != again);
}

}  // namespace hlite::test
