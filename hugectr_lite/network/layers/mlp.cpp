// MLP: inner products one after the other, each with its own width, activation and bias. It stands
// for that many layers, <name>.0, <name>.1, ..., whose tensors between them have their names. A
// GELU is a layer of its own, <name>.0.gelu, and so is a dropout, <name>.0.dropout.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/layer_parts.h"

namespace hlite::network {
namespace {

using config::JsonNode;

constexpr int64_t kMaxOutputs = int64_t{1} << 24;

enum class Activation { kNone, kRelu, kGelu };
constexpr const char* kActivations = R"("Relu", "Gelu" or "None")";

// An option of each layer: the list under `each`, else the value under `all`.
struct OptionKeys {
  const char *all, *each;
  config::Takes takes;
  const char *initial, *meaning_of_all, *meaning_of_each;
};

// `initial`: of a layer for which neither says anything.
template <typename Value, typename Read>
std::vector<Value> declare_option(Block& s, const OptionKeys& d, size_t count, Value initial,
                                  Read&& read) {
  std::vector<Value> values(count, initial);
  s.value(d.all, d.takes, d.meaning_of_all, otherwise(d.initial),
          [&](const JsonNode& node) { values.assign(count, read(node)); });
  s.value(
      d.each,
      {"a list as long as num_outputs",
       fmt::format(R"("type":"array","items":{{{}}})", d.takes.json)},
      d.meaning_of_each, {}, [&](const JsonNode& list) {
        if (list.kind() != JsonNode::Kind::kArray || (count > 0 && list.elements().size() != count))
          config::fail_expected(list, "a list as long as num_outputs");
        for (size_t i = 0; i < count; ++i) values[i] = read(list.elements()[i]);
      });
  if (s.has(d.each) && s.has(d.all))
    s.refuse(d.each, fmt::format("expected either {} or {}, found both", d.all, d.each));
  return values;
}

Activation read_activation(const JsonNode& node) {
  const std::string name = node.kind() == JsonNode::Kind::kString ? node.string() : "";
  if (name == "Relu") return Activation::kRelu;
  if (name == "Gelu") return Activation::kGelu;
  if (name != "None") config::fail_expected(node, kActivations);
  return Activation::kNone;
}

}  // namespace

std::vector<std::unique_ptr<Layer>> make_mlp(Block& s) {
  s.about(
      "Inner products one after the other, named `<name>.0`, `<name>.1` and so on. After an "
      "Interaction of two tops, it may have both as bottoms.");
  const Wiring whole = declare_wiring(s);
  if (whole.bottoms.size() != 2) expect_tensors(s, "bottom", whole.bottoms, 1);
  expect_tensors(s, "top", whole.tops, 1);
  auto param = s.object("mlp_param", "Its parameters.", kRequired);
  if (!param) return {};
  std::vector<int64_t> outputs;
  if (param->integers("num_outputs", &outputs, {1, kMaxOutputs}, "Width of each layer.",
                      kRequired) &&
      outputs.empty())
    param->expected("num_outputs", "the width of at least one layer");
  const size_t count = outputs.size();
  const auto activations = declare_option(*param,
                                          {"activation",
                                           "activations",
                                           {kActivations, R"("enum":["Relu","Gelu","None"])"},
                                           "`\"Relu\"`",
                                           "Activation of all layers. `Gelu` is an extension.",
                                           "Activation of each layer, instead."},
                                          count, Activation::kRelu, read_activation);
  const auto biases = declare_option(*param,
                                     {"use_bias",
                                      "biases",
                                      {"true or false", R"("type":"boolean")"},
                                      "`true`",
                                      "Whether all layers have a bias.",
                                      "Whether each layer has a bias, instead."},
                                     count, true, config::to_boolean);
  const auto rates = declare_option(
      *param,
      {"dropout",
       "dropouts",
       {config::range_text(kDropoutRates), R"("type":"number","minimum":0,"maximum":0.9999)"},
       "`0`",
       "Extension: rate of a `Dropout` after each layer with an activation; logits have none.",
       "Extension: rate of a `Dropout` after each layer, instead."},
      count, 0.0, [](const JsonNode& node) { return config::to_number(node, kDropoutRates); });
  InnerProductOptions options{.weight_init = InitializerType::kFanInUniform,
                              .bias_init = InitializerType::kFanInUniform};
  constexpr const char* kUniform = "uniform within sqrt(1 / in)";
  param->choice("weight_init", &options.weight_init, named_initializers(),
                "Initializer of the weights.", otherwise(kUniform));
  param->choice("bias_init", &options.bias_init, named_initializers(), "Initializer of the biases.",
                otherwise(kUniform));
  param->accept("num_output",
                "Accepted, without effect: later versions write it in addition to `num_outputs`.");
  const bool each_has_rate = param->has("dropouts");
  param->finish();
  if (whole.bottoms.empty() || whole.tops.empty()) return {};

  std::vector<std::unique_ptr<Layer>> parts;
  std::vector<std::string> from = whole.bottoms;
  // A layer named `name`, whose top is the MLP's if it is the `last` one.
  const auto add = [&](const std::string& name, const char* type, bool last, auto&& make) {
    const std::string to = last ? whole.tops[0] : name;
    parts.push_back(
        make(*s.node(), Wiring{.name = name, .type = type, .bottoms = from, .tops = {to}}));
    from = {to};
  };
  for (size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("{}.{}", whole.name, i);
    const bool last = i + 1 == count, gelu = activations[i] == Activation::kGelu;
    const bool drops = rates[i] > 0 && (each_has_rate || activations[i] != Activation::kNone);
    options.outputs = outputs[i];
    options.relu = activations[i] == Activation::kRelu;
    options.bias = biases[i];
    add(name, "FusedInnerProduct", last && !gelu && !drops,
        [&](const JsonNode& node, const Wiring& wiring) {
          return make_inner_product_part(node, wiring, options);
        });
    if (gelu) add(name + ".gelu", "GELU", last && !drops, make_gelu_part);
    if (drops)
      add(name + ".dropout", "Dropout", last, [&](const JsonNode& node, const Wiring& wiring) {
        return make_dropout_part(node, wiring, rates[i]);
      });
  }
  return parts;
}

}  // namespace hlite::network
