// Wiring, shapes, fusion, and what the network refuses.
#include "hugectr_lite/network/network.h"

#include <algorithm>

#include "tests/network/refusal.h"
#include "tests/support/errors.h"

namespace hlite::test {

TEST_CASE("a DLRM is wired, shaped and counted") {
  NetworkFixture f(kBottom + kInteraction + kTail,
                   {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}}, 2);
  CHECK(parameter_count(f.net()) == 5 * 4 + 4 + (4 + 6 + 1) + 1);
  CHECK(f.net().parameters()[2].name == "fz.weight");
  CHECK(f.net().parameters()[2].dims == network::Dims{11, 1});
  CHECK(f.net().input_grad(2) != plan::kNoBuffer);
  CHECK(f.net().input_grad(1) == plan::kNoBuffer);
}

TEST_CASE("a chain of inner products hands ReLU mask and bias gradient down") {
  NetworkFixture f(
      R"({"name":"a","type":"FusedInnerProduct","bottom":"dense","top":"ya","fc_param":{"num_output":4}},
         {"name":"b","type":"FusedInnerProduct","bottom":"ya","top":"x","fc_param":{"num_output":4}},)" +
          kInteraction + kTail,
      {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}}, 2);
  const auto& plan = f.train_plan();
  CHECK_THROWS_AS(plan.index_of("a.dbias"), Error);  // done by b.bprop
  CHECK(plan.index_of("b.dbias") > 0);               // the interaction does not do it
  const auto& step = plan.steps()[static_cast<size_t>(plan.index_of("b.bprop"))];
  CHECK(step.writes.size() == 2);
}

TEST_CASE("inputs that inner products alone read are padded when asked, to the same numbers") {
  const std::vector<NetworkFixture::Input> inputs = {
      {"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}};
  const std::string both = kBottom + kInteraction + kTail;
  NetworkFixture plain(both, inputs, 7), padded(both, inputs, 7, 2, true);
  CHECK_THROWS_AS(plain.train_plan().index_of("dense.pad"), Error);
  CHECK(padded.train_plan().index_of("dense.pad") < padded.train_plan().index_of("fx.fprop"));
  plain.train();
  padded.train();
  CHECK(padded.loss() == Approx(plain.loss()).epsilon(1e-6));
  const auto& parameters = plain.net().parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto want = plain.floats(parameters[i].buffers.grad);
    const auto got = padded.floats(padded.net().parameters()[i].buffers.grad);
    check_close(std::span<const float>(got), std::span<const float>(want), {1e-6, 1e-6},
                parameters[i].name.c_str());
  }
  // The rows of fx.weight beyond its five.
  const auto gradient = padded.floats(padded.net().parameters()[0].buffers.grad);
  REQUIRE(gradient.size() == 8 * 4);
  CHECK(std::all_of(gradient.begin() + 5 * 4, gradient.end(), [](float g) { return g == 0; }));

  // Another reader takes the tensor as it is, and eight columns need none.
  NetworkFixture shared(kBottom +
                            R"({"name":"i","type":"Interaction","bottom":["x","emb"],"top":"i"},
      {"name":"c","type":"Concat","bottom":["i","dense"],"top":"h"},)" +
                            kTail,
                        inputs, 2, 2, true);
  CHECK_THROWS_AS(shared.train_plan().index_of("dense.pad"), Error);
  NetworkFixture wide(both, {{"label", {1}}, {"dense", {8}}, {"emb", {3, 4}, true}}, 2, 2, true);
  CHECK_THROWS_AS(wide.train_plan().index_of("dense.pad"), Error);
}

TEST_CASE("a gradient that is not read costs no step") {
  NetworkFixture f(R"({"name":"r","type":"ReLU","bottom":"dense","top":"rd"},
      {"name":"d","type":"Dropout","bottom":"rd","top":"dd"},
      {"name":"c","type":"Concat","bottom":["emb2","dd"],"top":"h"},)" +
                       kTail,
                   {{"label", {1}}, {"dense", {5}}, {"emb2", {3}, true}}, 2);
  CHECK_THROWS_AS(f.train_plan().index_of("r.bprop"), Error);
  CHECK_THROWS_AS(f.train_plan().index_of("d.bprop"), Error);
  CHECK_THROWS_AS(f.train_plan().index_of("c.bprop1"), Error);
  CHECK(f.train_plan().index_of("c.bprop0") > f.train_plan().index_of("fz.bprop"));
}

TEST_CASE("a tensor with two readers gets the sum of their gradients") {
  NetworkFixture f(kBottom + R"({"name":"i","type":"Interaction","bottom":["x","emb"],"top":"i"},
      {"name":"c","type":"Concat","bottom":["i","x"],"top":"h"},)" +
                       kTail,
                   {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}}, 2);
  CHECK(f.train_plan().index_of("x.gsum") > f.train_plan().index_of("i.bprop"));
}

