#include "hugectr_lite/trainer/tune/search_space.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/support/catch.h"
#include "tests/support/small_config.h"

namespace hlite::test {
namespace {

using config::JsonNode;
using trainer::Axis;
using trainer::Point;
using trainer::SearchSpace;

SearchSpace space_of(const std::string& layers, const std::string& optimizer = "{}") {
  return SearchSpace(JsonNode::parse(
      R"({"optimizer": )" + optimizer + R"(, "layers": [)" + layers + "]}", "config.json"));
}

// {"learning_rate": {"optimizer.adam_hparam.learning_rate": 0.002}, ...}
std::map<std::string, std::map<std::string, double>> values_of(const SearchSpace& space) {
  std::map<std::string, std::map<std::string, double>> values;
  for (const Axis& axis : space.axes())
    values[axis.name] = {axis.values.begin(), axis.values.end()};
  return values;
}

using Values = std::map<std::string, double>;

constexpr const char* kLoss =
    R"(, {"type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"})";
// A layer of 16 that reads `bottom`, and the logit that reads `top`.
std::string tower(const std::string& between, const std::string& last) {
  return R"({"type": "InnerProduct", "bottom": "x", "top": "a", "fc_param": {"num_output": 16}}, )" +
         between + R"({"type": "InnerProduct", "bottom": ")" + last +
         R"(", "top": "z", "fc_param": {"num_output": 1}})" + kLoss;
}

}  // namespace

TEST_CASE("a search space has what a config has") {
  const SearchSpace space(JsonNode::parse(small_config(), "config.json"));
  const auto values = values_of(space);
  CHECK(values.size() == 3);  // the table has no penalty
  CHECK(values.at("learning_rate") ==
        Values{{"optimizer.momentum_sgd_hparam.learning_rate", 0.02},
               {"layers[1].optimizer.adam_hparam.learning_rate", 0.01}});
  CHECK(values.at("Dropout rate") == Values{{"layers[4].rate", 0.1}});
  // Interaction takes vectors as wide as the table's, and the loss takes one number.
  CHECK(values.at("widths") == Values{{"layers[5].fc_param.num_output", 16}});

  CHECK(space_of("").axes().empty());
  CHECK(values_of(space_of(R"({"sparse_embedding_hparam": {"regularizer": "L2", "lambda": 0.5}},
                              {"sparse_embedding_hparam": {"regularizer": "L2", "lambda": 0}})"))
            .at("lambda") == Values{{"layers[0].sparse_embedding_hparam.lambda", 0.5}});
}

TEST_CASE("a width is varied where all that read it take any") {
  const auto widths = [](const std::string& layers) {
    auto values = values_of(space_of(layers));
    return values.count("widths") ? values["widths"] : Values{};
  };
  const Values first = {{"layers[0].fc_param.num_output", 16}};
  CHECK(widths(tower("", "a")) == first);
  // Through layers that keep the width, also as a part of a concatenation.
  CHECK(widths(tower(R"({"type": "BatchNorm", "bottom": "a", "top": "n"},
                        {"type": "ReLU", "bottom": "n", "top": "r"},
                        {"type": "Concat", "bottom": ["r", "x"], "top": "c"}, )",
                     "c")) == first);
  // A sum of two tensors, a shape with numbers, and a second reader that is one of these.
  CHECK(widths(tower(R"({"type": "Add", "bottom": ["a", "x"], "top": "s"}, )", "s")).empty());
  CHECK(widths(tower(R"({"type": "Reshape", "bottom": "a", "top": "r", "leading_dim": 16}, )", "r"))
            .empty());
  CHECK(
      widths(
          tower(
              R"({"type": "Slice", "bottom": "a", "top": ["s", "t"], "ranges": [[0, 8], [8, 16]]}, )",
              "a"))
          .empty());
  CHECK(widths(tower(R"({"type": "ReLU", "bottom": "a", "top": "a"}, )", "q")).empty());
  // Of an MLP the last width only.
  const std::string mlp =
      R"({"type": "MLP", "bottom": "x", "top": "m", "mlp_param": {"num_outputs": [32, 8]}}, )";
  CHECK(widths(mlp + R"({"type": "Interaction", "bottom": ["m", "e"], "top": "i"})") ==
        Values{{"layers[0].mlp_param.num_outputs[0]", 32}});
  CHECK(widths(mlp +
               R"({"type": "MLP", "bottom": "m", "top": "z", "mlp_param": {"num_outputs": [1]}})" +
               kLoss) == Values{{"layers[0].mlp_param.num_outputs[0]", 32},
                                {"layers[0].mlp_param.num_outputs[1]", 8}});
}

