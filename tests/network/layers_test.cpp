// Every layer of the registry: gradients by finite differences, and values where they are exact.
#include <algorithm>
#include <set>

#include "hugectr_lite/network/layer_registry.h"
#include "tests/network/network_fixture.h"

namespace hlite::test {
namespace {

constexpr int64_t kBatch = 7;

std::string fc(const std::string& bottom, const std::string& top, int out) {
  return R"({"type":"InnerProduct","bottom":")" + bottom + R"(","top":")" + top +
         R"(","fc_param":{"num_output":)" + std::to_string(out) + "}}";
}
const std::string kLoss =
    R"({"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"})";

struct Case {
  std::string type, layers, loss = kLoss;
};

// Inputs of every case: label [B,1], dense [B,5] (no gradient), emb [B,3,4] (gradient wanted).
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"InnerProduct",
       fc("dense", "h", 6) + R"(,{"type":"Reshape","bottom":"emb","top":"f","leading_dim":2},)" +
           fc("f", "g", 3) + "," + fc("emb", "k", 2) + "," + fc("k", "l", 5) +
           R"(,{"type":"Reshape","bottom":"g","top":"e","leading_dim":18},{"type":"Reshape","bottom":"l","top":"le"},
          {"type":"Concat","bottom":["h","e","le"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"FusedInnerProduct",
       R"({"name":"f1","type":"FusedInnerProduct","position":"Head","bottom":"dense","top":["a","am","ar","ab"],"fc_param":{"num_output":9}},
          {"name":"f2","type":"FusedInnerProduct","position":"Body","bottom":["a","am","ar","ab"],"top":["b","bm","br","bb"],"fc_param":{"num_output":5}},
          {"name":"f3","type":"FusedInnerProduct","position":"Tail","bottom":["b","bm","br","bb"],"top":"c","fc_param":{"num_output":4}},
          {"name":"i","type":"Interaction","bottom":["c","emb"],"top":"d"},
          {"name":"f4","type":"FusedInnerProduct","position":"Isolated","bottom":"d","top":"g","fc_param":{"num_output":3}},
          {"name":"f5","type":"FusedInnerProduct","bottom":"g","top":"z","activation":"None","fc_param":{"num_output":1}})"},
      {"ReLU",
       fc("dense", "h", 6) +
           R"(,{"type":"ReLU","bottom":"h","top":"r"},{"type":"ReLU","bottom":"emb","top":"er"},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["r","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"ELU", fc("dense", "h", 6) +
                  R"(,{"type":"ELU","bottom":"h","top":"r","elu_param":{"alpha":1.0}},
          {"type":"ELU","bottom":"emb","top":"er","elu_param":{"alpha":0.4}},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["r","e"],"top":"c"},)" +
                  fc("c", "z", 1)},
      {"Interaction", fc("dense", "h", 4) +
                          R"(,{"type":"Interaction","bottom":["h","emb"],"top":"i"},)" +
                          fc("i", "z", 1)},
      {"Concat",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"Reshape", R"({"type":"Reshape","bottom":"emb","top":"e","selected":[2,0]},)" +
                      fc("dense", "h", 8) + R"(,{"type":"Add","bottom":["e","h"],"top":"s"},)" +
                      fc("s", "z", 1)},
      {"Slice", R"({"type":"Reshape","bottom":"emb","top":"e","leading_dim":12},
          {"type":"Slice","bottom":"e","top":["p","q"],"ranges":[[0,7],[4,11]]},
          {"type":"Add","bottom":["p","q"],"top":"s"},{"type":"Concat","bottom":["s","dense"],"top":"c"},)" +
                    fc("c", "z", 1)},
      {"Dropout",
       fc("dense", "h", 6) +
           R"(,{"type":"Dropout","bottom":"h","top":"r","rate":0.3},{"type":"Dropout","bottom":"emb","top":"er"},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["r","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"Cast",
       fc("dense", "h", 4) +
           R"(,{"type":"Cast","bottom":"h","top":"k"},{"type":"Cast","bottom":"emb","top":"ek"},
          {"type":"Interaction","bottom":["k","ek"],"top":"i"},)" +
           fc("i", "z", 1)},
      {"Add",
       fc("dense", "h", 12) +
           R"(,{"type":"Reshape","bottom":"emb","top":"e"},{"type":"Add","bottom":["h","e","h"],"top":"s"},)" +
           fc("s", "z", 1)},
      {"Sub",
       fc("dense", "h", 12) +
           R"(,{"type":"Reshape","bottom":"emb","top":"e"},{"type":"Sub","bottom":["h","e"],"top":"s"},)" +
           fc("s", "z", 1)},
      {"ElementwiseMultiply",
       fc("dense", "h", 12) +
           R"(,{"type":"Reshape","bottom":"emb","top":"e"},{"type":"ElementwiseMultiply","bottom":["h","e","h"],"top":"s"},)" +
           fc("s", "z", 1)},
      {"DotProduct", R"({"type":"Slice","bottom":"emb","top":["p","q"],"ranges":[[0,3],[1,4]]},
          {"type":"DotProduct","bottom":["p","q"],"top":"m"},{"type":"Reshape","bottom":"m","top":"e"},
          {"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
                         fc("c", "z", 1)},
      {"ReduceSum",
       R"({"type":"ReduceSum","bottom":"emb","axis":1,"top":"v"},{"type":"ReduceSum","bottom":"emb","axis":2,"top":"s"},
          {"type":"Reshape","bottom":"v","top":"ve"},{"type":"Reshape","bottom":"s","top":"se"},
          {"type":"Concat","bottom":["ve","se","dense"],"top":"c"},)" +
           fc("c", "h", 9) + R"(,{"type":"ReduceSum","bottom":"h","axis":1,"top":"z"})"},
      {"ReduceMean",
       R"({"type":"Reshape","bottom":"emb","top":"f","leading_dim":2},{"type":"ReduceMean","bottom":"f","axis":1,"top":"m"},
          {"type":"Reshape","bottom":"m","top":"e"},{"type":"ReduceMean","bottom":"emb","axis":1,"top":"v"},
          {"type":"Reshape","bottom":"v","top":"ve"},{"type":"Concat","bottom":["e","ve","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"WeightMultiply",
       R"({"type":"WeightMultiply","bottom":"dense","top":"w","weight_dims":[5,3]},)" +
           fc("w", "h", 4) +
           R"(,{"name":"m2","type":"WeightMultiply","bottom":"h","top":"w2","weight_dims":[4,2]},
          {"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["w2","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"Multiply",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},
          {"type":"Multiply","bottom":"c","top":"w","weight_dims":[17,1]},)" +
           fc("w", "z", 1)},
      {"FmOrder2",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"FmOrder2","bottom":"e","top":"m","out_dim":4},
          {"type":"FmOrder2","bottom":"e","top":"n","out_dim":2},{"type":"Concat","bottom":["m","n","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"Sigmoid",
       fc("dense", "h", 6) +
           R"(,{"type":"Sigmoid","bottom":"h","top":"r"},{"type":"Sigmoid","bottom":"emb","top":"er"},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["r","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"Tanh",
       fc("dense", "h", 6) +
           R"(,{"type":"Tanh","bottom":"h","top":"r"},{"type":"Tanh","bottom":"emb","top":"er"},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["r","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"MultiCross",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},
          {"name":"v1","type":"MultiCross","bottom":"c","top":"x1","mc_param":{"num_layers":1}},
          {"name":"v3","type":"MultiCross","bottom":"c","top":"x2","mc_param":{"num_layers":3}},
          {"name":"r1","type":"MultiCross","bottom":"c","top":"x3","mc_param":{"num_layers":1,"projection_dim":3}},
          {"name":"r3","type":"MultiCross","bottom":"c","top":"x4","mc_param":{"num_layers":3,"projection_dim":2}},
          {"name":"n1","type":"MultiCross","bottom":"dense","top":"x5","mc_param":{"num_layers":2,"projection_dim":2}},
          {"name":"n2","type":"MultiCross","bottom":"dense","top":"x6","mc_param":{"num_layers":2}},
          {"type":"Concat","bottom":["x1","x2","x3","x4","x5","x6"],"top":"all"},)" +
           fc("all", "z", 1)},
      {"BatchNorm",
       fc("dense", "h", 6) +
           R"(,{"type":"BatchNorm","bottom":"h","top":"n","bn_param":{"factor":0.1,"eps":0.05}},
          {"type":"Reshape","bottom":"emb","top":"f","leading_dim":4},
          {"name":"bn2","type":"BatchNorm","bottom":"f","top":"fn","bn_param":{"factor":1,"eps":0.05,"gamma_init":"XavierNorm","beta_init":"Uniform"}},
          {"type":"Reshape","bottom":"fn","top":"e","leading_dim":12},
          {"name":"bn3","type":"BatchNorm","bottom":"dense","top":"d","bn_param":{"factor":1,"eps":0.1}},
          {"type":"Concat","bottom":["n","e","d"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"LayerNorm", fc("dense", "h", 6) +
                        R"(,{"type":"LayerNorm","bottom":"h","top":"n","ln_param":{"eps":0.05}},
          {"name":"ln2","type":"LayerNorm","bottom":"emb","top":"ne","ln_param":{"eps":0.05,"gamma_init":"XavierNorm"}},
          {"type":"Reshape","bottom":"ne","top":"e"},
          {"name":"ln3","type":"LayerNorm","bottom":"dense","top":"d","ln_param":{"eps":0.1}},
          {"type":"Concat","bottom":["n","e","d"],"top":"c"},)" +
                        fc("c", "z", 1)},
      {"Softmax", fc("dense", "h", 12) +
                      R"(,{"type":"Reshape","bottom":"h","top":"m","leading_dim":4,"time_step":3},
          {"name":"s1","type":"Softmax","bottom":"h","top":"a","factor":2.0},
          {"name":"s2","type":"Softmax","bottom":["emb","m"],"top":"b"},
          {"type":"Reshape","bottom":"b","top":"e"},{"type":"Concat","bottom":["a","e"],"top":"c"},)" +
                      fc("c", "z", 1)},
      {"Scale",
       fc("dense", "h", 4) +
           R"(,{"name":"s1","type":"Scale","bottom":"h","top":"a","scale_param":{"axis":0,"factor":3}},
          {"name":"s2","type":"Scale","bottom":"h","top":"b","scale_param":{"axis":1,"factor":3}},
          {"type":"Reshape","bottom":"emb","top":"f","leading_dim":4},
          {"type":"ElementwiseMultiply","bottom":["f","b"],"top":"p"},
          {"name":"s3","type":"Scale","bottom":"f","top":"g","scale_param":{"axis":1,"factor":2}},
          {"name":"s4","type":"Scale","bottom":"f","top":"k","scale_param":{"axis":0,"factor":2}},
          {"type":"Reshape","bottom":"p","top":"pe","leading_dim":12},{"type":"Reshape","bottom":"g","top":"ge","leading_dim":24},
          {"type":"Reshape","bottom":"k","top":"ke","leading_dim":24},
          {"type":"Concat","bottom":["a","pe","ge","ke"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"PReLU_Dice",
       fc("dense", "h", 6) +
           R"(,{"type":"PReLU_Dice","bottom":"h","top":"n","prelu_dice_param":{"alpha":0.2,"epsilon":0.05}},
          {"type":"Reshape","bottom":"emb","top":"f","leading_dim":4},
          {"name":"d2","type":"PReLU_Dice","bottom":"f","top":"fn","prelu_dice_param":{"elu_alpha":-0.5,"eps":0.1}},
          {"type":"Reshape","bottom":"fn","top":"e","leading_dim":12},{"type":"Concat","bottom":["n","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"FusedReshapeConcat",
       R"({"type":"Slice","bottom":"emb","top":["p","q"],"ranges":[[0,3],[1,4]]},
          {"type":"FusedReshapeConcat","bottom":["emb","p","q"],"top":["items","target"]},
          {"type":"Reshape","bottom":"items","top":"e","leading_dim":20},
          {"type":"Concat","bottom":["e","target","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"MultiCrossEntropyLoss",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
           fc("c", "z", 1),
       R"({"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[1]})"},
      {"BinaryCrossEntropyLoss",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
  };
  return list;
}

NetworkFixture make(const std::string& layers, const std::string& loss = kLoss) {
  return NetworkFixture(layers + "," + loss,
                        {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}}, kBatch);
}

}  // namespace

TEST_CASE("the cases cover every registered layer") {
  std::set<std::string> covered;
  for (const Case& c : cases()) covered.insert(c.type);
  const auto types = network::layer_types();
  CHECK(covered == std::set<std::string>(types.begin(), types.end()));
}

TEST_CASE("every layer's gradients agree with finite differences") {
  for (const Case& c : cases()) {
    INFO(c.type);
    auto f = make(c.layers, c.loss);
    // Logits carry 6e-8 relative noise; over 2e-3 that is 3e-5 in a difference.
    f.check_gradients([](NetworkFixture& g) { return bce_of(g, g.input(0)); }, 1e-3f,
                      {.absolute = 1e-4, .relative = 2e-3});
  }
}

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
    f.check_gradients([&](NetworkFixture& g) { return bce_of(g, g.input(0)) + penalty(g); }, 1e-3f,
                      {.absolute = 1e-4, .relative = 2e-3});
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
  f.check_gradients(loss, 1e-3f, {.absolute = 1e-4, .relative = 2e-3});
}

TEST_CASE("layers that move data move it exactly") {
  auto f = make(R"({"type":"Reshape","bottom":"emb","top":"e","selected":[2,0]},
      {"type":"Concat","bottom":["e","dense"],"top":"c"},
      {"type":"Slice","bottom":"c","top":["p","q"],"ranges":[[1,4],[3,13]]},
      {"type":"Concat","bottom":["p","q"],"top":"all"},)" +
                fc("all", "z", 1));
  f.evaluate();
  const auto emb = f.input(2), dense = f.input(1), all = f.tensor("all");
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<float> c;
    for (const size_t slot : {2u, 0u})
      for (size_t v = 0; v < 4; ++v) c.push_back(emb[(b * 3 + slot) * 4 + v]);
    for (size_t v = 0; v < 5; ++v) c.push_back(dense[b * 5 + v]);
    std::vector<float> want(c.begin() + 1, c.begin() + 4);
    want.insert(want.end(), c.begin() + 3, c.begin() + 13);
    CHECK(std::equal(want.begin(), want.end(), all.begin() + static_cast<std::ptrdiff_t>(b * 13)));
  }
}