TEST_CASE("a tensor that no layer reads is a warning, and its gradient is zero") {
  // Two columns of three pieces are read; the other layers lead nowhere.
  NetworkFixture f(
      kBottom +
          R"({"name":"s","type":"Slice","bottom":"x","ranges":[[0,2],[2,4],[1,3]],"top":["s0","s1","s2"]},
             {"name":"u","type":"InnerProduct","bottom":"s1","top":"unused","fc_param":{"num_output":3}},
             {"name":"v","type":"Reshape","bottom":"s2","top":"view"},
             {"name":"c","type":"Concat","bottom":["s0"],"top":"h"},)" +
          kTail,
      {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}}, 3);
  const auto& warnings = f.net().warnings();
  REQUIRE(warnings.size() == 2);  // the fixture's inputs have no place in a config
  check_contains(warnings[0], {"layers[2].top", "tensor \"unused\" is not used by any layer"});
  check_contains(warnings[1], {"layers[3].top", "\"view\""});
  const std::vector<float> labels(f.input(0).begin(), f.input(0).end());
  for (int run = 0; run < 2; ++run)
    f.check_gradients([&](NetworkFixture& n) { return bce_of(n, labels); }, 1e-3f,
                      {.absolute = 1e-4, .relative = 2e-3});
  for (const float g : f.floats(f.net().input_grad(2))) CHECK(g == 0);
}

TEST_CASE("the second top of an interaction is a name for the layer that follows") {
  const std::string tops =
      R"({"name":"i","type":"Interaction","bottom":["x","emb"],"top":["h0","g"]},)";
  const std::vector<NetworkFixture::Input> inputs = {
      {"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}};
  const auto loss_with = [&](const std::string& top, const std::string& bottom) {
    NetworkFixture f(kBottom + R"({"name":"i","type":"Interaction","bottom":["x","emb"],"top":)" +
                         top + R"(},{"name":"m","type":"MLP","bottom":)" + bottom +
                         R"(,"top":"h","mlp_param":{"num_output":1,"num_outputs":[6,3]}},)" + kTail,
                     inputs, 4);
    CHECK(f.net().warnings().empty());
    f.train();
    const auto gradient = f.floats(f.net().input_grad(2));
    return std::vector<float>(gradient.begin(), gradient.end());
  };
  const auto plain = loss_with(R"("h0")", R"("h0")");
  CHECK(loss_with(R"(["h0","g"])", R"(["h0","g"])") == plain);
  CHECK(loss_with(R"(["h0","g"])", R"("h0")") == plain);  // no loss names it
  const NetworkFixture chain(
      kBottom + tops +
          R"({"name":"a","type":"FusedInnerProduct","position":"Head","bottom":["h0","g"],"top":["a","b","c","d"],"fc_param":{"num_output":4}},
             {"name":"e","type":"FusedInnerProduct","position":"Tail","bottom":["a","b","c","d"],"top":"h","fc_param":{"num_output":4}},)" +
          kTail,
      inputs, 2);
  CHECK(chain.train_plan().index_of("a.wgrad") > 0);
}

TEST_CASE("an inner product without a bias has weights alone") {
  NetworkFixture f(
      kBottom + kInteraction +
          R"({"name":"f","type":"FusedInnerProduct","bottom":"h","top":"r","fc_param":{"num_output":3,"use_bias":false}},
             {"name":"fz","type":"InnerProduct","bottom":"r","top":"z","fc_param":{"num_output":1,"use_bias":false}},
             {"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"})",
      {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}}, 2);
  std::vector<std::string> names;
  for (const auto& p : f.net().parameters()) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"fx.weight", "fx.bias", "f.weight", "fz.weight"});
  const std::vector<float> labels(f.input(0).begin(), f.input(0).end());
  f.check_gradients([&](NetworkFixture& n) { return bce_of(n, labels); }, 1e-3f,
                    {.absolute = 1e-4, .relative = 2e-3});
}

TEST_CASE("labels may be cut on their way to the loss") {
  const NetworkFixture f(
      kBottom + kInteraction +
          R"({"type":"Slice","bottom":"labels","top":"label","ranges":[[1,2]]},)" + kTail,
      {{"labels", {2}}, {"dense", {5}}, {"emb", {3, 4}, true}}, 2);
  CHECK(f.train_plan().index_of("loss.fbprop") > 0);
}

