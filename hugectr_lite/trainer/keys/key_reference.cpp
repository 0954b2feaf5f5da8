#include "hugectr_lite/trainer/keys/key_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

namespace hlite::trainer {
namespace {

using config::BlockSchema;
using config::KeySchema;

constexpr const char* kReferenceHead = R"(# Config reference

All keys that a config may have. `train --keys` prints this page; it is made from the declarations that the parser
reads configs with. A key that is not here is an error, which names the line and the closest key. An *extension* is a
key that HugeCTR 3.1 does not have. In parentheses: the types that a line is about, if not all.

`train --keys --json-schema` prints the same as a JSON Schema, with which an editor completes and checks configs.
)";

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string default_of(const KeySchema& key) {
  if (key.required) return "required";
  if (!key.in_words.empty()) return key.in_words;
  return key.otherwise.empty() ? "none" : fmt::format("`{}`", key.otherwise);
}

// A key that blocks of several types declare.
using TypedKeys = std::vector<std::pair<std::string, const KeySchema*>>;

// The text of a key; if types differ, "one (A); other (B)".
template <typename Text>
std::string by_type(const TypedKeys& keys, Text&& text) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& [type, key] : keys) {
    const std::string of = text(*key);
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == of; });
    if (group == groups.end()) group = groups.insert(group, {of, {}});
    group->second.push_back(type);
  }
  if (groups.size() == 1) return groups.front().first;
  std::vector<std::string> parts;
  for (const auto& [of, types] : groups)
    parts.push_back(fmt::format("{} ({})", of, fmt::join(types, ", ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

// The names of a key, "`a`"; several if each type has its own.
std::string names_of(const TypedKeys& keys) {
  std::vector<std::string> names;
  for (const auto& [type, key] : keys)
    if (const std::string name = fmt::format("`{}`", key->name);
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// The keys of all types, in order of first declaration. Keys with a `variant`, such as sgd_hparam,
// are merged into one.
std::vector<TypedKeys> merged(const TypedBlocks& blocks) {
  std::vector<TypedKeys> rows;
  for (const auto& [type, block] : blocks)
    for (const KeySchema& key : block.keys) {
      const auto same = std::find_if(rows.begin(), rows.end(), [&](const TypedKeys& row) {
        const KeySchema& other = *row.front().second;
        return key.variant.empty() ? other.name == key.name : !other.variant.empty();
      });
      TypedKeys& row = same == rows.end() ? rows.emplace_back() : *same;
      row.emplace_back(key.variant.empty() ? type : key.variant, &key);
    }
  return rows;
}

class Page {
 public:
  std::string text = kReferenceHead;

  void heading(const char* level, const std::string& title, const std::string& about) {
    text += fmt::format("\n{} {}\n\n", level, title);
    if (!about.empty()) text += about + "\n\n";
  }
  // Adds a block and its nested blocks, each once. `path`: prefix of the nested names.
  void section(const char* level, const std::string& title, const TypedBlocks& blocks,
               const std::string& path = "") {
    heading(level, title, blocks.front().second.text);
    text += key_table(blocks);
    for (const TypedKeys& key : merged(blocks)) {
      TypedBlocks inner;
      for (const auto& [type, of_type] : key)
        if (of_type->block) inner.emplace_back(type, *of_type->block);
      if (inner.empty() || !seen_.insert(key.front().second->name).second) continue;
      const KeySchema& first = *key.front().second;
      const std::string name = path + (first.variant.empty() ? first.name : "<type>_hparam");
      section("###", fmt::format("`{}`", name), inner, name + ".");
    }
  }

 private:
  std::set<std::string> seen_;
};

// Keys of objects get the object's name: `fc_param.num_output`.
void add_flat(const BlockSchema& from, const std::string& prefix, BlockSchema& to) {
  for (const KeySchema& key : from.keys) {
    if (prefix.empty() && is_wiring(key)) continue;
    if (key.block) {
      add_flat(*key.block, key.name + ".", to);
      continue;
    }
    to.keys.push_back(key);
    to.keys.back().name = prefix + key.name;
  }
}

void add_layers(const TypedBlocks& layers, Page& page) {
  page.heading("##", "Dense layers", "A loss comes last.");
  page.text += "| type | what it does |\n|---|---|\n";
  for (const auto& [type, block] : layers)
    page.text += fmt::format("| `{}` | {} |\n", type, cell(block.text));
  BlockSchema wiring;
  const auto& keys = layers.front().second.keys;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(wiring.keys), is_wiring);
  page.section("###", "Every dense layer", {{"", wiring}});
  for (const auto& [type, block] : layers) {
    BlockSchema own;
    add_flat(block, "", own);
    if (!own.keys.empty()) page.section("###", fmt::format("`{}`", type), {{type, own}});
  }
}

}  // namespace

std::string key_table(const TypedBlocks& blocks) {
  std::string text = "| key | takes | default | meaning |\n|---|---|---|---|\n";
  for (const TypedKeys& key : merged(blocks)) {
    std::vector<std::string> types;
    for (const auto& [type, unused] : key) types.push_back(type);
    const bool all = types.size() == blocks.size() || !key.front().second->variant.empty();
    text += fmt::format("| {}{} | {} | {} | {} |\n", names_of(key),
                        all ? "" : fmt::format(" ({})", fmt::join(types, ", ")),
                        cell(by_type(key, [](const KeySchema& k) { return k.takes; })),
                        cell(by_type(key, default_of)),
                        cell(by_type(key, [](const KeySchema& k) { return k.meaning; })));
  }
  return text;
}

std::string key_reference() {
  const ConfigKeys keys = config_keys();
  Page page;
  page.section("##", "The file", {{"", keys.config}});
  page.section("##", "The Data layer: `layers[0]`", {{"", keys.data}});
  page.section("##", "Embedding layers", keys.embeddings);
  add_layers(keys.layers, page);
  page.heading("##", "Refused keys of `solver`",
               "Names of other versions and of HugeCTR's Python interface. The error says what to "
               "do.");
  page.text += "| key | instead |\n|---|---|\n";
  for (const KeySchema& key : keys.config.keys)
    if (key.block)
      for (const auto& [name, instead] : key.block->refused)
        page.text += fmt::format("| `{}` | {} |\n", name, cell(instead));
  return page.text;
}

}  // namespace hlite::trainer
