// What each layer refuses: keys, shapes and numbers of tensors.
#include <map>
#include <set>

#include "hugectr_lite/network/layer_registry.h"
#include "tests/network/refusal.h"

namespace hlite::test {
namespace {

// clang-format off
const std::map<std::string, std::vector<Refusal>>& refusals() {
  static const std::map<std::string, std::vector<Refusal>> by_type = {
    {"Add", {
      {"add shapes", kBottom + R"({"type":"Add","bottom":["x","dense"],"top":"h"},)" + kTail,
        {"layers[1].bottom", "equal shapes", "[B,5]"}},
      {"add one", kBottom + R"({"type":"Add","bottom":["x"],"top":"h"},)" + kTail,
        {"layers[1].bottom", "at least 2"}},
    }},
    {"BatchNorm", {
      {"no bn_param", R"({"type":"BatchNorm","bottom":"dense","top":"x"},)" + kInteraction + kTail,
        {"layers[0]", "bn_param"}},
      {"a factor beyond 1",
        R"({"type":"BatchNorm","bottom":"dense","top":"x","bn_param":{"factor":1.5,"eps":1e-5}},)"
        + kInteraction + kTail,
        {"layers[0].bn_param.factor", "[0, 1]", "1.5"}},
      {"an eps of 0",
        R"({"type":"BatchNorm","bottom":"dense","top":"x","bn_param":{"factor":1,"eps":0}},)" + kInteraction + kTail,
        {"layers[0].bn_param.eps", "found 0"}},
      {"an initializer that is none", R"({"type":"BatchNorm","bottom":"dense","top":"x",
        "bn_param":{"factor":1,"eps":1e-5,"gamma_init":"One"}},)" + kInteraction + kTail,
        {"layers[0].bn_param.gamma_init", "One"}},
      {"columns of three dimensions",
        R"({"type":"BatchNorm","bottom":"emb","top":"x","bn_param":{"factor":1,"eps":1e-5}},)" + kInteraction + kTail,
        {"layers[0].bottom", "1 dimensions", "[B,3,4]"}},
    }},
    {"BinaryCrossEntropyLoss", {
      {"inner product of 3-D, whose logits are a list",
        R"({"type":"InnerProduct","bottom":"emb","top":"h","fc_param":{"num_output":4}},)" + kTail,
        {"layers[2].bottom", "logits of shape [B,1]", "[B,3,1]"}},
      {"folded rows where a sample is wanted",
        R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":4},)" + kTail,
        {"layers[2].bottom", "shape [B,1]", "[3 B,1]"}},
      {"logits", kBottom + R"({"type":"BinaryCrossEntropyLoss","bottom":["x","label"],"top":"loss"})",
        {"layers[1].bottom", "[B,1]", "[B,4]"}},
      {"lambda alone", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","lambda":0.1})",
        {"layers[3].lambda", "regularizer"}},
      {"a weight of 0 for positives", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","pos_weight":0})",
        {"layers[3].pos_weight", "a number in (0", "found 0"}},
      {"a base score of 0", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","base_score":0})",
        {"layers[3].base_score", "a number between 0 and 1", "found 0"}},
      {"a base score of 1", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","base_score":1})",
        {"layers[3].base_score", "a number between 0 and 1", "found 1"}},
      {"a scale of probabilities", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","score_scale":2})",
        {"layers[3].score_scale"}},
      {"regularizer", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss","regularizer":"L3","lambda":0.1})",
        {"layers[3].regularizer", "L3"}},
    }},
    {"Cast", {
      {"two bottoms", R"({"type":"Cast","bottom":["dense","emb"],"top":"x"},)" + kInteraction + kTail,
        {"layers[0].bottom", "1 bottom", "found 2"}},
    }},
    {"Concat", {
      {"concat shapes", R"({"type":"Concat","bottom":["dense","emb"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "dimension 1 only", "[B,5]", "[B,3,4]"}},
      {"concat axis", R"({"type":"Concat","bottom":["dense","dense"],"axis":2,"top":"h"},)" + kTail,
        {"layers[0].axis", "1 to 1", "found 2"}},
    }},
    {"DotProduct", {
      {"of one", kBottom + R"({"type":"DotProduct","bottom":"x","top":"h"},)" + kTail,
        {"layers[1].bottom", "at least 2"}},
    }},
    {"Dropout", {
      {"dropout rate", R"({"type":"Dropout","bottom":"dense","top":"x","rate":1.5},)" + kInteraction + kTail,
        {"layers[0].rate", "1.5"}},
    }},
    {"ELU", {
      {"ELU without its block", R"({"type":"ELU","bottom":"dense","top":"x"},)" + kInteraction + kTail,
        {"layers[0]", "elu_param"}},
      {"ELU without alpha", R"({"type":"ELU","bottom":"dense","top":"x","elu_param":{}},)" + kInteraction + kTail,
        {"layers[0].elu_param", "alpha"}},
      {"ELU alpha", R"({"type":"ELU","bottom":"dense","top":"x","elu_param":{"alpha":-0.5}},)" + kInteraction + kTail,
        {"layers[0].elu_param.alpha", "-0.5"}},
      {"ELU key",
        R"({"type":"ELU","bottom":"dense","top":"x","elu_param":{"alpha":1,"alhpa":1}},)" + kInteraction + kTail,
        {"layers[0].elu_param.alhpa", "did you mean \"alpha\""}},
      {"ELU bottoms",
        R"({"type":"ELU","bottom":["dense","emb"],"top":"x","elu_param":{"alpha":1}},)" + kInteraction + kTail,
        {"layers[0].bottom", "1 bottom"}},
    }},
    {"ElementwiseMultiply", {
      {"product shapes", kBottom + R"({"type":"ElementwiseMultiply","bottom":["x","dense"],"top":"h"},)" + kTail,
        {"layers[1].bottom", "equal shapes", "[B,5]"}},
    }},
    {"FmOrder2", {
      {"out_dim", R"({"type":"FmOrder2","bottom":"dense","out_dim":2,"top":"h"},)" + kTail,
        {"layers[0].out_dim", "divisor of 5", "found 2"}},
    }},
    {"FusedInnerProduct", {
      {"position",
        R"({"type":"FusedInnerProduct","position":"Neck","bottom":"dense","top":"x","fc_param":{"num_output":4}},)"
        + kInteraction + kTail,
        {"layers[0].position", "Neck"}},
      {"head with one top",
        R"({"type":"FusedInnerProduct","position":"Head","bottom":"dense","top":"x","fc_param":{"num_output":4}},)"
        + kInteraction + kTail,
        {"layers[0].top", "4 top tensors", "found 1"}},
      {"body without head",
        R"({"type":"FusedInnerProduct","position":"Tail","bottom":["dense","a","b","c"],"top":"x",
            "fc_param":{"num_output":4}},)"
        + kInteraction + kTail,
        {"layers[0].bottom", "Head or Body"}},
      {"head without tail",
        R"({"type":"FusedInnerProduct","position":"Head","bottom":"dense","top":["x","a","b","c"],
            "fc_param":{"num_output":4}},)"
        + kInteraction + kTail,
        {"layers[0].top", "Body or Tail"}},
      {"head without ReLU",
        R"({"type":"FusedInnerProduct","position":"Head","activation":"None","bottom":"dense","top":["x","a","b","c"],
            "fc_param":{"num_output":4}},)"
        + kInteraction + kTail,
        {"layers[0].activation", "Relu"}},
    }},
    {"FusedReshapeConcat", {
      {"slots joined with columns",
        R"({"type":"FusedReshapeConcat","bottom":["emb","dense"],"top":["x","y"]},)" + kInteraction + kTail,
        {"layers[0].bottom", "dense"}},
      {"slots joined into one",
        R"({"type":"FusedReshapeConcat","bottom":["emb"],"top":["x"]},)" + kInteraction + kTail,
        {"layers[0].top", "2 top"}},
    }},
    {"GELU", {
      {"GELU bottoms", R"({"type":"GELU","bottom":["dense","emb"],"top":"x"},)" + kInteraction + kTail,
        {"layers[0].bottom", "1 bottom"}},
      {"a GELU's parameters", R"({"type":"GELU","bottom":"dense","top":"x","elu_param":{"alpha":1}},)" + kInteraction + kTail,
        {"layers[0].elu_param", "unknown key"}},
    }},
    {"GRU", {
      {"no gru_param", R"({"type":"GRU","bottom":["history","history_len"],"top":"y"},)" + kBottom + kInteraction + kTail,
        {"layers[0]", "gru_param"}},
      {"no states", R"({"type":"GRU","bottom":["history","history_len"],"top":"y","gru_param":{"num_output":0}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].gru_param.num_output", "found 0"}},
      {"HugeCTR's one bottom", R"({"type":"GRU","bottom":"history","top":"y","gru_param":{"num_output":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].bottom", "a history and its lengths, or these and attention scores", "found \"history\""}},
      {"no history's rows", R"({"type":"GRU","bottom":["dense","history_len"],"top":"y","gru_param":{"num_output":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].bottom", "2 dimensions", "[B,5]"}},
      {"lengths that are features", R"({"type":"GRU","bottom":["history","dense"],"top":"y","gru_param":{"num_output":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].bottom", "lengths as bottom 1", "\"dense\""}},
      {"another history's lengths", R"({"type":"GRU","bottom":["history","recent_len"],"top":"y","gru_param":{"num_output":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].bottom", "\"history_len\", the lengths of \"history\"", "recent_len"}},
      {"attention of other positions", kBottom
        + R"({"type":"GRU","bottom":["history","history_len","x"],"top":"y","gru_param":{"num_output":2}},)"
        + kInteraction + kTail,
        {"layers[1].bottom", "attention of shape [B,5] for \"history\" [B,5,4]", "\"x\" [B,4]"}},
      {"other positions", R"({"type":"GRU","bottom":["history","history_len"],"top":"y","gru_param":{"num_output":2,"SeqLength":4}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].gru_param.SeqLength", "5 of \"history\" [B,5,4]", "found 4"}},
      {"another width", R"({"type":"GRU","bottom":["history","history_len"],"top":"y","gru_param":{"num_output":2,"vector_size":5}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].gru_param.vector_size", "4 of \"history\" [B,5,4]", "found 5"}},
    }},
    {"HSTU", {
      {"no hstu_param", R"({"type":"HSTU","bottom":["history","history_len"],"top":"y"},)" + kBottom + kInteraction + kTail,
        {"layers[0]", "hstu_param"}},
      {"no heads", R"({"type":"HSTU","bottom":["history","history_len"],"top":"y","hstu_param":{"num_heads":0,"attention_dim":2,"hidden_dim":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].hstu_param.num_heads", "found 0"}},
      {"no width", R"({"type":"HSTU","bottom":["history","history_len"],"top":"y","hstu_param":{"num_heads":1,"attention_dim":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].hstu_param", "hidden_dim"}},
      {"all dropped", R"({"type":"HSTU","bottom":["history","history_len"],"top":"y",
        "hstu_param":{"num_heads":1,"attention_dim":2,"hidden_dim":2,"dropout":1}},)" + kBottom + kInteraction + kTail,
        {"layers[0].hstu_param.dropout", "found 1"}},
      {"no lengths", R"({"type":"HSTU","bottom":"history","top":"y","hstu_param":{"num_heads":1,"attention_dim":2,"hidden_dim":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].bottom", "2 bottom", "found 1"}},
      {"no history's rows", R"({"type":"HSTU","bottom":["dense","history_len"],"top":"y","hstu_param":{"num_heads":1,"attention_dim":2,"hidden_dim":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].bottom", "2 dimensions", "[B,5]"}},
      {"another history's lengths", R"({"type":"HSTU","bottom":["history","recent_len"],"top":"y","hstu_param":{"num_heads":1,"attention_dim":2,"hidden_dim":2}},)"
        + kBottom + kInteraction + kTail,
        {"layers[0].bottom", "\"history_len\", the lengths of \"history\"", "recent_len"}},
    }},
    {"InnerProduct", {
      {"num_output 0",
        R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":0}},)" + kInteraction + kTail,
        {"layers[0].fc_param.num_output", "[1,", "found 0"}},
      {"num_output missing",
        R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{}},)" + kInteraction + kTail,
        {"layers[0].fc_param", "num_output"}},
      {"unknown key",
        R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":4,"num_outputs":4}},)"
        + kInteraction + kTail,
        {"layers[0].fc_param.num_outputs", "did you mean \"num_output\""}},
      {"initialiser",
        R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":4,"weight_init":"Xavier"}},)"
        + kInteraction + kTail,
        {"layers[0].fc_param.weight_init", "Xavier"}},
    }},
    {"Interaction", {
      {"interaction widths",
        R"({"type":"InnerProduct","bottom":"dense","top":"x","fc_param":{"num_output":5}},)" + kInteraction + kTail,
        {"layers[1].bottom", "(4)", "found 5"}},
      {"interaction of 2-D", kBottom + R"({"type":"Interaction","bottom":["x","dense"],"top":"h"},)" + kTail,
        {"layers[1].bottom", "2 dimensions", "[B,5]"}},
    }},
    {"LayerNorm", {
      {"no ln_param", R"({"type":"LayerNorm","bottom":"dense","top":"x"},)" + kInteraction + kTail,
        {"layers[0]", "ln_param"}},
      {"an eps below 0",
        R"({"type":"LayerNorm","bottom":"dense","top":"x","ln_param":{"eps":-1}},)" + kInteraction + kTail,
        {"layers[0].ln_param.eps", "found -1"}},
    }},
    {"MLP", {
      {"without its block", R"({"type":"MLP","bottom":"dense","top":"h"},)" + kTail, {"layers[0]", "mlp_param"}},
      {"no layer", R"({"type":"MLP","bottom":"dense","top":"h","mlp_param":{"num_outputs":[]}},)" + kTail,
        {"layers[0].mlp_param.num_outputs", "at least one layer", "an empty list"}},
      {"a width of 0", R"({"type":"MLP","bottom":"dense","top":"h","mlp_param":{"num_outputs":[4,0]}},)" + kTail,
        {"layers[0].mlp_param.num_outputs[1]", "[1,", "0"}},
      {"too few activations", R"({"type":"MLP","bottom":"dense","top":"h",
        "mlp_param":{"num_outputs":[4,3],"activations":["Relu"]}},)" + kTail,
        {"layers[0].mlp_param.activations", "as long as num_outputs", "a list of 1"}},
      {"an activation that is none", R"({"type":"MLP","bottom":"dense","top":"h",
        "mlp_param":{"num_outputs":[4,3],"activations":["Relu","Tanh"]}},)" + kTail,
        {"layers[0].mlp_param.activations[1]", "\"Relu\", \"Gelu\" or \"None\"", "found \"Tanh\""}},
      {"a dropout of 1", R"({"type":"MLP","bottom":"dense","top":"h",
        "mlp_param":{"num_outputs":[4,3],"dropouts":[0.5,1]}},)" + kTail,
        {"layers[0].mlp_param.dropouts[1]", "[0, 0.9999]", "found 1"}},
      {"both spellings of dropout", R"({"type":"MLP","bottom":"dense","top":"h",
        "mlp_param":{"num_outputs":[4],"dropouts":[0.5],"dropout":0.5}},)" + kTail,
        {"layers[0].mlp_param.dropouts", "either dropout or dropouts"}},
      {"both spellings of biases", R"({"type":"MLP","bottom":"dense","top":"h",
        "mlp_param":{"num_outputs":[4],"biases":[true],"use_bias":true}},)" + kTail,
        {"layers[0].mlp_param.biases", "either use_bias or biases"}},
      {"a bias of 1",
        R"({"type":"MLP","bottom":"dense","top":"h","mlp_param":{"num_outputs":[4],"use_bias":1}},)" + kTail,
        {"layers[0].mlp_param.use_bias", "true or false", "found 1"}},
      {"two tops", R"({"type":"MLP","bottom":"dense","top":["h","g"],"mlp_param":{"num_outputs":[4]}},)" + kTail,
        {"layers[0].top", "1 top", "found 2"}},
      {"two of one name", R"({"name":"m","type":"MLP","bottom":"dense","top":"x","mlp_param":{"num_outputs":[4]}},
        {"name":"m","type":"MLP","bottom":"x","top":"h","mlp_param":{"num_outputs":[4]}},)" + kTail,
        {"layers[1].name", "m.0", "layers[0]"}},
      {"an unknown key",
        R"({"type":"MLP","bottom":"dense","top":"h","mlp_param":{"num_outputs":[4],"activatoin":"Relu"}},)" + kTail,
        {"layers[0].mlp_param.activatoin", "did you mean \"activation\""}},
    }},
    {"MultiCross", {
      {"cross layers of 3-D",
        R"({"type":"MultiCross","bottom":"emb","top":"h","mc_param":{"num_layers":2}},)" + kTail,
        {"layers[0].bottom", "1 dimensions", "[B,3,4]"}},
      {"no cross layers", R"({"type":"MultiCross","bottom":"dense","top":"h","mc_param":{"num_layers":0}},)" + kTail,
        {"layers[0].mc_param.num_layers", "found 0"}},
      {"cross layers without their block", R"({"type":"MultiCross","bottom":"dense","top":"h"},)" + kTail,
        {"layers[0]", "mc_param"}},
      {"projection_dim",
        R"({"type":"MultiCross","bottom":"dense","top":"h","mc_param":{"num_layers":2,"projection_dim":-1}},)" + kTail,
        {"layers[0].mc_param.projection_dim", "found -1"}},
      {"low and full rank", R"({"type":"MultiCross","bottom":"dense","top":"h",
        "mc_param":{"num_layers":2,"projection_dim":2,"full_rank":true}},)" + kTail,
        {"layers[0].mc_param.full_rank", "projection_dim or full_rank"}},
    }},
    {"MSELoss", {
      {"values", kBottom + R"({"type":"MSELoss","bottom":["x","label"],"top":"loss"})",
        {"layers[1].bottom", "logits of shape [B,1]", "[B,4]"}},
      {"one bottom", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"MSELoss","bottom":["z"],"top":"loss"})", {"layers[3].bottom", "2"}},
      {"a base score in words", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"MSELoss","bottom":["z","label"],"top":"loss","base_score":"mean"})",
        {"layers[3].base_score", "expected a number", "found \"mean\""}},
      {"a score scale of 0", kBottom + kInteraction
        + R"({"name":"fz","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
        {"type":"MSELoss","bottom":["z","label"],"top":"loss","score_scale":0})",
        {"layers[3].score_scale", "a number in [1e-30", "found 0"}},
    }},
    {"MatrixMultiply", {
      {"matrices that do not meet", R"({"type":"MatrixMultiply","bottom":["emb","emb"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "as many columns of \"emb\" as rows of \"emb\"", "[B,3,4] and [B,3,4]"}},
      {"columns times a matrix", R"({"type":"MatrixMultiply","bottom":["dense","emb"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "2 dimensions", "[B,5]"}},
      {"one matrix", R"({"type":"MatrixMultiply","bottom":"emb","top":"h"},)" + kTail,
        {"layers[0].bottom", "2 bottom", "found 1"}},
    }},
    {"MultiCrossEntropyLoss", {
      {"no weight for each task", R"({"type":"InnerProduct","bottom":"dense","top":"z","fc_param":{"num_output":2}},
        {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss"})", {"layers[1]", "target_weight"}},
      {"more weights than logits", R"({"type":"InnerProduct","bottom":"dense","top":"z","fc_param":{"num_output":2}},
        {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[1,1,1]})",
        {"layers[1].bottom", "logits of shape [B,3]", "[B,2]"}},
      {"more labels than weights", R"({"type":"InnerProduct","bottom":"dense","top":"z","fc_param":{"num_output":2}},
        {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[1,1]})",
        {"layers[1].bottom", "labels of shape [B,2]", "[B,1]"}},
      {"a weight below 0", R"({"type":"InnerProduct","bottom":"dense","top":"z","fc_param":{"num_output":1}},
        {"type":"MultiCrossEntropyLoss","bottom":["z","label"],"top":"loss","target_weight":[-1]})",
        {"layers[1].target_weight[0]", "numbers >= 0", "-1"}},
    }},
    {"MultiHeadAttention", {
      {"keys of another width", R"({"type":"InnerProduct","bottom":"emb","top":"k","fc_param":{"num_output":5}},
        {"type":"MultiHeadAttention","bottom":["emb","k","k"],"top":"h"},)" + kTail,
        {"layers[1].bottom", "[B,3,4] as bottom 1", "\"k\" of shape [B,3,5]"}},
      {"a mask of another shape", R"({"type":"MultiHeadAttention","bottom":["emb","emb","emb","emb"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "[B,1,3,3] as bottom 3", "[B,3,4]"}},
      {"heads that do not divide", R"({"type":"MultiHeadAttention","bottom":["emb","emb","emb"],"top":"h",
        "num_attention_heads":3},)" + kTail,
        {"layers[0].num_attention_heads", "a divisor of 4", "found 3"}},
      {"queries alone", R"({"type":"MultiHeadAttention","bottom":"emb","top":"h"},)" + kTail,
        {"layers[0].bottom", "3 bottom", "found 1"}},
      {"columns", R"({"type":"MultiHeadAttention","bottom":["dense","emb","emb"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "2 dimensions", "[B,5]"}},
    }},
    {"Multiply", {
      {"weight_dims", R"({"type":"Multiply","bottom":"dense","weight_dims":[4,2],"top":"h"},)" + kTail,
        {"layers[0].weight_dims[0]", "5, the width of \"dense\"", "found 4"}},
    }},
    {"PReLU_Dice", {
      {"both names of a parameter", R"({"type":"PReLU_Dice","bottom":"dense","top":"x",
        "prelu_dice_param":{"alpha":1,"elu_alpha":1,"eps":0.1}},)" + kInteraction + kTail,
        {"layers[0].prelu_dice_param.elu_alpha", "either alpha or elu_alpha"}},
      {"an alpha trained by hand", R"({"type":"PReLU_Dice","bottom":"dense","top":"x",
        "prelu_dice_param":{"alpha":1,"eps":0.1,"trained":0.5}},)" + kInteraction + kTail,
        {"layers[0].prelu_dice_param.trained", "true or false"}},
      {"dice without epsilon",
        R"({"type":"PReLU_Dice","bottom":"dense","top":"x","prelu_dice_param":{"alpha":1}},)" + kInteraction + kTail,
        {"layers[0].prelu_dice_param", "epsilon"}},
    }},
    {"PositionEmbedding", {
      {"features in place of lengths",
        R"({"type":"PositionEmbedding","bottom":["history","dense"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "lengths as bottom 1", "\"dense\" [B,5]"}},
      {"a place that is none",
        R"({"type":"PositionEmbedding","bottom":["history","history_len"],"top":"h","from":"middle"},)" + kTail,
        {"layers[0].from", "\"start\", \"end\"", "middle"}},
    }},
    {"ReLU", {
      {"two bottoms", R"({"type":"ReLU","bottom":["dense","emb"],"top":"x"},)" + kInteraction + kTail,
        {"layers[0].bottom", "1 bottom", "found 2"}},
    }},
    {"ReduceMean", {
      {"reduce axis", R"({"type":"ReduceMean","bottom":"dense","axis":2,"top":"h"},)" + kTail,
        {"layers[0].axis", "1 to 1", "found 2"}},
      {"a mean of a history along its vectors",
        R"({"type":"ReduceMean","bottom":["history","history_len"],"axis":2,"top":"h"},)" + kTail,
        {"layers[0].axis", "1, the rows that lengths count", "found 2"}},
    }},
    {"ReduceSum", {
      {"lengths of another history",
        R"({"type":"ReduceSum","bottom":["history","recent_len"],"axis":1,"top":"h"},)" + kTail,
        {"layers[0].bottom", "\"history_len\", the lengths of \"history\"", "\"recent_len\""}},
      {"reduce over samples", R"({"type":"ReduceSum","bottom":"emb","axis":0,"top":"h"},)" + kTail,
        {"layers[0].axis", "1 to 2", "sums over samples", "found 0"}},
    }},
    {"Reshape", {
      {"slot beyond", R"({"type":"Reshape","bottom":"emb","top":"h","selected":[0,3]},)" + kTail,
        {"layers[0].selected[1]", "below 3"}},
      {"slot twice", R"({"type":"Reshape","bottom":"emb","top":"h","selected":[1,1]},)" + kTail,
        {"selected", "twice"}},
      {"leading_dim", R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":5},)" + kTail,
        {"layers[0].leading_dim", "divisor of 12", "5"}},
      {"leading_dim above a sample", R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":24},)" + kTail,
        {"layers[0].leading_dim", "divisor of 12", "24"}},
      {"time_step", R"({"type":"Reshape","bottom":"emb","top":"h","leading_dim":4,"time_step":2},)" + kTail,
        {"layers[0].leading_dim", "times `time_step` 2", "12", "4"}},
      {"time_step alone", R"({"type":"Reshape","bottom":"emb","top":"h","time_step":2},)" + kTail,
        {"layers[0].time_step", "leading_dim"}},
    }},
    {"Scale", {
      {"a scale along another axis",
        R"({"type":"Scale","bottom":"dense","top":"x","scale_param":{"axis":2,"factor":3}},)" + kInteraction + kTail,
        {"layers[0].scale_param.axis", "[0, 1]", "found 2"}},
      {"a scale of vectors",
        R"({"type":"Scale","bottom":"emb","top":"x","scale_param":{"axis":1,"factor":3}},)" + kInteraction + kTail,
        {"layers[0].bottom", "[B,3,4]"}},
    }},
    {"SequenceConcat", {
      {"a history without its lengths",
        R"({"type":"SequenceConcat","bottom":["emb","history"],"top":["h","n"]},)" + kTail,
        {"layers[0].bottom", "\"history_len\", the lengths of \"history\", after it"}},
      {"lengths of another history",
        R"({"type":"SequenceConcat","bottom":["history","recent_len"],"top":["h","n"]},)" + kTail,
        {"layers[0].bottom", "\"history_len\", the lengths of \"history\"", "\"recent_len\""}},
      {"rows of another width", kBottom
        + R"({"type":"Reshape","bottom":"emb","top":"e","leading_dim":2,"time_step":6},
        {"type":"SequenceConcat","bottom":["history","history_len","e"],"top":["h","n"]},)" + kTail,
        {"layers[2].bottom", "rows of 4 numbers like \"history\"", "\"e\" [B,6,2]"}},
      {"lengths alone", R"({"type":"SequenceConcat","bottom":["history_len","history"],"top":["h","n"]},)" + kTail,
        {"layers[0].bottom", "2 dimensions", "\"history_len\""}},
      {"one top", R"({"type":"SequenceConcat","bottom":["emb","history","history_len"],"top":"h"},)" + kTail,
        {"layers[0].top", "2 top", "found 1"}},
    }},
    {"SequenceLast", {
      {"more rows than there are",
        R"({"type":"SequenceLast","bottom":["history","history_len"],"top":"h","count":6},)" + kTail,
        {"layers[0].count", "at most 5, the rows of \"history\"", "found 6"}},
      {"lengths of another history",
        R"({"type":"SequenceLast","bottom":["history","recent_len"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "\"history_len\", the lengths of \"history\"", "\"recent_len\""}},
    }},
    {"SequenceMask", {
      {"a mask of a history",
        R"({"type":"SequenceMask","bottom":["history","history_len"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "lengths as bottom 0", "\"history\" [B,5,4]"}},
      {"a mask of what is computed",
        R"({"type":"InnerProduct","bottom":"dense","top":"n","fc_param":{"num_output":1}},
           {"type":"SequenceMask","bottom":["n","history_len"],"top":"h"},)" + kTail,
        {"layers[1].bottom[0]", "expected lengths, of a history or as a dense feature", "\"n\""}},
      {"a mask without rows", R"({"type":"SequenceMask","bottom":["history_len","history_len"],"top":"h",
        "max_sequence_len_from":0},)" + kTail, {"layers[0].max_sequence_len_from", "[1, 1048576]", "found 0"}},
    }},
    {"SiLU", {
      {"SiLU bottoms", R"({"type":"SiLU","bottom":["dense","emb"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "1 bottom"}},
    }},
    {"Sigmoid", {
      {"sigmoid bottoms", R"({"type":"Sigmoid","bottom":["dense","emb"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "1 bottom"}},
    }},
    {"Slice", {
      {"slice beyond", R"({"type":"Slice","bottom":"dense","top":"x","ranges":[[1,6]]},)" + kInteraction + kTail,
        {"layers[0].ranges[0]", "5 columns"}},
      {"slice backwards", R"({"type":"Slice","bottom":"dense","top":"x","ranges":[[3,3]]},)" + kInteraction + kTail,
        {"layers[0].ranges[0]", "begin < end"}},
      {"slice tops", R"({"type":"Slice","bottom":"dense","top":["x","y"],"ranges":[[0,4]]},)" + kInteraction + kTail,
        {"layers[0].top", "1 top"}},
      {"slice ranges", R"({"type":"Slice","bottom":"dense","top":"x","ranges":7},)" + kInteraction + kTail,
        {"layers[0].ranges", "list"}},
    }},
    {"Softmax", {
      {"a softmax of two shapes", R"({"type":"Softmax","bottom":["emb","dense"],"top":"x"},)" + kInteraction + kTail,
        {"layers[0].bottom", "equal shapes", "[B,5]"}},
      {"a softmax of three",
        R"({"type":"Softmax","bottom":["dense","dense","dense"],"top":"x"},)" + kInteraction + kTail,
        {"layers[0].bottom", "1 bottom", "found 3"}},
    }},
    {"Sub", {
      {"sub of three", R"({"type":"Sub","bottom":["dense","dense","dense"],"top":"h"},)" + kTail,
        {"layers[0].bottom", "2 bottom", "found 3"}},
    }},
    {"Tanh", {
      {"two tops", R"({"type":"Tanh","bottom":"dense","top":["x","y"]},)" + kInteraction + kTail,
        {"layers[0].top", "1 top", "found 2"}},
    }},
    {"Transpose", {
      {"the transpose of columns", R"({"type":"Transpose","bottom":"dense","top":"h"},)" + kTail,
        {"layers[0].bottom", "2 dimensions", "[B,5]"}},
    }},
    {"WeightMultiply", {
      {"one weight_dims", R"({"type":"WeightMultiply","bottom":"dense","weight_dims":[5],"top":"h"},)" + kTail,
        {"layers[0].weight_dims", "vector size"}},
    }},
  };
  return by_type;
}
// clang-format on

}  // namespace

TEST_CASE("what does not fit a layer is refused with path, expected and found") {
  for (const auto& [type, list] : refusals()) {
    INFO(type);
    check_refusals(list);
  }
}

TEST_CASE("every layer refuses something") {
  std::set<std::string> types;
  for (const auto& [type, list] : refusals()) types.insert(type);
  const auto all = network::layer_types();
  CHECK(types == std::set<std::string>(all.begin(), all.end()));
}

}  // namespace hlite::test