TEST_CASE("what is wired wrong is refused with path, expected and found") {
  check_refusals({
      {"no loss",
       kBottom + kInteraction +
           R"({"type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}})",
       {"layers", "loss", "found none"},
       false},
      {"two losses",
       kBottom + kInteraction + kTail +
           R"(,{"name":"l2","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"l2"})",
       {"layers[4]", "one loss"}},
      {"unknown tensor",
       kBottom + R"({"type":"Interaction","bottom":["x","emd"],"top":"h"},)" + kTail,
       {"layers[1].bottom[1]", "\"emd\"", "did you mean \"emb\""}},
      {"tensor made later", kInteraction + kBottom + kTail, {"layers[0].bottom[0]", "\"x\""}},
      {"tensor made twice", kBottom + kBottom + kInteraction + kTail, {"layers[1]", "fx"}},
      {"top of an input's name",
       R"({"type":"InnerProduct","bottom":"dense","top":"emb","fc_param":{"num_output":4}},)" +
           kTail,
       {"layers[0].top", "made twice", "input"}},
      {"labels as logits",
       kBottom + kInteraction +
           R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
              {"type":"BinaryCrossEntropyLoss","bottom":["label","z"],"top":"loss"})",
       {"layers[3].bottom[0]", "expected logits as the first bottom of a loss",
        "the labels \"label\"", "its second bottom"}},
      {"features as labels",
       kBottom + kInteraction +
           R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
              {"type":"ReLU","bottom":"z","top":"y"},
              {"type":"BinaryCrossEntropyLoss","bottom":["z","y"],"top":"loss"})",
       {"layers[4].bottom[1]", "expected labels as the second bottom of a loss, found \"y\""}},
      {"labels as a feature",
       kBottom + R"({"type":"Interaction","bottom":["x","emb"],"top":"i"},
              {"type":"Concat","bottom":["i","label"],"top":"h"},)" +
           kTail,
       {"layers[2].bottom[1]", "expected either labels or features", "\"label\""}},
      {"a layer that learns from labels",
       kBottom + kInteraction +
           R"({"type":"InnerProduct","bottom":"label","top":"l","fc_param":{"num_output":1}},)" +
           kTail,
       {"layers[2].bottom", "expected features, found the labels \"label\""}},
      {"the second top of an Interaction alone",
       kBottom + R"({"type":"Interaction","bottom":["x","emb"],"top":["h0","g"]},
              {"type":"MLP","bottom":["g","h0"],"top":"h","mlp_param":{"num_outputs":[3]}},)" +
           kTail,
       {"layers[2].bottom[0]", "\"g\""}},
      {"two bottoms of no Interaction",
       kBottom + R"({"type":"Interaction","bottom":["x","emb"],"top":"h0"},
              {"type":"MLP","bottom":["h0","x"],"top":"h","mlp_param":{"num_outputs":[3]}},)" +
           kTail,
       {"layers[2].bottom", "expected the two tops of one Interaction, in their order"}},
      {"three tops of an Interaction",
       kBottom + R"({"type":"Interaction","bottom":["x","emb"],"top":["h","g","f"]},)" + kTail,
       {"layers[1].top", "expected 1 top tensor, found 3"}},
      {"rows of a sample as logits",
       R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":4},)" + kTail,
       {"layers[2].bottom", "expected logits of shape [B,1]", "of shape [3 B,1]",
        "the whole width of a sample as leading_dim"}},
      {"layer name twice",
       kBottom + R"({"name":"fx","type":"Interaction","bottom":["x","emb"],"top":"h"},)" + kTail,
       {"layers[1].name", "fx", "layers[0]"}},
      {"misspelt type",
       R"({"type":"InnerProdukt","bottom":"dense","top":"x","fc_param":{"num_output":4}},)" +
           kInteraction + kTail,
       {"layers[0].type", "InnerProdukt", "did you mean \"InnerProduct\""}},
      {"misspelt hashed embedding",
       R"({"type":"LocalizedSlotSparseEmbeddingHush","bottom":"dense","top":"x"},)" + kInteraction +
           kTail,
       {"layers[0].type", "did you mean \"LocalizedSlotSparseEmbeddingHash\""}},
      {"known type",
       R"({"type":"CrossEntropyLoss","bottom":"dense","top":"x"},)" + kInteraction + kTail,
       {"layers[0].type", "CrossEntropyLoss", "not supported yet"}},
      {"unknown type",
       R"({"type":"Quux","bottom":"dense","top":"x"},)" + kInteraction + kTail,
       {"layers[0].type", "expected one of"}},
      {"bottom missing",
       R"({"type":"ReLU","top":"x"},)" + kInteraction + kTail,
       {"layers[0]", "bottom"}},
      {"bottom a number",
       R"({"type":"ReLU","bottom":3,"top":"x"},)" + kInteraction + kTail,
       {"layers[0].bottom", "3"}},
  });
}

}  // namespace hlite::test
