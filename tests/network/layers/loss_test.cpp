// Losses against their definitions: the penalty of BinaryCrossEntropyLoss, several tasks, squared
// error, and weights of samples.
#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "tests/network/layer_case.h"
#include "tests/support/errors.h"

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

TEST_CASE("the part of each sample in a loss is multiplied by its weight") {
  struct Loss {
    std::string block;
    int tasks;
  };
  for (const Loss& of :
       {Loss{R"("type":"BinaryCrossEntropyLoss")", 1}, Loss{R"("type":"MSELoss")", 1},
        Loss{R"("type":"MultiCrossEntropyLoss","target_weight":[0.5,2,1])", 3}}) {
    const std::string& block = of.block;
    const int tasks = of.tasks;
    INFO(block);
    NetworkFixture f(
        R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
            fc("c", "h", tasks) + R"(,{"type":"Tanh","bottom":"h","top":"z"},{)" + block +
            R"(,"bottom":["z","label"],"top":"loss"})",
        {{"label", {tasks}, false, true}, {"dense", {5}}, {"emb", {3, 4}, true}}, kBatch);
    const auto width = static_cast<size_t>(tasks) + 1;
    REQUIRE(f.input(0).size() == kBatch * width);
    for (size_t row = 0; row < kBatch; ++row)
      f.input(0)[row * width + width - 1] = 0.75f * static_cast<float>(row);  // the first: 0
    const auto loss = [&, squared = f.net().predicts_values()](NetworkFixture& g) {
      const auto z = g.floats(g.net().logits()), y = g.input(0);
      double sum = 0;
      for (size_t i = 0; i < z.size(); ++i) {
        const size_t row = i / static_cast<size_t>(tasks), t = i % static_cast<size_t>(tasks);
        const double x = z[i], label = y[row * width + t];
        const double w = 0.75 * static_cast<double>(row) *
                         (tasks == 1 ? 1
                          : t == 0   ? 0.5
                          : t == 1   ? 2
                                     : 1);
        sum += w * (squared ? (x - label) * (x - label)
                            : std::max(x, 0.0) - x * label + std::log1p(std::exp(-std::abs(x))));
      }
      return sum / static_cast<double>(z.size());
    };
    f.train();
    CHECK(f.loss() == Approx(loss(f)).epsilon(1e-6));
    check_gradients(f, loss);
  }
}

TEST_CASE("labels with a weight are read by the loss alone") {
  const auto refused = message_of<ConfigError>([] {
    NetworkFixture f(R"({"type":"Reshape","bottom":"label","top":"y","leading_dim":1},)" +
                         fc("dense", "z", 1) +
                         R"(,{"type":"BinaryCrossEntropyLoss","bottom":["z","y"],"top":"loss"})",
                     {{"label", {1}, false, true}, {"dense", {5}}}, kBatch);
  });
  check_contains(refused, {"layers[0].bottom", "sample_weight", "found Reshape"});
}

}  // namespace hlite::test
