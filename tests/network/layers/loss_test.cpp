// Losses against their definitions: the penalty of BinaryCrossEntropyLoss, several tasks, squared
// error, weights of samples, and scores that begin at a base.
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

// With x of the layer below: the score of cross-entropy is p with p / (1 - p) = b / (1 - b) e^x, and
// that of MSELoss b + s x, whose gradient is that of ((b + s x - y) / s)^2.
TEST_CASE("scores begin at the base score, and values are in units of the score scale") {
  const std::string below =
      R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
      fc("c", "h", 1) + R"(,{"type":"Tanh","bottom":"h","top":"x"},)";
  const auto loss = [](const std::string& type, const std::string& keys) {
    return fmt::format(R"({{"type":"{}","bottom":["x","label"],"top":"loss"{}}})", type, keys);
  };
  const auto fixture = [&](const std::string& block) {
    return NetworkFixture(below + block, {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}},
                          kBatch);
  };
  for (const double base : {0.03, 0.5, 0.999}) {
    INFO("base " << base);
    auto f = fixture(loss("BinaryCrossEntropyLoss", fmt::format(R"(,"base_score":{})", base)));
    const auto probability = [base](double x) {
      return base * std::exp(x) / (1 - base + base * std::exp(x));
    };
    const auto mean = [&](NetworkFixture& g) {
      double sum = 0;
      for (size_t i = 0; i < kBatch; ++i) {
        const double p = probability(static_cast<double>(g.tensor("x")[i]));
        sum -= g.input(0)[i] == 1 ? std::log(p) : std::log(1 - p);
      }
      return sum / kBatch;
    };
    f.train();
    CHECK(f.loss() == Approx(mean(f)).epsilon(1e-6));
    check_gradients(f, mean);
    f.evaluate();
    CHECK(f.loss() == Approx(mean(f)).epsilon(1e-6));
    for (size_t i = 0; i < kBatch; ++i)
      CHECK(1 / (1 + std::exp(-static_cast<double>(f.floats(f.net().logits())[i]))) ==
            Approx(probability(static_cast<double>(f.tensor("x")[i]))).epsilon(1e-6));
  }
  for (const auto& [base, scale] : {std::pair(3.5, 0.25), {-700.0, 40.0}, {0.0, 3.0}, {2.0, 1.0}}) {
    INFO("base " << base << ", scale " << scale);
    auto f =
        fixture(loss("MSELoss", fmt::format(R"(,"base_score":{},"score_scale":{})", base, scale)));
    for (size_t i = 0; i < kBatch; ++i)
      f.input(0)[i] = static_cast<float>(base + scale * (static_cast<double>(i) / 3 - 1));
    const auto squares = [base = base, scale = scale](NetworkFixture& g) {
      double sum = 0;
      for (size_t i = 0; i < kBatch; ++i) {
        const double score = base + scale * static_cast<double>(g.tensor("x")[i]);
        sum += std::pow(score - static_cast<double>(g.input(0)[i]), 2);
      }
      return sum / kBatch;
    };
    f.train();
    CHECK(f.loss() == Approx(squares(f)).epsilon(1e-4));
    check_gradients(f, [&](NetworkFixture& g) { return squares(g) / (scale * scale); });
    for (size_t i = 0; i < kBatch; ++i)
      CHECK(f.floats(f.net().logits())[i] ==
            Approx(base + scale * static_cast<double>(f.tensor("x")[i])).epsilon(1e-6));
  }
  // The defaults have no step of their own.
  for (const char* type : {"BinaryCrossEntropyLoss", "MSELoss"}) {
    const std::string bce = R"(,"base_score":0.5)", mse = R"(,"base_score":0,"score_scale":1)";
    const auto plain = fixture(loss(type, ""));
    const auto same = fixture(loss(type, std::string(type) == "MSELoss" ? mse : bce));
    CHECK(same.train_plan().steps().size() == plain.train_plan().steps().size());
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
