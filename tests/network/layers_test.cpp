// Every layer of the registry: gradients by finite differences, the same bits again, and nearly the
// same in 16 bits and on a GPU. Values: layers/.
#include <algorithm>
#include <set>

#include "hugectr_lite/network/layer_registry.h"
#include "tests/network/layer_case.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

struct Case {
  std::string type, layers, loss = kLoss;
};

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
          {"type":"ReduceSum","bottom":["history","history_len"],"axis":1,"top":"w"},{"type":"Reshape","bottom":"w","top":"we"},
          {"type":"Concat","bottom":["ve","se","we","dense"],"top":"c"},)" +
           fc("c", "h", 9) + R"(,{"type":"ReduceSum","bottom":"h","axis":1,"top":"z"})"},
      {"ReduceMean",
       R"({"type":"Reshape","bottom":"emb","top":"f","leading_dim":2},{"type":"ReduceMean","bottom":"f","axis":1,"top":"m"},
          {"type":"Reshape","bottom":"m","top":"e"},{"type":"ReduceMean","bottom":"emb","axis":1,"top":"v"},
          {"type":"Reshape","bottom":"v","top":"ve"},{"type":"ReduceMean","bottom":["recent","recent_len"],"axis":1,"top":"w"},
          {"type":"Reshape","bottom":"w","top":"we"},{"type":"Concat","bottom":["e","ve","we","dense"],"top":"c"},)" +
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
      {"SiLU",
       fc("dense", "h", 6) +
           R"(,{"type":"SiLU","bottom":"h","top":"r"},{"type":"SiLU","bottom":"emb","top":"er"},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["r","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"Tanh",
       fc("dense", "h", 6) +
           R"(,{"type":"Tanh","bottom":"h","top":"r"},{"type":"Tanh","bottom":"emb","top":"er"},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["r","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"GELU",
       fc("dense", "h", 6) +
           R"(,{"type":"GELU","bottom":"h","top":"r"},{"type":"GELU","bottom":"emb","top":"er"},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["r","e"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"GRU", fc("dense", "h", 5) +
                  R"(,{"type":"Sigmoid","bottom":"h","top":"s"},
          {"name":"g1","type":"GRU","bottom":["history","history_len"],"top":"a","gru_param":{"num_output":3}},
          {"name":"g2","type":"GRU","bottom":["a","history_len","s"],"top":"b","gru_param":{"num_output":2,"SeqLength":5,"vector_size":3}},
          {"name":"g3","type":"GRU","bottom":["emb","recent_len"],"top":"d","gru_param":{"num_output":1,"batchsize":7,"weight_init":"Normal"}},
          {"name":"g4","type":"GRU","bottom":["recent","recent_len"],"top":"g","gru_param":{"num_output":2}},
          {"type":"ReduceSum","bottom":"a","axis":1,"top":"ra"},{"type":"Reshape","bottom":"ra","top":"fa"},
          {"type":"Reshape","bottom":"b","top":"fb"},{"type":"Reshape","bottom":"d","top":"fd"},{"type":"Reshape","bottom":"g","top":"fg"},
          {"type":"Concat","bottom":["fa","fb","fd","fg"],"top":"c"},)" +
                  fc("c", "z", 1)},
      {"HSTU",
       R"({"name":"h1","type":"HSTU","bottom":["history","history_len"],"top":"a",
            "hstu_param":{"num_heads":2,"attention_dim":3,"hidden_dim":2,"eps":0.01,"max_attn_len":3,"contextual_seq_len":1}},
          {"name":"h2","type":"HSTU","bottom":["a","history_len"],"top":"b",
            "hstu_param":{"num_heads":2,"attention_dim":1,"hidden_dim":3,"causal":false,"eps":0.1,"num_candidates":2,"group_norm":true,"dropout":0.3}},
          {"name":"h3","type":"HSTU","bottom":["emb","recent_len"],"top":"d","hstu_param":{"num_heads":1,"attention_dim":2,"hidden_dim":2,"eps":0.01}},
          {"type":"ReduceSum","bottom":"b","axis":1,"top":"rb"},{"type":"Reshape","bottom":"rb","top":"fb"},
          {"type":"Reshape","bottom":"d","top":"fd"},{"type":"Concat","bottom":["fb","fd","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"MLP",
       R"({"name":"m1","type":"MLP","bottom":"dense","top":"h","mlp_param":{"num_outputs":[6,4]}},
          {"name":"m2","type":"MLP","bottom":"emb","top":"er","mlp_param":{"num_outputs":[3,2],"activation":"None","use_bias":false}},
          {"type":"Reshape","bottom":"er","top":"e"},{"type":"Concat","bottom":["h","e"],"top":"c"},
          {"name":"m3","type":"MLP","bottom":"c","top":"z","mlp_param":{"num_outputs":[5,1],
            "activations":["Gelu","None"],"biases":[false,true]}})"},
      {"MultiCross",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},
          {"name":"v1","type":"MultiCross","bottom":"c","top":"x1","mc_param":{"num_layers":1}},
          {"name":"v3","type":"MultiCross","bottom":"c","top":"x2","mc_param":{"num_layers":3}},
          {"name":"r1","type":"MultiCross","bottom":"c","top":"x3","mc_param":{"num_layers":1,"projection_dim":3}},
          {"name":"r3","type":"MultiCross","bottom":"c","top":"x4","mc_param":{"num_layers":3,"projection_dim":2}},
          {"name":"n1","type":"MultiCross","bottom":"dense","top":"x5","mc_param":{"num_layers":2,"projection_dim":2}},
          {"name":"n2","type":"MultiCross","bottom":"dense","top":"x6","mc_param":{"num_layers":2}},
          {"name":"w1","type":"MultiCross","bottom":"c","top":"x7","mc_param":{"num_layers":1,"full_rank":true}},
          {"name":"w3","type":"MultiCross","bottom":"c","top":"x8","mc_param":{"num_layers":3,"full_rank":true}},
          {"name":"w2","type":"MultiCross","bottom":"dense","top":"x9","mc_param":{"num_layers":2,"full_rank":true}},
          {"type":"Concat","bottom":["x1","x2","x3","x4","x5","x6","x7","x8","x9"],"top":"all"},)" +
           fc("all", "z", 1)},
      {"BatchNorm",
       fc("dense", "h", 6) +
           R"(,{"type":"BatchNorm","bottom":"h","top":"n","bn_param":{"factor":0.1,"eps":0.05}},
          {"type":"Reshape","bottom":"emb","top":"f","leading_dim":4},
          {"name":"bn2","type":"BatchNorm","bottom":"f","top":"fn","bn_param":{"is_training":true,"factor":1,"eps":0.05,"gamma_init":"XavierNorm","beta_init":"Uniform"}},
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
           R"(,{"type":"PReLU_Dice","bottom":"h","top":"n","prelu_dice_param":{"alpha":0.2,"epsilon":0.05,"trained":true}},
          {"type":"Reshape","bottom":"emb","top":"f","leading_dim":4},
          {"name":"d2","type":"PReLU_Dice","bottom":"f","top":"fn","prelu_dice_param":{"elu_alpha":-0.5,"eps":0.1}},
          {"name":"d3","type":"PReLU_Dice","bottom":"dense","top":"dn","prelu_dice_param":{"alpha":0,"eps":0.1,"trained":true}},
          {"type":"Reshape","bottom":"fn","top":"e","leading_dim":12},{"type":"Concat","bottom":["n","e","dn"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"SequenceMask",
       fc("dense", "h", 15) + "," + fc("dense", "g", 5) +
           R"(,{"name":"m1","type":"SequenceMask","bottom":["recent_len","history_len"],"top":"m",
            "max_sequence_len_from":3,"max_sequence_len_to":5,"causal":true},
          {"name":"m2","type":"SequenceMask","bottom":["history_len","history_len"],"top":"k","max_sequence_len_to":5},
          {"type":"Reshape","bottom":"m","top":"mf","leading_dim":15},{"type":"Reshape","bottom":"k","top":"kf","leading_dim":5},
          {"type":"ElementwiseMultiply","bottom":["h","mf"],"top":"a"},{"type":"Softmax","bottom":["g","kf"],"top":"b"},
          {"type":"Concat","bottom":["a","b"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"SequenceConcat",
       R"({"type":"SequenceConcat","bottom":["history","history_len","emb","recent","recent_len"],"top":["s","s_len"]},
          {"type":"ReLU","bottom":"s","top":"r"},
          {"name":"again","type":"SequenceConcat","bottom":["emb","r","s_len"],"top":["t","t_len"]},
          {"type":"SequenceLast","bottom":["t","t_len"],"top":"l","count":7},
          {"type":"Reshape","bottom":"l","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"SequenceLast",
       R"({"type":"SequenceLast","bottom":["history","history_len"],"top":"l"},
          {"type":"SequenceLast","bottom":["recent","recent_len"],"top":"k","count":3},
          {"type":"Reshape","bottom":"l","top":"le"},{"type":"Reshape","bottom":"k","top":"ke"},
          {"type":"Concat","bottom":["le","ke","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"PositionEmbedding",
       R"({"name":"p1","type":"PositionEmbedding","bottom":["history","history_len"],"top":"p","from":"end"},
          {"name":"p2","type":"PositionEmbedding","bottom":["recent","recent_len"],"top":"q"},
          {"type":"Sigmoid","bottom":"p","top":"ps"},{"type":"SequenceLast","bottom":["ps","history_len"],"top":"l","count":5},
          {"type":"Reshape","bottom":"l","top":"le"},{"type":"Reshape","bottom":"q","top":"qe"},
          {"type":"Concat","bottom":["le","qe","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"FusedReshapeConcat",
       R"({"type":"Slice","bottom":"emb","top":["p","q"],"ranges":[[0,3],[1,4]]},
          {"type":"FusedReshapeConcat","bottom":["emb","p","q"],"top":["items","target"]},
          {"type":"Reshape","bottom":"items","top":"e","leading_dim":20},
          {"type":"Concat","bottom":["e","target","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"MatrixMultiply",
       fc("dense", "h", 6) +
           R"(,{"type":"Reshape","bottom":"h","top":"w","leading_dim":3,"time_step":2},
          {"name":"m1","type":"MatrixMultiply","bottom":["w","emb"],"top":"a"},
          {"type":"Transpose","bottom":"emb","top":"t"},{"name":"m2","type":"MatrixMultiply","bottom":["emb","t"],"top":"g"},
          {"type":"Reshape","bottom":"a","top":"ae"},{"type":"Reshape","bottom":"g","top":"ge"},
          {"type":"Concat","bottom":["ae","ge"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"Transpose", fc("emb", "h", 5) + R"(,{"type":"Transpose","bottom":"h","top":"t"},)" +
                        fc("t", "k", 2) + R"(,{"type":"Reshape","bottom":"k","top":"e"},)" +
                        fc("e", "z", 1)},
      {"MultiHeadAttention",
       fc("dense", "h", 12) +
           R"(,{"type":"Reshape","bottom":"h","top":"k","leading_dim":4,"time_step":3},)" +
           fc("emb", "v", 4) +
           R"(,{"name":"a1","type":"MultiHeadAttention","bottom":["emb","k","v"],"top":"a","num_attention_heads":2,"transpose_b":true},
          {"name":"a2","type":"MultiHeadAttention","bottom":["emb","emb","emb"],"top":"b"},
          {"type":"Reshape","bottom":"a","top":"ae"},{"type":"Reshape","bottom":"b","top":"be"},
          {"type":"Concat","bottom":["ae","be"],"top":"c"},)" +
           fc("c", "z", 1)},
      {"MultiCrossEntropyLoss",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
           fc("c", "z", 1),
       R"({"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[1]})"},
      {"MSELoss",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
           fc("c", "z", 1),
       R"({"type":"MSELoss","bottom":["z","label"],"top":"loss"})"},
      {"BinaryCrossEntropyLoss",
       R"({"type":"Reshape","bottom":"emb","top":"e"},{"type":"Concat","bottom":["e","dense"],"top":"c"},)" +
           fc("c", "z", 1)},
  };
  return list;
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
    check_gradients(f, [](NetworkFixture& g) {
      return g.net().predicts_values() ? mse_of(g, g.input(0)) : bce_of(g, g.input(0));
    });
  }
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

TEST_CASE("a sample's score does not depend on the batch, nor on a history's padding") {
  constexpr int64_t kFew = 3;
  for (const Case& c : cases()) {
    INFO(c.type);
    auto f = make(c.layers, c.loss);
    const auto logits = [&] {
      const auto z = f.floats(f.net().logits());
      return std::vector<float>(z.begin(), z.begin() + kFew);
    };
    f.evaluate();
    const auto want = logits();
    f.evaluate(kFew);
    CHECK(same_values(logits(), want));
    f.train();
    const auto gradients = f.gradients();
    // The products of a GRU have padding rows too, times zeros.
    f.fill_padding(c.type == "GRU" ? 7 : NAN);
    f.train();
    CHECK(f.gradients() == gradients);
  }
}

using Gradients = std::map<std::string, std::vector<float>>;
// The distance of all gradients, relative to the length of `want`: where an activation is saturated
// the small ones are rounding alone.
static double distance(const Gradients& got, const Gradients& want) {
  double off = 0, length = 0;
  for (const auto& [name, values] : want)
    for (size_t i = 0; i < values.size(); ++i) {
      const double g = got.at(name)[i], w = values[i];
      off += (g - w) * (g - w);
      length += w * w;
    }
  return std::sqrt(off / length);
}

TEMPLATE_TEST_CASE("every layer in 16 bits and on a GPU comes near its floats", "[gpu]", float,
                   bf16, fp16) {
  const auto type = std::is_same_v<TestType, float>  ? FloatType::kFloat
                    : std::is_same_v<TestType, bf16> ? FloatType::kBf16
                                                     : FloatType::kFp16;
  const MatmulOptions products;
  for (const OpDevice& on : op_devices<TestType>(&products))
    for (const Case& c : cases()) {
      INFO(on.name() << ", " << c.type);
      auto want = make(c.layers, c.loss), got = make(c.layers, c.loss, type, &on.exec());
      want.train();
      got.train();
      // In bf16 a ReLU may switch.
      const double rounding = 1e-5 + (type == FloatType::kBf16 ? 96 : 16) * kRounding<TestType>;
      CHECK(std::abs(static_cast<double>(got.loss()) - static_cast<double>(want.loss())) <=
            rounding * static_cast<double>(want.loss()));
      CHECK(distance(got.gradients(), want.gradients()) <= rounding);
    }
}

}  // namespace hlite::test
