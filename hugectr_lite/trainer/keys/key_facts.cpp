#include "hugectr_lite/trainer/keys/key_facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "embedding/embedding_layer.h"
#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/config/key_record.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/layer_registry.h"
#include "hugectr_lite/trainer/keys/key_meanings.h"
#include "hugectr_lite/trainer/keys/key_samples.h"

namespace hlite::trainer {
namespace {

using Pointer = Json::json_pointer;

void read_config(const Json& json) {
  const auto config = config::parse_train_config(json.dump(), "sample", {});
  for (const config::JsonNode* layer : config->layers)
    if (config::embedding_type(layer->find("type")->string()))
      const embedding::EmbeddingLayer embedding(*layer, *config);
}

void read_layer(const Json& json) {
  network::make_layers(config::JsonNode::parse(json.dump(), "sample"), true);
}

// "layers[0].label" -> "/layers/0/label"
Pointer pointer_to(const std::string& path) {
  std::string text;
  for (const char c : path)
    if (c == '.' || c == '[')
      text += '/';
    else if (c != ']')
      text += c;
  return Pointer(text.empty() ? text : "/" + text);
}

// "label" for "layers[0].label", "sparse" for "layers[0].sparse[0]".
std::string last_key(const std::string& path) {
  const std::string last = path.substr(path.rfind('.') + 1);  // all where there is no dot
  return last.substr(0, last.find('['));
}

class Sample {
 public:
  Sample(Json json, bool dense) : json_(std::move(json)), dense_(dense) {}

  // What is wrong with `json`; empty: nothing.
  [[nodiscard]] std::string error_of(const Json& json) const {
    try {
      dense_ ? read_layer(json) : read_config(json);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return {};
  }

  void add_to(ConfigFacts& facts) const {
    const config::KeyRecord record;
    if (const std::string error = error_of(json_); !error.empty())
      raise("a sample of the reference is none: {}", error);
    const auto objects = record.objects();  // as they are now: probes add to the record
    for (const auto& [path, keys] : objects)
      for (const config::KnownKey& key : keys)
        if (key.refused.empty())
          add_key(path, key, facts);
        else
          facts.refused[key.name] = key.refused;
  }

 private:
  // The object's name in key_meanings.h.
  [[nodiscard]] std::string block_of(const std::string& path, const std::string& key) const {
    const std::string last = last_key(path);
    if (path.empty() && dense_) {
      const auto all = {"name", "type", "bottom", "top"};
      const bool common = std::find(all.begin(), all.end(), key) != all.end();
      return common || key.ends_with("_param") ? "layer" : variant_of("");
    }
    if (path == "layers[0]") return "Data";
    if (last == "layers") return "embedding";
    if (last.ends_with("_hparam") && path.starts_with("optimizer")) return "hparam";
    return last;
  }

  [[nodiscard]] std::string variant_of(const std::string& block) const {
    if (block == "layer") return "";
    if (dense_) return json_.at("type");
    if (block == "optimizer" || block == "hparam") return json_.at("optimizer").at("type");
    for (const char* data : {"Data", "label", "dense", "sparse", "async_param", "columns"})
      if (block == data) return json_.at("layers").at(0).at("format");
    for (const char* embedding : {"embedding", "sparse_embedding_hparam", "sharding_param"})
      if (block == embedding) return json_.at("layers").at(1).at("type");
    return "";
  }

  // One name for objects that are named after what they are in.
  static std::string shared_name(const std::string& block, const std::string& key) {
    if (block == "optimizer" && key.ends_with("_hparam")) return "<type>_hparam";
    return block == "layer" && key.ends_with("_param") ? "<type>_param" : key;
  }

  // What the parser expects at `path` where it finds `value`; empty: it takes that.
  [[nodiscard]] std::string expected(const std::string& path, const Json& value,
                                     const char* element = "") const {
    Json probe = json_;
    probe[pointer_to(path)] = value;
    const std::string error = error_of(probe);
    const std::string begin = path + element + ": expected ";
    const std::string found = ", found " + (*element == '\0' ? value : Json()).dump();
    const size_t at = error.find(begin);
    const size_t end = at == std::string::npos ? at : error.find(found, at);
    if (end == std::string::npos) return {};
    return error.substr(at + begin.size(), end - at - begin.size());
  }

  [[nodiscard]] std::string takes(const std::string& path) const {
    std::string text = expected(path, nullptr);
    if (text == "an integer")  // what else it has to be shows with one that it cannot be
      if (const std::string more = expected(path, -1); !more.empty()) text = more;
    if (text.find("list") == std::string::npos) return text;
    const std::string each = expected(path, Json::array({nullptr}), "[0]");
    return each.empty() || each == text || each == "an object" ? text : text + "; each " + each;
  }

  [[nodiscard]] bool required(const std::string& path, const std::string& key) const {
    Json probe = json_;
    if (!probe.contains(pointer_to(path))) return false;
    probe.at(pointer_to(path).parent_pointer()).erase(pointer_to(path).back());
    return error_of(probe).find(fmt::format("missing key \"{}\"", key)) != std::string::npos;
  }

  void add_key(const std::string& object, const config::KnownKey& key, ConfigFacts& facts) const {
    const std::string block = block_of(object, key.name), variant = variant_of(block);
    const std::string path = config::member_path(object, key.name);
    BlockFacts& of = facts.blocks[block];
    if (std::find(of.variants.begin(), of.variants.end(), variant) == of.variants.end())
      of.variants.push_back(variant);
    KeyFacts& known = of.keys[shared_name(block, key.name)];
    KeyFacts::Variant& here = known.variants[variant];
    if (here.takes.empty()) here.takes = takes(path);
    here.required = here.required && required(path, key.name);
    auto& said = here.otherwise;
    if (!key.otherwise.empty() && std::find(said.begin(), said.end(), key.otherwise) == said.end())
      said.push_back(key.otherwise);
  }

  Json json_;
  bool dense_;
};

}  // namespace

ConfigFacts ask_parser() {
  ConfigFacts facts;
  for (const Json& json : config_samples()) Sample(json, false).add_to(facts);
  for (const Json& json : layer_samples()) Sample(json, true).add_to(facts);
  return facts;
}

}  // namespace hlite::trainer
