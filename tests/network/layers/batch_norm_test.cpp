// Running statistics of BatchNorm.
#include <algorithm>

#include "tests/network/layer_case.h"

namespace hlite::test {

TEST_CASE("BatchNorm learns the statistics that evaluation goes by, which begin with 0 and 1") {
  auto f = make(R"({"type":"Reshape","bottom":"emb","top":"e"},
      {"name":"bn","type":"BatchNorm","bottom":"e","top":"n","bn_param":{"factor":0.25,"eps":0.5}},
      {"type":"Concat","bottom":["n","dense"],"top":"c"},)" +
                fc("c", "z", 1));
  const auto& running = f.net().running();
  REQUIRE(running.size() == 2);
  CHECK(running[0].name == "bn.running_mean");
  CHECK(running[1].name == "bn.running_variance");
  CHECK(running[1].initializer.type == network::InitializerType::kOne);
  const auto mean = f.floats(running[0].value), variance = f.floats(running[1].value);
  std::fill(variance.begin(), variance.end(), 1.0f);
  const auto& gamma = f.floats(f.net().parameters()[0].buffers.value);
  const auto& beta = f.floats(f.net().parameters()[1].buffers.value);
  const auto check_evaluation = [&] {
    f.evaluate();
    const auto x = f.tensor("e"), y = f.tensor("n");
    for (size_t i = 0; i < y.size(); ++i)
      CHECK(y[i] ==
            Approx(gamma[i % 12] * (x[i] - mean[i % 12]) / std::sqrt(variance[i % 12] + 0.5) +
                   beta[i % 12])
                .epsilon(1e-5)
                .margin(1e-6));
  };
  check_evaluation();
  f.train();
  const auto x = f.tensor("e");
  for (size_t j = 0; j < 12; ++j) {
    double m = 0, v = 0;
    for (size_t b = 0; b < kBatch; ++b) m += x[b * 12 + j] / double{kBatch};
    for (size_t b = 0; b < kBatch; ++b) v += std::pow(x[b * 12 + j] - m, 2) / (kBatch - 1);
    CHECK(mean[j] == Approx(0.25 * m).margin(1e-7));
    CHECK(variance[j] == Approx(0.75 + 0.25 * v).epsilon(1e-6));
  }
  check_evaluation();
}

}  // namespace hlite::test
