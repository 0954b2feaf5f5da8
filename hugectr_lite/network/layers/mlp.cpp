// MLP: inner products one behind the other, each with its own width, activation and bias. It stands
// for that many layers, <name>.0, <name>.1, ..., whose tensors between them have their names.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/inner_product.h"

namespace hlite::network {
namespace {

using config::JsonNode;

constexpr int64_t kMostOutputs = int64_t{1} << 24;

// A switch of each layer: set by the list under `each`, else by the value under `all`, else true.
struct Switch {
  const char *all, *each;
  config::Takes takes;
  const char *initial, *meaning_of_all, *meaning_of_each;
};

template <typename Read>
std::vector<bool> declare_switch(Block& s, const Switch& d, size_t count, Read&& read) {
  std::vector<bool> values(count, true);
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

}  // namespace

std::vector<std::unique_ptr<Layer>> make_mlp(Block& s) {
  s.about("Inner products one after the other, named `<name>.0`, `<name>.1` and so on.");
  const Wiring whole = declare_wiring(s);
  expect_tensors(s, "bottom", whole.bottoms, 1);
  expect_tensors(s, "top", whole.tops, 1);
  auto param = s.object("mlp_param", "Its parameters.", kRequired);
  if (!param) return {};
  std::vector<int64_t> outputs;
  if (param->integers("num_outputs", &outputs, {1, kMostOutputs}, "Width of each layer.",
                      kRequired) &&
      outputs.empty())
    param->expected("num_outputs", "the width of at least one layer");
  const size_t count = outputs.size();
  const std::vector<bool> relus =
      declare_switch(*param,
                     {"activation",
                      "activations",
                      {"\"Relu\" or \"None\"", R"("enum":["Relu","None"])"},
                      "`\"Relu\"`",
                      "Activation of all layers.",
                      "Activation of each layer, instead."},
                     count, [](const JsonNode& node) {
                       if (node.kind() != JsonNode::Kind::kString ||
                           (node.string() != "Relu" && node.string() != "None"))
                         config::fail_expected(node, "\"Relu\" or \"None\"");
                       return node.string() == "Relu";
                     });
  const std::vector<bool> biases = declare_switch(*param,
                                                  {"use_bias",
                                                   "biases",
                                                   {"true or false", R"("type":"boolean")"},
                                                   "`true`",
                                                   "Whether all layers have a bias.",
                                                   "Whether each layer has a bias, instead."},
                                                  count, config::to_boolean);
  InnerProductOptions options{.weight_init = InitializerType::kFanInUniform,
                              .bias_init = InitializerType::kFanInUniform};
  constexpr const char* kUniform = "uniform within sqrt(1 / in)";
  param->choice("weight_init", &options.weight_init, named_initializers(),
                "Initializer of the weights.", otherwise(kUniform));
  param->choice("bias_init", &options.bias_init, named_initializers(), "Initializer of the biases.",
                otherwise(kUniform));
  param->accept("num_output",
                "Accepted, without effect: later versions write it beside `num_outputs`.");
  param->finish();
  if (whole.bottoms.empty() || whole.tops.empty()) return {};

  const auto part_name = [&](size_t i) { return fmt::format("{}.{}", whole.name, i); };
  std::vector<std::unique_ptr<Layer>> parts;
  for (size_t i = 0; i < count; ++i) {
    options.outputs = outputs[i];
    options.relu = relus[i];
    options.bias = biases[i];
    parts.push_back(
        make_inner_product_part(*s.node(),
                                {.name = part_name(i),
                                 .type = "FusedInnerProduct",
                                 .bottoms = {i == 0 ? whole.bottoms[0] : part_name(i - 1)},
                                 .tops = {i + 1 == count ? whole.tops[0] : part_name(i)}},
                                options));
  }
  return parts;
}

}  // namespace hlite::network
