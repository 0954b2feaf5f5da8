#include "hugectr_lite/trainer/keys/key_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {

constexpr const char* kReferenceHead = R"(# Config reference

Every key that a config may have. `train --keys` prints this page: which keys there are, what they take and what an
absent one stands for is asked of the parser, in whose words it is said. A key that is not here is an error, with the
line and the nearest name. "Ours": HugeCTR 3.1 does not have it. In parentheses: which types or formats a line is of,
where not all.
)";

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    if (at == 0 || text[at - 1] != '\\') text.insert(at, "\\");
  return text;
}

// " (Adam, Ftrl)"; nothing where these are all that there are.
std::string only(const std::vector<std::string>& some, const std::vector<std::string>& all) {
  return some.size() == all.size() ? "" : fmt::format(" ({})", fmt::join(some, ", "));
}

using Variant = KeyFacts::Variant;
using NamedVariants = std::vector<std::pair<std::string, Variant>>;

// Those of a key, in the order of its object's.
NamedVariants in_order(const KeyFacts& key, const std::vector<std::string>& order) {
  NamedVariants variants;
  for (const std::string& name : order)
    if (const auto found = key.variants.find(name); found != key.variants.end())
      variants.emplace_back(name, found->second);
  return variants;
}

// text(variant), or where that differs "required (Adam); `1e-08` (AdaGrad)". Empty ones are left
// out.
template <typename Text>
std::string by_variant(const NamedVariants& variants, Text&& text) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  size_t all = 0;
  for (const auto& [name, variant] : variants) {
    std::string of = text(variant);
    if (of.empty()) continue;
    ++all;
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == of; });
    if (group == groups.end()) group = groups.insert(group, {std::move(of), {}});
    group->second.push_back(name);
  }
  std::vector<std::string> parts;
  for (const auto& [of, names] : groups)
    parts.push_back(names.size() == all ? of : fmt::format("{} ({})", of, fmt::join(names, ", ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string takes_text(const NamedVariants& variants) {
  const std::string text = by_variant(variants, [](const Variant& v) { return v.takes; });
  return text.empty() ? "anything" : text;
}

std::string default_text(const KeyMeaning& meaning, const NamedVariants& variants,
                         const std::string& place, std::string& problems) {
  const std::string words = meaning.otherwise;
  const bool depends = std::any_of(variants.begin(), variants.end(),
                                   [](const auto& v) { return v.second.otherwise.size() > 1; });
  if (depends && words.empty())
    problems += fmt::format("{}: expected what its default depends on, found nothing\n", place);
  bool used = false;
  std::string text = by_variant(variants, [&](const Variant& v) -> std::string {
    if (v.required) return "required";
    if (v.otherwise.size() == 1 && !(depends && !words.empty()))
      return fmt::format("`{}`", v.otherwise.front());
    used = true;
    return words.empty() ? "none" : words;
  });
  if (!words.empty() && !used)
    problems +=
        fmt::format("{}: expected no default, as the parser says it, found \"{}\"\n", place, words);
  return text;
}

// Of the block called `name`; none where nothing reads such.
const BlockFacts& facts_of(const ConfigFacts& facts, const std::string& name,
                           std::string& problems) {
  static const BlockFacts kNone;
  const auto found = facts.blocks.find(name);
  if (found != facts.blocks.end()) return found->second;
  problems += fmt::format("{}: expected an object that the parser reads, found none\n", name);
  return kNone;
}

std::string layer_table(const std::vector<LayerMeaning>& layers) {
  std::string text = "| type | what |\n|---|---|\n";
  for (const LayerMeaning& layer : layers)
    text += fmt::format("| `{}` | {} |\n", layer.type, cell(layer.text));
  return text;
}

std::string refused_table(const ConfigFacts& facts) {
  std::string text =
      "\n## Refused keys of `solver`\n\nOther versions' names, and HugeCTR's Python interface's. "
      "The "
      "error says what to do.\n\n| key | instead |\n|---|---|\n";
  for (const auto& [key, instead] : facts.refused)
    text += fmt::format("| `{}` | {} |\n", key, cell(instead));
  return text;
}

}  // namespace

std::string block_reference(const BlockMeaning& meaning, const BlockFacts& facts,
                            std::string& problems) {
  std::string text = "| key | takes | default | meaning |\n|---|---|---|---|\n";
  const std::string block = *meaning.block == '\0' ? "config" : meaning.block;
  std::set<std::string> missing;
  for (const auto& [key, unused] : facts.keys) missing.insert(key);
  for (const KeyMeaning& of : meaning.keys) {
    const std::string place = fmt::format("{}.{}", block, of.key);
    const auto found = facts.keys.find(of.key);
    if (found == facts.keys.end()) {
      problems += fmt::format("{}: expected a key that the parser knows, found none\n", place);
      continue;
    }
    missing.erase(of.key);
    const NamedVariants variants = in_order(found->second, facts.variants);
    std::vector<std::string> names;
    for (const auto& [name, variant] : variants) names.push_back(name);
    text += fmt::format("| `{}`{} | {} | {} | {} |\n", of.key, only(names, facts.variants),
                        cell(takes_text(variants)),
                        cell(default_text(of, variants, place, problems)), cell(of.text));
  }
  for (const std::string& key : missing)
    problems += fmt::format("{}.{}: expected a meaning (key_meanings.h), found none\n", block, key);
  return text;
}

std::string key_reference() {
  const ConfigFacts facts = ask_parser();
  std::string text = kReferenceHead, problems;
  std::set<std::string> left;
  for (const auto& [block, unused] : facts.blocks) left.insert(block);
  const auto add = [&](const BlockMeaning& meaning, const char* level, bool of_types) {
    left.erase(meaning.block);
    const BlockFacts& of = facts_of(facts, meaning.block, problems);
    text += fmt::format("\n{} {}\n\n", level, meaning.title);
    if (*meaning.text != '\0') text += fmt::format("{}\n\n", meaning.text);
    if (of_types && of.variants.size() > 1)
      text += fmt::format("Of `{}`.\n\n", fmt::join(of.variants, "`, `"));
    text += block_reference(meaning, of, problems);
  };
  for (const BlockMeaning& meaning : config_meanings()) add(meaning, "##", false);
  text += "\n## Dense layers\n\nA loss comes last.\n\n" + layer_table(layer_meanings());
  for (const BlockMeaning& meaning : layer_block_meanings()) add(meaning, "###", true);
  text += refused_table(facts);
  for (const std::string& block : left)
    problems += fmt::format("{}: expected an object of key_meanings.h, found none\n", block);
  if (!problems.empty()) raise("the reference of keys:\n{}", problems);
  return text;
}

}  // namespace hlite::trainer
