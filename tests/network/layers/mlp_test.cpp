// An MLP is the inner products that it stands for.
#include <algorithm>

#include "tests/network/layer_case.h"

namespace hlite::test {
namespace {

void check_equal_runs(NetworkFixture& a, NetworkFixture& b) {
  a.train();
  b.train();
  CHECK(a.loss() == b.loss());
  const auto &pa = a.net().parameters(), &pb = b.net().parameters();
  REQUIRE(pa.size() == pb.size());
  for (size_t i = 0; i < pa.size(); ++i) {
    INFO(pa[i].name);
    CHECK(pa[i].name == pb[i].name);
    CHECK(pa[i].dims == pb[i].dims);
    const auto ga = a.floats(pa[i].buffers.grad), gb = b.floats(pb[i].buffers.grad);
    CHECK(std::equal(ga.begin(), ga.end(), gb.begin(), gb.end()));
  }
}

const std::string kInput =
    R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)";

}  // namespace

TEST_CASE("an MLP is a chain of inner products, bit for bit") {
  auto mlp = make(kInput + R"({"name":"m","type":"MLP","bottom":"c","top":"z",
      "mlp_param":{"num_outputs":[6,5,1],"activations":["Relu","Relu","None"]}})");
  auto chain = make(
      kInput +
      R"({"name":"m.0","type":"FusedInnerProduct","bottom":"c","top":"a","fc_param":{"num_output":6}},
         {"name":"m.1","type":"FusedInnerProduct","bottom":"a","top":"b","fc_param":{"num_output":5}},
         {"name":"m.2","type":"InnerProduct","bottom":"b","top":"z","fc_param":{"num_output":1}})");
  check_equal_runs(mlp, chain);
  for (NetworkFixture* const f : {&mlp, &chain})
    CHECK_THROWS_AS(f->train_plan().index_of("m.0.dbias"), Error);  // done by m.1.bprop
}

TEST_CASE("an MLP with GELU and dropout is the layers that it stands for, bit for bit") {
  const std::string layers =
      R"({"name":"m.0","type":"InnerProduct","bottom":"c","top":"a","fc_param":{"num_output":6}},
         {"name":"m.0.gelu","type":"GELU","bottom":"a","top":"b"},
         {"name":"m.0.dropout","type":"Dropout","bottom":"b","top":"d","rate":0.25},
         {"name":"m.1","type":"FusedInnerProduct","bottom":"d","top":"e1","fc_param":{"num_output":5}},
         {"name":"m.1.dropout","type":"Dropout","bottom":"e1","top":"f","rate":0.25},
         {"name":"m.2","type":"InnerProduct","bottom":"f","top":"z","fc_param":{"num_output":1}})";
  auto chain = make(kInput + layers);
  const auto mlp = [](const std::string& dropout) {
    return make(kInput + R"({"name":"m","type":"MLP","bottom":"c","top":"z",
      "mlp_param":{"num_outputs":[6,5,1],"activations":["Gelu","Relu","None"],)" +
                dropout + "}}");
  };
  auto all = mlp(R"("dropout":0.25)"), each = mlp(R"("dropouts":[0.25,0.25,0])");
  check_equal_runs(all, chain);
  check_equal_runs(each, chain);
  const auto dropped = all.tensor("m.0.dropout");
  CHECK(std::count(dropped.begin(), dropped.end(), 0.0f) > 0);
  all.evaluate();
  chain.evaluate();
  CHECK(all.loss() == chain.loss());
  auto none = mlp(R"("dropout":0)");
  CHECK_THROWS_AS(none.train_plan().index_of("m.0.dropout.fprop"), Error);
}

TEST_CASE("dropouts of an MLP may be after a layer without an activation, and after the last") {
  auto mlp = make(kInput + R"({"name":"m","type":"MLP","bottom":"c","top":"z",
      "mlp_param":{"num_outputs":[6,1],"activation":"None","dropouts":[0,0.5]}})");
  auto chain = make(
      kInput +
      R"({"name":"m.0","type":"InnerProduct","bottom":"c","top":"a","fc_param":{"num_output":6}},
         {"name":"m.1","type":"InnerProduct","bottom":"a","top":"b","fc_param":{"num_output":1}},
         {"name":"m.1.dropout","type":"Dropout","bottom":"b","top":"z","rate":0.5})");
  check_equal_runs(mlp, chain);
}

TEST_CASE("one activation and one use of biases are those of all layers of an MLP") {
  auto all = make(kInput + R"({"name":"m","type":"MLP","bottom":"c","top":"z",
      "mlp_param":{"num_outputs":[6,1],"activation":"None","use_bias":false}})");
  auto each = make(kInput + R"({"name":"m","type":"MLP","bottom":"c","top":"z",
      "mlp_param":{"num_output":0,"num_outputs":[6,1],"activations":["None","None"],"biases":[false,false]}})");
  check_equal_runs(all, each);
  CHECK(parameter_count(all.net()) == 17 * 6 + 6);
}

TEST_CASE(
    "layers of an MLP begin with values by their inputs, biases too, unless it says otherwise") {
  using network::InitializerType;
  auto f =
      make(kInput +
           R"({"name":"m","type":"MLP","bottom":"c","top":"h","mlp_param":{"num_outputs":[6,4]}},
      {"name":"n","type":"MLP","bottom":"h","top":"z",
       "mlp_param":{"num_outputs":[1],"weight_init":"XavierNorm","bias_init":"Zero"}})");
  const auto& parameters = f.net().parameters();
  REQUIRE(parameters.size() == 6);
  const int64_t inputs[] = {17, 17, 6, 6, 4, 0};
  const InitializerType types[] = {InitializerType::kFanInUniform, InitializerType::kFanInUniform,
                                   InitializerType::kFanInUniform, InitializerType::kFanInUniform,
                                   InitializerType::kXavierNorm,   InitializerType::kZero};
  for (size_t i = 0; i < parameters.size(); ++i) {
    INFO(parameters[i].name);
    CHECK(parameters[i].initializer.type == types[i]);
    CHECK(parameters[i].initializer.fan_in == inputs[i]);
  }
}

}  // namespace hlite::test