TEST_CASE("points of a search space lie evenly in it") {
  const SearchSpace space = space_of(
      R"({"sparse_embedding_hparam": {"regularizer": "L2", "lambda": 0.5}},
         {"type": "Dropout", "bottom": "x", "top": "d", "rate": 0.3}, )" +
          tower("", "a"),
      R"({"adam_hparam": {"learning_rate": 0.002}})");
  REQUIRE(space.axes().size() == 4);
  constexpr int kPoints = 64, kParts = 8;
  for (size_t axis = 0; axis < 4; ++axis) {
    std::vector<int> in_part(kParts);
    for (int n = 1; n <= kPoints; ++n) {
      const double place = space.even(n)[axis];
      REQUIRE(place >= 0);
      REQUIRE(place < 1);
      ++in_part[static_cast<size_t>(place * kParts)];
    }
    for (const int count : in_part) CHECK(std::abs(count - kPoints / kParts) <= 4);
  }
  // Around a point, also where it lies at the end of an axis.
  const Point centre = {0, 0.5, 0.95, 0.3};
  const Point begin = {0, 0.25, 0.5, 0.05};
  for (int n = 1; n <= kPoints; ++n)
    for (size_t axis = 0; axis < 4; ++axis) {
      const double place = space.even_around(centre, n)[axis];
      CHECK(place >= begin[axis] - 1e-12);
      CHECK(place < begin[axis] + 0.5);
    }
}

TEST_CASE("a point says what the config gets") {
  const SearchSpace space = space_of(
      R"({"sparse_embedding_hparam": {"regularizer": "L2", "lambda": 0.5}},
         {"type": "Dropout", "bottom": "x", "top": "d", "rate": 0.25}, )" +
          tower("", "a"),
      R"({"adam_hparam": {"learning_rate": 0.002}})");
  // The config's own place: the factors are 1, and Dropout's rate is the nearest of those tried.
  CHECK(space.changes(space.own()) ==
        std::vector<std::string>{"optimizer.adam_hparam.learning_rate=0.002",
                                 "layers[0].sparse_embedding_hparam.lambda=0.5",
                                 "layers[1].rate=0.2", "layers[2].fc_param.num_output=16"});
  const std::vector<double> low(4, 0), high(4, 1);
  CHECK(space.changes(low) ==
        std::vector<std::string>{"optimizer.adam_hparam.learning_rate=0.0005",
                                 "layers[0].sparse_embedding_hparam.lambda=0.017",
                                 "layers[1].rate=0", "layers[2].fc_param.num_output=8"});
  CHECK(space.changes(high) ==
        std::vector<std::string>{"optimizer.adam_hparam.learning_rate=0.008",
                                 "layers[0].sparse_embedding_hparam.lambda=5", "layers[1].rate=0.5",
                                 "layers[2].fc_param.num_output=32"});
  CHECK(space.text(high) == "learning_rate 0.008, lambda 5, Dropout rate 0.5, widths x 2");
  // All values of a kind change together.
  const SearchSpace two(JsonNode::parse(small_config(), "config.json"));
  CHECK(two.text(Point(3, 0)) == "learning_rate x 0.25, Dropout rate 0, widths x 0.5");
}

TEST_CASE("a schedule is that of all learning rates") {
  // As the config of a run with decays, warm-up and cuts says it.
  std::string text = small_config();
  text.replace(text.find("\"end_lr\""), 0, R"("decay": "exponential", "decay_rate": 0.5, )");
  text.replace(text.find("\"snapshot\""), 0, R"("lr_plateau": {"factor": 0.1}, )");
  const SearchSpace space(JsonNode::parse(text, "config.json"));
  const Point point(3, 1);  // four times the rates
  CHECK(space.schedule(point, 100, 10) ==
        std::vector<std::string>{"optimizer.momentum_sgd_hparam.decay_rate=", "solver.lr_plateau=",
                                 "solver.max_iter=100",
                                 "optimizer.momentum_sgd_hparam.decay=polynomial",
                                 "optimizer.momentum_sgd_hparam.decay_start=20",  // after warm-up
                                 "optimizer.momentum_sgd_hparam.decay_steps=80",
                                 "optimizer.momentum_sgd_hparam.end_lr=0.0008",
                                 "layers[1].optimizer.adam_hparam.decay_start=10",
                                 "layers[1].optimizer.adam_hparam.decay_steps=90",
                                 "layers[1].optimizer.adam_hparam.end_lr=0.0004"});
}

}  // namespace hlite::test
