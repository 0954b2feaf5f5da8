// The penalty of BinaryCrossEntropyLoss.
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

}  // namespace hlite::test