// DeepFM's way: a vector and a weight of each slot, apart.
TEST_CASE("rows that are more than the batch, and dimensions beyond two, move exactly") {
  auto f = make(R"({"type":"Reshape","bottom":"emb","top":"rows","leading_dim":4},
      {"type":"Slice","bottom":"rows","top":["v","w"],"ranges":[[0,3],[3,4]]},
      {"type":"Reshape","bottom":"v","top":"vectors","leading_dim":9},
      {"type":"Reshape","bottom":"w","top":"weights","leading_dim":3},
      {"type":"Concat","bottom":["w","v"],"top":"turned"},
      {"type":"Reshape","bottom":"turned","top":"cube","leading_dim":4,"time_step":3},
      {"type":"Concat","bottom":["cube","emb"],"axis":2,"top":"wide"},
      {"type":"Concat","bottom":["cube","emb"],"top":"long"},
      {"type":"Reshape","bottom":"wide","top":"flat_wide"},{"type":"Reshape","bottom":"long","top":"flat_long"},
      {"type":"Concat","bottom":["vectors","weights","flat_wide","flat_long","dense"],"top":"c"},)" +
                fc("c", "z", 1));
  f.evaluate();
  const auto emb = f.input(2), vectors = f.tensor("vectors"), weights = f.tensor("weights");
  const auto wide = f.tensor("wide"), tall = f.tensor("long");
  for (size_t row = 0; row < size_t{kBatch} * 3; ++row) {
    const float* const e = &emb[row * 4];
    const std::vector<float> turned = {e[3], e[0], e[1], e[2]};
    CHECK(weights[row] == e[3]);
    CHECK(std::equal(e, e + 3, &vectors[row * 3]));
    CHECK(std::equal(turned.begin(), turned.end(), &wide[row * 8]));
    CHECK(std::equal(e, e + 4, &wide[row * 8 + 4]));
    const size_t sample = row / 3, slot = row % 3;
    CHECK(std::equal(turned.begin(), turned.end(), &tall[(sample * 6 + slot) * 4]));
    CHECK(std::equal(e, e + 4, &tall[(sample * 6 + 3 + slot) * 4]));
  }
  f.check_gradients([](NetworkFixture& g) { return bce_of(g, g.input(0)); }, 1e-3f,
                    {.absolute = 1e-4, .relative = 2e-3});
}

