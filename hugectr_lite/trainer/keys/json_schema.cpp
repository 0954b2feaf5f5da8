#include "hugectr_lite/trainer/keys/json_schema.h"

#include <nlohmann/json.hpp>

#include "hugectr_lite/trainer/keys/config_keys.h"

namespace hlite::trainer {
namespace {

using config::BlockSchema;
using config::KeySchema;
using Json = nlohmann::ordered_json;

// A schema of all that a config must be, or only of the names of its keys: these are not checked if
// the config says "strict": false.
enum class SchemaPart { kAll, kNames };

Json object_schema(const BlockSchema& block, SchemaPart part);

Json key_schema(const KeySchema& key, SchemaPart part) {
  Json schema = part == SchemaPart::kAll ? Json::parse("{" + key.json + "}") : Json::object();
  if (part == SchemaPart::kAll) schema["description"] = key.meaning;
  if (part == SchemaPart::kAll && !key.otherwise.empty())
    schema["default"] = Json::parse(key.otherwise);
  if (!key.block) return schema;
  Json inner = object_schema(*key.block, part);
  if (!key.word.empty())
    schema["anyOf"] = {{{"const", key.word}}, std::move(inner)};
  else if (key.json.empty())
    schema.update(inner);
  else
    schema["items"] = std::move(inner);  // a list of objects
  return schema;
}

// `then` holds of objects whose `key` is `value`.
Json only_if(const char* key, const Json& value, Json then) {
  return {{"if", {{"properties", {{key, {{"const", value}}}}}, {"required", {key}}}},
          {"then", std::move(then)}};
}

Json object_schema(const BlockSchema& block, SchemaPart part) {
  Json schema = Json::object(), required = Json::array(), conditions = Json::array();
  if (part == SchemaPart::kAll) schema["type"] = "object";
  schema["properties"] = Json::object();
  for (const KeySchema& key : block.keys) {
    schema["properties"][key.name] = key_schema(key, part);
    if (!key.variant.empty())
      conditions.push_back(only_if("type", key.variant, {{"required", {key.name}}}));
    else if (key.required)
      required.push_back(key.name);
  }
  for (const auto& [key, instead] : block.refused)
    schema["properties"][key] = {{"not", Json::object()},
                                 {"deprecated", true},
                                 {"description", "Not supported: " + instead}};
  if (part == SchemaPart::kNames) {
    schema["additionalProperties"] = false;
    return schema;
  }
  if (!required.empty()) schema["required"] = required;
  if (!conditions.empty()) schema["allOf"] = conditions;
  return schema;
}

// layers[1..]: by type.
Json layer_schema(const ConfigKeys& keys, SchemaPart part) {
  Json types = Json::array(), by_type = Json::array();
  for (const TypedBlocks* blocks : {&keys.embeddings, &keys.layers})
    for (const auto& [type, block] : *blocks) {
      types.push_back(type);
      by_type.push_back(only_if("type", type, object_schema(block, part)));
      if (part == SchemaPart::kAll && !block.text.empty())
        by_type.back()["then"]["description"] = block.text;
    }
  if (part == SchemaPart::kNames) return {{"allOf", by_type}};
  return {{"type", "object"},
          {"required", {"type"}},
          {"properties", {{"type", {{"enum", types}}}}},
          {"allOf", by_type}};
}

Json root_schema(const ConfigKeys& keys, SchemaPart part) {
  Json schema = object_schema(keys.config, part);
  Json& layers = schema["properties"]["layers"];
  if (part == SchemaPart::kAll) layers.update({{"type", "array"}, {"minItems", 1}});
  layers["items"] = Json::array({object_schema(keys.data, part)});
  layers["additionalItems"] = layer_schema(keys, part);
  return schema;
}

}  // namespace

std::string config_json_schema() {
  const ConfigKeys keys = config_keys();
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "hugectr_lite training config"}};
  schema.update(root_schema(keys, SchemaPart::kAll));
  schema.update(only_if("strict", false, true));
  schema["else"] = root_schema(keys, SchemaPart::kNames);
  return schema.dump(1) + "\n";
}

}  // namespace hlite::trainer
