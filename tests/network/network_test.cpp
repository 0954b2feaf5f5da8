// Wiring, shapes, fusion, and what the network refuses.
#include "hugectr_lite/network/network.h"

#include <algorithm>

#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/layer_registry.h"
#include "tests/network/network_fixture.h"

namespace hlite::test {
namespace {

const std::string kTail =
    R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
  {"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"})";
const std::string kInteraction =
    R"({"name":"i","type":"Interaction","bottom":["x","emb"],"top":"h"},)";
const std::string kBottom =
    R"({"name":"fx","type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":4}},)";

std::string refused(const std::string& layers) {
  try {
    NetworkFixture f(layers, {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}}, 2);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "accepted";
}

struct Refusal {
  const char* what;
  std::string layers;
  std::vector<std::string> says;
  bool located = true;  // the message starts with file and line
};

}  // namespace

TEST_CASE("a DLRM is wired, shaped and counted") {
  NetworkFixture f(kBottom + kInteraction + kTail,
                   {{"label", {1}}, {"dense", {5}}, {"emb", {3, 4}, true}}, 2);
  CHECK(f.net().parameter_count() == 5 * 4 + 4 + (4 + 6 + 1) + 1);
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

TEST_CASE("a gradient that nobody reads costs no step") {
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

TEST_CASE("what does not fit together is refused with path, expected and found") {
  const std::vector<Refusal> list = {
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
      {"unused tensor",
       kBottom + R"({"name":"u","type":"ReLU","bottom":"x","top":"unused"},)" + kInteraction +
           kTail,
       {"layers[1].top", "\"unused\"", "not used"}},
      {"unused input",
       R"({"type":"InnerProduct","bottom":"dense","top":"h","fc_param":{"num_output":4}},)" + kTail,
       {"\"emb\"", "not used"},
       false},
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
      {"no bn_param",
       R"({"type":"BatchNorm","bottom":"dense","top":"x"},)" + kInteraction + kTail,
       {"layers[0]", "bn_param"}},
      {"a factor beyond 1",
       R"({"type":"BatchNorm","bottom":"dense","top":"x","bn_param":{"factor":1.5,"eps":1e-5}},)" +
           kInteraction + kTail,
       {"layers[0].bn_param.factor", "[0, 1]", "1.5"}},
      {"an eps of 0",
       R"({"type":"BatchNorm","bottom":"dense","top":"x","bn_param":{"factor":1,"eps":0}},)" +
           kInteraction + kTail,
       {"layers[0].bn_param.eps", "found 0"}},
      {"an initializer that is none",
       R"({"type":"BatchNorm","bottom":"dense","top":"x",
           "bn_param":{"factor":1,"eps":1e-5,"gamma_init":"One"}},)" +
           kInteraction + kTail,
       {"layers[0].bn_param.gamma_init", "One"}},
      {"a softmax of two shapes",
       R"({"type":"Softmax","bottom":["emb","dense"],"top":"x"},)" + kInteraction + kTail,
       {"layers[0].bottom", "equal shapes", "[B,5]"}},
      {"a softmax of three",
       R"({"type":"Softmax","bottom":["dense","dense","dense"],"top":"x"},)" + kInteraction + kTail,
       {"layers[0].bottom", "1 bottom", "found 3"}},
      {"a scale along another axis",
       R"({"type":"Scale","bottom":"dense","top":"x","scale_param":{"axis":2,"factor":3}},)" +
           kInteraction + kTail,
       {"layers[0].scale_param.axis", "[0, 1]", "found 2"}},
      {"a scale of vectors",
       R"({"type":"Scale","bottom":"emb","top":"x","scale_param":{"axis":1,"factor":3}},)" +
           kInteraction + kTail,
       {"layers[0].bottom", "[B,3,4]"}},
      {"both names of a parameter",
       R"({"type":"PReLU_Dice","bottom":"dense","top":"x",
           "prelu_dice_param":{"alpha":1,"elu_alpha":1,"eps":0.1}},)" +
           kInteraction + kTail,
       {"layers[0].prelu_dice_param.elu_alpha", "either alpha or elu_alpha"}},
      {"dice without epsilon",
       R"({"type":"PReLU_Dice","bottom":"dense","top":"x","prelu_dice_param":{"alpha":1}},)" +
           kInteraction + kTail,
       {"layers[0].prelu_dice_param", "epsilon"}},
      {"no ln_param",
       R"({"type":"LayerNorm","bottom":"dense","top":"x"},)" + kInteraction + kTail,
       {"layers[0]", "ln_param"}},
      {"an eps below 0",
       R"({"type":"LayerNorm","bottom":"dense","top":"x","ln_param":{"eps":-1}},)" + kInteraction +
           kTail,
       {"layers[0].ln_param.eps", "found -1"}},
      {"slots joined with columns",
       R"({"type":"FusedReshapeConcat","bottom":["emb","dense"],"top":["x","y"]},)" + kInteraction +
           kTail,
       {"layers[0].bottom", "dense"}},
      {"slots joined into one",
       R"({"type":"FusedReshapeConcat","bottom":["emb"],"top":["x"]},)" + kInteraction + kTail,
       {"layers[0].top", "2 top"}},
      {"columns of three dimensions",
       R"({"type":"BatchNorm","bottom":"emb","top":"x","bn_param":{"factor":1,"eps":1e-5}},)" +
           kInteraction + kTail,
       {"layers[0].bottom", "1 dimensions", "[B,3,4]"}},
      {"cross layers of 3-D",
       R"({"type":"MultiCross","bottom":"emb","top":"h","mc_param":{"num_layers":2}},)" + kTail,
       {"layers[0].bottom", "1 dimensions", "[B,3,4]"}},
      {"no cross layers",
       R"({"type":"MultiCross","bottom":"dense","top":"h","mc_param":{"num_layers":0}},)" + kTail,
       {"layers[0].mc_param.num_layers", "found 0"}},
      {"cross layers without their block",
       R"({"type":"MultiCross","bottom":"dense","top":"h"},)" + kTail,
       {"layers[0]", "mc_param"}},
      {"projection_dim",
       R"({"type":"MultiCross","bottom":"dense","top":"h","mc_param":{"num_layers":2,"projection_dim":-1}},)" +
           kTail,
       {"layers[0].mc_param.projection_dim", "found -1"}},
      {"unknown type",
       R"({"type":"Quux","bottom":"dense","top":"x"},)" + kInteraction + kTail,
       {"layers[0].type", "expected one of"}},
      {"interaction widths",
       R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":5}},)" +
           kInteraction + kTail,
       {"layers[1].bottom", "(4)", "found 5"}},
      {"interaction of 2-D",
       kBottom + R"({"type":"Interaction","bottom":["x","dense"],"top":"h"},)" + kTail,
       {"layers[1].bottom", "2 dimensions", "[B,5]"}},
      {"inner product of 3-D, whose logits are a list",
       R"({"type":"InnerProduct","bottom":"emb","top":"h","fc_param":{"num_output":4}},)" + kTail,
       {"layers[2].bottom", "logits of shape [B,1]", "[B,3,1]"}},
      {"no weight for each task",
       R"({"type":"InnerProduct","bottom":"dense","top":"z","fc_param":{"num_output":2}},
          {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss"})",
       {"layers[1]", "target_weight"}},
      {"more weights than logits",
       R"({"type":"InnerProduct","bottom":"dense","top":"z","fc_param":{"num_output":2}},
          {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[1,1,1]})",
       {"layers[1].bottom", "logits of shape [B,3]", "[B,2]"}},
      {"more labels than weights",
       R"({"type":"InnerProduct","bottom":"dense","top":"z","fc_param":{"num_output":2}},
          {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[1,1]})",
       {"layers[1].bottom", "labels of shape [B,2]", "[B,1]"}},
      {"a weight below 0",
       R"({"type":"InnerProduct","bottom":"dense","top":"z","fc_param":{"num_output":1}},
          {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[-1]})",
       {"layers[1].target_weight[0]", "numbers >= 0", "-1"}},
      {"num_output 0",
       R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":0}},)" +
           kInteraction + kTail,
       {"layers[0].fc_param.num_output", "[1,", "found 0"}},
      {"num_output missing",
       R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{}},)" + kInteraction +
           kTail,
       {"layers[0].fc_param", "num_output"}},
      {"unknown key",
       R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":4,"num_outputs":4}},)" +
           kInteraction + kTail,
       {"layers[0].fc_param.num_outputs", "did you mean \"num_output\""}},
      {"initialiser",
       R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":4,"weight_init":"Xavier"}},)" +
           kInteraction + kTail,
       {"layers[0].fc_param.weight_init", "Xavier"}},
      {"position",
       R"({"type":"FusedInnerProduct","position":"Neck","bottom":"dense","top":"x","fc_param":{"num_output":4}},)" +
           kInteraction + kTail,
       {"layers[0].position", "Neck"}},
      {"head with one top",
       R"({"type":"FusedInnerProduct","position":"Head","bottom":"dense","top":"x","fc_param":{"num_output":4}},)" +
           kInteraction + kTail,
       {"layers[0].top", "4 top tensors", "found 1"}},
      {"body without head",
       R"({"type":"FusedInnerProduct","position":"Tail","bottom":["dense","a","b","c"],"top":"x","fc_param":{"num_output":4}},)" +
           kInteraction + kTail,
       {"layers[0].bottom", "Head or Body"}},
      {"head without tail",
       R"({"type":"FusedInnerProduct","position":"Head","bottom":"dense","top":["x","a","b","c"],"fc_param":{"num_output":4}},)" +
           kInteraction + kTail,
       {"layers[0].top", "Body or Tail"}},
      {"head without ReLU",
       R"({"type":"FusedInnerProduct","position":"Head","activation":"None","bottom":"dense","top":["x","a","b","c"],"fc_param":{"num_output":4}},)" +
           kInteraction + kTail,
       {"layers[0].activation", "Relu"}},
      {"slice beyond",
       R"({"type":"Slice","bottom":"dense","top":"x","ranges":[[1,6]]},)" + kInteraction + kTail,
       {"layers[0].ranges[0]", "5 columns"}},
      {"slice backwards",
       R"({"type":"Slice","bottom":"dense","top":"x","ranges":[[3,3]]},)" + kInteraction + kTail,
       {"layers[0].ranges[0]", "begin < end"}},
      {"slice tops",
       R"({"type":"Slice","bottom":"dense","top":["x","y"],"ranges":[[0,4]]},)" + kInteraction +
           kTail,
       {"layers[0].top", "1 top"}},
      {"slice ranges",
       R"({"type":"Slice","bottom":"dense","top":"x","ranges":7},)" + kInteraction + kTail,
       {"layers[0].ranges", "list"}},
      {"slot beyond",
       R"({"type":"Reshape","bottom":"emb","top":"h","selected":[0,3]},)" + kTail,
       {"layers[0].selected[1]", "below 3"}},
      {"slot twice",
       R"({"type":"Reshape","bottom":"emb","top":"h","selected":[1,1]},)" + kTail,
       {"selected", "twice"}},
      {"leading_dim",
       R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":5},)" + kTail,
       {"layers[0].leading_dim", "divisor of 12", "5"}},
      {"leading_dim above a sample",
       R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":24},)" + kTail,
       {"layers[0].leading_dim", "divisor of 12", "24"}},
      {"time_step",
       R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":4,"time_step":2},)" + kTail,
       {"layers[0].leading_dim", "times `time_step` 2", "12", "4"}},
      {"time_step alone",
       R"({"type":"Reshape","bottom":"emb","top":"h","time_step":2},)" + kTail,
       {"layers[0].time_step", "leading_dim"}},
      {"folded rows where a sample is wanted",
       R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":4},)" + kTail,
       {"layers[2].bottom", "shape [B,1]", "[3 B,1]"}},
      {"concat shapes",
       R"({"type":"Concat","bottom":["dense","emb"],"top":"h"},)" + kTail,
       {"layers[0].bottom", "dimension 1 only", "[B,5]", "[B,3,4]"}},
      {"concat axis",
       R"({"type":"Concat","bottom":["dense","dense"],"axis":2,"top":"h"},)" + kTail,
       {"layers[0].axis", "1 to 1", "found 2"}},
      {"reduce over samples",
       R"({"type":"ReduceSum","bottom":"emb","axis":0,"top":"h"},)" + kTail,
       {"layers[0].axis", "1 to 2", "sums over samples", "found 0"}},
      {"reduce axis",
       R"({"type":"ReduceMean","bottom":"dense","axis":2,"top":"h"},)" + kTail,
       {"layers[0].axis", "1 to 1", "found 2"}},
      {"reduce without axis",
       R"({"type":"ReduceSum","bottom":"dense","top":"h"},)" + kTail,
       {"layers[0]", "axis"}},
      {"sub of three",
       R"({"type":"Sub","bottom":["dense","dense","dense"],"top":"h"},)" + kTail,
       {"layers[0].bottom", "2 bottom", "found 3"}},
      {"product shapes",
       kBottom + R"({"type":"ElementwiseMultiply","bottom":["x","dense"],"top":"h"},)" + kTail,
       {"layers[1].bottom", "equal shapes", "[B,5]"}},
      {"weight_dims",
       R"({"type":"Multiply","bottom":"dense","weight_dims":[4,2],"top":"h"},)" + kTail,
       {"layers[0].weight_dims[0]", "5, the width of \"dense\"", "found 4"}},
      {"one weight_dims",
       R"({"type":"WeightMultiply","bottom":"dense","weight_dims":[5],"top":"h"},)" + kTail,
       {"layers[0].weight_dims", "vector size"}},
      {"out_dim",
       R"({"type":"FmOrder2","bottom":"dense","out_dim":2,"top":"h"},)" + kTail,
       {"layers[0].out_dim", "divisor of 5", "found 2"}},
      {"sigmoid bottoms",
       R"({"type":"Sigmoid","bottom":["dense","emb"],"top":"h"},)" + kTail,
       {"layers[0].bottom", "1 bottom"}},
      {"add shapes",
       kBottom + R"({"type":"Add","bottom":["x","dense"],"top":"h"},)" + kTail,
       {"layers[1].bottom", "equal shapes", "[B,5]"}},
      {"add one",
       kBottom + R"({"type":"Add","bottom":["x"],"top":"h"},)" + kTail,
       {"layers[1].bottom", "at least 2"}},
      {"dropout rate",
       R"({"type":"Dropout","bottom":"dense","top":"x","rate":1.5},)" + kInteraction + kTail,
       {"layers[0].rate", "1.5"}},
      {"ELU without its block",
       R"({"type":"ELU","bottom":"dense","top":"x"},)" + kInteraction + kTail,
       {"layers[0]", "elu_param"}},
      {"ELU without alpha",
       R"({"type":"ELU","bottom":"dense","top":"x","elu_param":{}},)" + kInteraction + kTail,
       {"layers[0].elu_param", "alpha"}},
      {"ELU alpha",
       R"({"type":"ELU","bottom":"dense","top":"x","elu_param":{"alpha":-0.5}},)" + kInteraction +
           kTail,
       {"layers[0].elu_param.alpha", "-0.5"}},
      {"ELU key",
       R"({"type":"ELU","bottom":"dense","top":"x","elu_param":{"alpha":1,"alhpa":1}},)" +
           kInteraction + kTail,
       {"layers[0].elu_param.alhpa", "did you mean \"alpha\""}},
      {"ELU bottoms",
       R"({"type":"ELU","bottom":["dense","emb"],"top":"x","elu_param":{"alpha":1}},)" +
           kInteraction + kTail,
       {"layers[0].bottom", "1 bottom"}},
      {"logits",
       kBottom + R"({"type":"BinaryCrossEntropyLoss","bottom":["x","label"],"top":"loss"})",
       {"layers[1].bottom", "[B,1]", "[B,4]"}},
      {"lambda alone",
       kBottom + kInteraction +
           R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","lambda":0.1})",
       {"layers[3].lambda", "regularizer"}},
      {"regularizer",
       kBottom + kInteraction +
           R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","regularizer":"L3","lambda":0.1})",
       {"layers[3].regularizer", "L3"}},
      {"bottom missing",
       R"({"type":"ReLU","top":"x"},)" + kInteraction + kTail,
       {"layers[0]", "bottom"}},
      {"bottom a number",
       R"({"type":"ReLU","bottom":3,"top":"x"},)" + kInteraction + kTail,
       {"layers[0].bottom", "3"}},
  };
  for (const Refusal& r : list) {
    INFO(r.what);
    const std::string said = refused(r.layers);
    INFO(said);
    if (r.located) CHECK(said.rfind("test.json:", 0) == 0);
    for (const std::string& part : r.says) {
      INFO(part);
      CHECK(said.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("an unknown type is told every type that there is, and a misspelt one which it may be") {
  auto types = network::layer_types();
  for (const auto& embedding : config::kEmbeddingTypes) types.emplace_back(embedding.name);
  const auto said = [](const std::string& type) {
    return refused(R"({"type":")" + type + R"(","bottom":"dense","top":"x"},)" + kInteraction +
                   kTail);
  };
  const std::string unknown = said("Quux");
  for (const std::string& type : types) {
    INFO(type);
    CHECK(unknown.find(type) != std::string::npos);
    CHECK(said(type + "s").find("did you mean \"" + type + "\"") != std::string::npos);
  }
}

TEST_CASE("an embedding behind a dense layer is told where it belongs") {
  for (const auto& embedding : config::kEmbeddingTypes) {
    const std::string type = embedding.name;
    CHECK(refused(kBottom + R"({"type":")" + type + R"(","bottom":"x","top":"h"},)" + kTail)
              .find("layers[1].type: expected embedding layers before all dense layers, found \"" +
                    type + "\" behind one") != std::string::npos);
  }
}

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
  CHECK(moments({InitializerType::kZero, 300, 100})[2] == 0);
  std::vector<float> again(n);
  network::initialize({InitializerType::kDefaultWeight, 300, 100}, 5, "t", again);
  network::initialize({InitializerType::kDefaultWeight, 300, 100}, 5, "t", x);
  CHECK(x == again);
  network::initialize({InitializerType::kDefaultWeight, 300, 100}, 6, "t", again);
  CHECK(x != again);
}

}  // namespace hlite::test
