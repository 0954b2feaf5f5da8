// MLP: inner products one behind the other, each with its own width, activation and bias. It stands
// for that many layers, <name>.0, <name>.1, ..., whose tensors between them have their names.
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/inner_product.h"

namespace hlite::network {
namespace {

using config::JsonNode;

constexpr int64_t kMostOutputs = int64_t{1} << 24;

bool is_relu(const JsonNode& node) {
  if (node.kind() != JsonNode::Kind::kString ||
      (node.string() != "Relu" && node.string() != "None"))
    config::fail_expected(node, "\"Relu\" or \"None\"");
  return node.string() == "Relu";
}

bool is_true(const JsonNode& node) {
  if (node.kind() != JsonNode::Kind::kBool) config::fail_expected(node, "true or false");
  return node.boolean();
}

// For each of `count` layers: what the list under `each` says, or the value under `all`, or true.
template <typename Read>
std::vector<bool> switches(config::ObjectReader& param, const char* each, const char* all,
                           size_t count, Read&& read) {
  const JsonNode *const list = param.find(each), *const one = param.find(all);
  if (list && one)
    config::fail_at(*list, fmt::format("expected either {} or {}, found both", all, each));
  if (!list) return std::vector<bool>(count, one ? read(*one) : true);
  if (list->kind() != JsonNode::Kind::kArray || list->elements().size() != count)
    config::fail_expected(*list, "a list as long as num_outputs");
  std::vector<bool> values;
  for (const JsonNode& element : list->elements()) values.push_back(read(element));
  return values;
}

}  // namespace

std::vector<std::unique_ptr<Layer>> make_mlp(config::ObjectReader& reader) {
  const Wiring whole = read_wiring(reader);
  expect_tensors(reader.node(), "bottom", whole.bottoms, 1);
  expect_tensors(reader.node(), "top", whole.tops, 1);
  auto param = reader.object("mlp_param");
  const std::vector<int64_t> outputs = param.integers("num_outputs", {1, kMostOutputs});
  const size_t count = outputs.size();
  if (count == 0)
    config::fail_expected(param.member("num_outputs"), "the width of at least one layer");
  const std::vector<bool> relus = switches(param, "activations", "activation", count, is_relu);
  const std::vector<bool> biases = switches(param, "biases", "use_bias", count, is_true);
  InnerProductOptions options;
  options.weight_init =
      param.value_or("weight_init", InitializerType::kFanInUniform, named_initializers());
  options.bias_init =
      param.value_or("bias_init", InitializerType::kFanInUniform, named_initializers());
  param.accept("num_output");  // which later versions write beside num_outputs, and do not read
  param.finish();

  const auto part_name = [&](size_t i) { return fmt::format("{}.{}", whole.name, i); };
  std::vector<std::unique_ptr<Layer>> parts;
  for (size_t i = 0; i < count; ++i) {
    options.outputs = outputs[i];
    options.relu = relus[i];
    options.bias = biases[i];
    parts.push_back(
        make_inner_product_part(reader.node(),
                                {.name = part_name(i),
                                 .type = "FusedInnerProduct",
                                 .bottoms = {i == 0 ? whole.bottoms[0] : part_name(i - 1)},
                                 .tops = {i + 1 == count ? whole.tops[0] : part_name(i)}},
                                options));
  }
  return parts;
}

}  // namespace hlite::network