TEST_CASE("the last slot is cut off from those before it, and rows and numbers repeat") {
  auto f = make(R"({"type":"Slice","bottom":"emb","top":["p","q"],"ranges":[[0,1],[1,4]]},
      {"type":"FusedReshapeConcat","bottom":["q","p"],"top":["items","target"]},
      {"name":"s0","type":"Scale","bottom":"target","top":"t0","scale_param":{"axis":0,"factor":2}},
      {"name":"s1","type":"Scale","bottom":"target","top":"t1","scale_param":{"axis":1,"factor":2}},
      {"type":"Reshape","bottom":"items","top":"e","leading_dim":8},{"type":"Reshape","bottom":"t1","top":"e1","leading_dim":8},
      {"type":"Concat","bottom":["e","t0","e1","dense"],"top":"c"},)" +
                fc("c", "z", 1));
  f.evaluate();
  const auto emb = f.input(2), items = f.tensor("items"), target = f.tensor("target");
  const auto numbers = f.tensor("t0"), rows = f.tensor("t1");
  for (size_t b = 0; b < kBatch; ++b)
    for (size_t slot = 0; slot < 3; ++slot) {
      const float* const e = &emb[(b * 3 + slot) * 4];
      const std::vector<float> turned = {e[1], e[2], e[3], e[0]};
      const float* const got = slot < 2 ? &items[(b * 2 + slot) * 4] : &target[b * 4];
      CHECK(std::equal(turned.begin(), turned.end(), got));
      if (slot < 2) continue;
      for (size_t i = 0; i < 8; ++i) {
        CHECK(numbers[b * 8 + i] == turned[i / 2]);
        CHECK(rows[b * 8 + i] == turned[i % 4]);
      }
    }
}

