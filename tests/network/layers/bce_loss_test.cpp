// The penalty of BinaryCrossEntropyLoss, and several tasks, against their definitions.
#include <algorithm>

#include "tests/network/layer_case.h"

namespace hlite::test {

TEST_CASE("a regularizer adds its penalty to the loss and to every dense gradient") {
  for (const bool l1 : {true, false}) {
    const std::string loss =
        std::string(
            R"({"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","regularizer":")") +
        (l1 ? "L1" : "L2") + R"(","lambda":0.5})";
    const std::string layers =
        R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
        fc("c", "z", 1);
    auto f = make(layers, loss);
    const auto penalty = [l1](NetworkFixture& g) {
      double sum = 0;
      for (const auto& p : g.net().parameters())
        for (const float w : g.floats(p.buffers.value)) sum += l1 ? std::abs(w) : 0.5 * w * w;
      return 0.5 * sum;
    };
    f.train();
    CHECK(f.loss() == Approx(bce_of(f, f.input(0)) + penalty(f)).epsilon(1e-6));
    check_gradients(f, [&](NetworkFixture& g) { return bce_of(g, g.input(0)) + penalty(g); });
  }
}

TEST_CASE("a loss of several tasks is that of each, weighted, without absent labels") {
  NetworkFixture f(
      R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
          fc("c", "h", 3) + R"(,{"type":"Tanh","bottom":"h","top":"z"},
      {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[0.5,2,1]})",
      {{"label", {3}}, {"dense", {5}}, {"emb", {3, 4}, true}}, kBatch);
  CHECK(f.net().tasks() == 3);
  for (size_t i = 0; i < f.input(0).size(); i += 4) f.input(0)[i] = -1;
  const auto loss = [](NetworkFixture& g) {
    const auto z = g.floats(g.net().logits()), y = g.input(0);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double x = z[i], w = i % 3 == 0 ? 0.5 : i % 3 == 1 ? 2 : 1;
      if (y[i] >= 0) sum += w * (std::max(x, 0.0) - x * y[i] + std::log1p(std::exp(-std::abs(x))));
    }
    return sum / static_cast<double>(y.size());
  };
  f.train();
  CHECK(f.loss() == Approx(loss(f)).epsilon(1e-6));
  check_gradients(f, loss);
}

}  // namespace hlite::test
