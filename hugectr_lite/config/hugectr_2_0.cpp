#include "hugectr_lite/config/hugectr_2_0.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/config/json_members.h"

namespace hlite::config {
namespace {

using Kind = JsonNode::Kind;

JsonNode data_layer(JsonNode data) {
  JsonNode layer = JsonNode::parse_at(
      R"({"name": "data", "type": "Data", "label": {"top": "label"},
          "dense": {"top": "dense", "dense_dim": 0},
          "sparse": [{"top": "keys", "type": "DistributedSlot"}]})",
      data);
  for (auto& [key, value] : data.members()) {
    if (layer.find(key))
      fail_at(value,
              fmt::format("expected the keys of HugeCTR 2.0, found \"{}\" of a Data layer", key));
    JsonNode* home = &layer;
    if (key == "label_dim") home = member(layer, "label");
    if (key == "slot_num" || key == "max_feature_num_per_sample")
      home = &member(layer, "sparse")->elements().front();
    home->members().emplace_back(key, std::move(value));
  }
  for (const auto& [key, value] :
       {std::pair("format", R"("Norm")"), std::pair("check", R"("None")")})
    if (!layer.find(key)) layer.members().emplace_back(key, JsonNode::parse_at(value, data));
  return layer;
}

void translate_embedding(JsonNode& layer, const JsonNode* slots) {
  if (!layer.find("bottom"))
    layer.members().emplace_back("bottom", JsonNode::parse_at(R"("keys")", layer));
  JsonNode* const hparam = member(layer, "sparse_embedding_hparam");
  const JsonNode* const own = hparam ? hparam->find("slot_num") : nullptr;
  if (!own) return;
  if (!slots || own->dump() != slots->dump())
    fail_expected(*own, fmt::format("{}, the slot_num of data", slots ? slots->found() : "none"));
  std::erase_if(hparam->members(), [](const auto& each) { return each.first == "slot_num"; });
}

void translate_layer(JsonNode& layer, const JsonNode* slots) {
  const std::string type = text_at(layer, "type");
  if (embedding_type(type)) return translate_embedding(layer, slots);
  JsonNode* const bottom = member(layer, "bottom");
  if (!bottom || bottom->kind() != Kind::kString) return;
  if (type == "Concat") *member(layer, "type") = JsonNode::parse_at(R"("Reshape")", layer);
  if (type.ends_with("Loss"))
    *bottom = JsonNode::parse_at(fmt::format(R"([{}, "label"])", bottom->dump()), *bottom);
}

}  // namespace

void translate_hugectr_2_0(JsonNode& root) {
  JsonNode* const data = member(root, "data");
  JsonNode* const layers = member(root, "layers");
  if (!data || data->kind() != Kind::kObject || !layers || layers->kind() != Kind::kArray) return;
  for (const JsonNode& layer : layers->elements())
    if (text_at(layer, "type") == "Data") return;
  for (JsonNode& layer : layers->elements()) translate_layer(layer, data->find("slot_num"));
  layers->elements().insert(layers->elements().begin(), data_layer(std::move(*data)));
  std::erase_if(root.members(), [](const auto& each) { return each.first == "data"; });
}

}  // namespace hlite::config
