#include "hugectr_lite/config/hugectr_slips.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/config/json_members.h"
#include "hugectr_lite/core/log.h"

namespace hlite::config {
namespace {

using Kind = JsonNode::Kind;
using Layers = std::vector<JsonNode>;

JsonNode* text_member(JsonNode& object, std::string_view key) {
  JsonNode* const node = member(object, key);
  return node && node->kind() == Kind::kString ? node : nullptr;
}

int64_t integer_at(const JsonNode* object, std::string_view key) {
  const JsonNode* const node = object ? object->find(key) : nullptr;
  return node && node->kind() == Kind::kInteger ? node->integer() : 0;
}

// The names in `bottom` or `top` of a layer.
std::vector<std::string> names_at(const JsonNode& layer, std::string_view key) {
  std::vector<std::string> names;
  const JsonNode* const node = layer.find(key);
  if (!node) return names;
  if (node->kind() == Kind::kString) names.push_back(node->string());
  for (const JsonNode& each : node->elements())
    if (each.kind() == Kind::kString) names.push_back(each.string());
  return names;
}

bool reads(const JsonNode& layer, const std::string& tensor) {
  const auto names = names_at(layer, "bottom");
  return std::find(names.begin(), names.end(), tensor) != names.end();
}

std::set<std::string> tops_of_data(const JsonNode& data) {
  std::set<std::string> tops;
  for (const char* key : {"label", "dense"})
    if (const JsonNode* const node = data.find(key)) tops.insert(text_at(*node, "top"));
  if (const JsonNode* const sparse = data.find("sparse"))
    for (const JsonNode& input : sparse->elements()) tops.insert(text_at(input, "top"));
  return tops;
}

void exchange_ends(Layers& layers) {
  std::set<std::string> before = tops_of_data(layers.front()), made = before;
  for (const JsonNode& layer : layers)
    for (const std::string& top : names_at(layer, "top")) made.insert(top);
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    JsonNode *const bottom = text_member(*layer, "bottom"), *const top = text_member(*layer, "top");
    if (bottom && top && text_at(*layer, "type") == "Reshape" && !made.contains(bottom->string()) &&
        before.contains(top->string()) &&
        std::any_of(layer + 1, layers.end(),
                    [&](const JsonNode& later) { return reads(later, bottom->string()); })) {
      log::warning(
          "{}: {}: no layer makes its bottom \"{}\", and its top \"{}\" is made above: taken as "
          "exchanged",
          layer->where(), layer->path(), bottom->string(), top->string());
      JsonNode* const name = text_member(*layer, "name");
      if (name && name->string() == top->string())
        *name = JsonNode::parse_at(bottom->dump(), *name);
      const std::string was_top = top->dump();
      *top = JsonNode::parse_at(bottom->dump(), *top);
      *bottom = JsonNode::parse_at(was_top, *bottom);
    }
    for (const std::string& name : names_at(*layer, "top")) before.insert(name);
  }
}

bool works_on_rows(const JsonNode& layer) {
  static const std::set<std::string> types = {"InnerProduct", "FusedInnerProduct", "MLP",
                                              "ReLU",         "Dropout",           "BatchNorm"};
  return types.contains(text_at(layer, "type"));
}

// Only layers of rows, each with the one before it as its bottom, lie between `tensor` and a loss.
bool leads_to_loss(Layers::const_iterator layer, Layers::const_iterator end, std::string tensor) {
  for (; layer != end; ++layer) {
    if (!reads(*layer, tensor)) continue;
    if (std::any_of(layer + 1, end, [&](const auto& later) { return reads(later, tensor); }))
      return false;
    if (text_at(*layer, "type").ends_with("Loss")) return true;
    const auto tops = names_at(*layer, "top");
    if (!works_on_rows(*layer) || names_at(*layer, "bottom").size() != 1 || tops.size() != 1)
      return false;
    tensor = tops.front();
  }
  return false;
}

void widen_rows(Layers& layers) {
  std::map<std::string, int64_t> slots;  // of each sparse input
  if (const JsonNode* const sparse = layers.front().find("sparse"))
    for (const JsonNode& input : sparse->elements())
      slots[text_at(input, "top")] = integer_at(&input, "slot_num");
  std::map<std::string, std::pair<int64_t, int64_t>> vectors;  // slots and width of an embedding
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    const std::string type = text_at(*layer, "type");
    if (embedding_type(type))
      vectors[text_at(*layer, "top")] = {
          slots[text_at(*layer, "bottom")],
          integer_at(layer->find("sparse_embedding_hparam"), "embedding_vec_size")};
    const auto made = vectors.find(text_at(*layer, "bottom"));
    if (type != "Reshape" || made == vectors.end()) continue;
    const auto [count, width] = made->second;
    constexpr int64_t kMax = int64_t{1} << 24;  // beyond it the Data layer refuses
    if (count < 2 || count > kMax || width < 1 || width > kMax ||
        integer_at(&*layer, "leading_dim") != width ||
        !leads_to_loss(layer + 1, layers.end(), text_at(*layer, "top")))
      continue;
    JsonNode& leading = *member(*layer, "leading_dim");
    log::warning(
        "{}: {}: {} makes {} rows of each sample, and the loss has one label for them: taken as {}, "
        "one row for each sample",
        leading.where(), leading.path(), width, count, count * width);
    leading = JsonNode::parse_at(fmt::format("{}", count * width), leading);
  }
}

}  // namespace

void correct_hugectr_slips(JsonNode& root) {
  JsonNode* const layers = member(root, "layers");
  if (!layers || layers->elements().empty()) return;
  exchange_ends(layers->elements());
  widen_rows(layers->elements());
}

}  // namespace hlite::config
