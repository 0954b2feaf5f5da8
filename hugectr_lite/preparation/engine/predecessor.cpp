#include "hugectr_lite/preparation/engine/predecessor.h"

#include <filesystem>

#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"

namespace hlite::prep {

using config::JsonNode;
using config::member;

Predecessor::Predecessor(const std::string& folder, const std::string& tool,
                         const OutputOptions& output)
    : folder_(folder),
      path_(folder + "/manifest.json"),
      manifest_(data::Manifest::read(path_)),
      options_(JsonNode::parse(manifest_.options_json, path_)),
      features_(JsonNode::parse(manifest_.features_json.empty() ? "{}" : manifest_.features_json,
                                path_)) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    raise<ConfigError>("--continue-from {}: expected {}, found {}", folder, expected, found);
  };
  if (manifest_.tool != tool) refuse("a preparation by " + tool, "one by " + manifest_.tool);
  if (const JsonNode* hash = options_.find("hash"); hash && config::to_integer(*hash) > 0)
    refuse("ids from a dictionary",
           "--hash, whose ids are the same in every preparation; leave out --continue-from");
  if (const JsonNode* order = options_.find("order"); order && config::to_string(*order) != "first")
    refuse("ids in order of first appearance",
           "--order " + config::to_string(*order) + ", in which new ids would change old ones");
  if (manifest_.features_json.empty())
    refuse("a vocabulary", "a preparation without --save-vocabulary");
  for (const std::string& lists :
       {config::to_string(member(options_, "multi_hot")), output.multi_hot})
    if (!lists.empty())
      refuse("one key for each slot",
             "--multi-hot " + lists + ", whose lists depend on the sizes of the tables");
  std::error_code none;
  if (std::filesystem::equivalent(folder, output.folder, none))
    refuse("another folder than --out", "the same");
}

const JsonNode& Predecessor::option(const char* name) const { return member(options_, name); }

const std::vector<JsonNode>& Predecessor::features(const char* name) const {
  return config::to_list(member(features_, name));
}

int64_t Predecessor::same_option(const char* option_name, const char* name, int64_t given,
                                 int64_t unset) const {
  const int64_t before = config::to_integer(option(name));
  if (given != unset && given != before)
    raise<ConfigError>("{}: expected {} as in {}, which --continue-from names, found {}",
                       option_name, before, folder_, given);
  return before;
}

KnownKeys Predecessor::known_keys(bool skips_first) const {
  return [this, skips_first](int slot, const std::function<void(uint64_t)>& visit) {
    const auto s = static_cast<size_t>(slot);
    const int64_t expected = manifest_.slot_sizes.at(s) - (skips_first ? 1 : 0);
    int64_t found = 0;
    read_vocabulary(folder_, features("categorical").at(s), skips_first ? 1 : 0, [&](uint64_t key) {
      ++found;
      visit(key);
    });
    if (found != expected)
      raise<DataError>("{}: column {}: expected a vocabulary of {} categories, found {}", path_,
                       manifest_.columns.at(s).name, expected, found);
  };
}

std::vector<std::string> Predecessor::vocabularies() const {
  std::vector<std::string> paths;
  for (const JsonNode& column : features("categorical"))
    paths.push_back(folder_ + "/" + config::to_string(member(column, "vocabulary")));
  return paths;
}

void Predecessor::link(data::Manifest& manifest) const {
  const data::DataIdentity before = manifest_.identity();
  data::DataIdentity now{.slots = before.slots, .dense = manifest.dense, .rules = manifest.rules};
  if (const std::string differs = data::difference(before, now); !differs.empty())
    raise<ConfigError>(
        "--continue-from {}: expected the same transforms and rules, found others: {}", folder_,
        differs);
  manifest.continues = manifest_.continues;
  manifest.continues.push_back(data::digits_of(before));
}

}  // namespace hlite::prep