TEST_CASE("a product has the right gradient where it is 0") {
  auto f = make(fc("dense", "h", 12) + R"(,{"type":"Reshape","bottom":"emb","top":"e"},
      {"type":"ElementwiseMultiply","bottom":["h","e"],"top":"s"},)" +
                fc("s", "z", 1));
  for (size_t i = 0; i < f.input(2).size(); i += 2) f.input(2)[i] = 0;
  f.train();
  const auto gradient = f.floats(f.net().input_grad(2));
  for (size_t i = 0; i < gradient.size(); i += 2) CHECK(gradient[i] != 0);
  f.check_gradients([](NetworkFixture& g) { return bce_of(g, g.input(0)); }, 1e-3f,
                    {.absolute = 1e-4, .relative = 2e-3});
}

TEST_CASE("dropout scales what it keeps, changes with the step, and copies in evaluation") {
  auto f = make(
      R"({"type":"Dropout","bottom":"emb","top":"d","rate":0.25},{"type":"Reshape","bottom":"d","top":"e"},
      {"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
      fc("c", "z", 1));
  f.train();
  const auto emb = f.input(2), d = f.tensor("d");
  const std::vector<float> first(d.begin(), d.end());
  size_t kept = 0;
  for (size_t i = 0; i < emb.size(); ++i) {
    const bool drop = d[i] == 0;
    kept += !drop;
    if (!drop) CHECK(d[i] == Approx(emb[i] / 0.75f).epsilon(1e-6));
  }
  CHECK(kept > emb.size() / 2);
  CHECK(kept < emb.size());
  f.train();
  CHECK(std::equal(first.begin(), first.end(), f.tensor("d").begin()));  // the same step
  f.evaluate();
  CHECK(std::equal(emb.begin(), emb.end(), f.tensor("d").begin()));
}

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

TEST_CASE("results do not depend on scheduling, and repeat") {
  for (const Case& c : cases()) {
    auto a = make(c.layers, c.loss), b = make(c.layers, c.loss);
    a.train();
    b.train();
    b.train();
    const auto ga = a.floats(a.net().gradient_buffer()), gb = b.floats(b.net().gradient_buffer());
    CHECK(std::equal(ga.begin(), ga.end(), gb.begin(), gb.end()));
  }
}

}  // namespace hlite::test
