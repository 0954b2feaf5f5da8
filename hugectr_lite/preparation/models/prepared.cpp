#include "hugectr_lite/preparation/models/prepared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "hugectr_lite/config/json_values.h"

namespace hlite::prep {
namespace {

using config::JsonNode;
using config::member;
using data::Manifest;

constexpr std::string_view kHistorySuffix = "_history";

data::ManifestFile file_of_part(const JsonNode& part, const std::string& role) {
  data::ManifestFile file;
  file.role = role;
  file.name = config::to_name(member(part, "source"));
  file.rows = config::to_integer(member(part, "samples"), {.min = 0});
  if (const JsonNode* mean = part.find("label_mean"))
    file.positives = std::llround(config::to_number(*mean, {.min = 0, .max = 1}) *
                                  static_cast<double>(file.rows));
  return file;
}

// The column whose values a list has: "item" of "item_history".
std::string item_of(const std::string& list) {
  return list.ends_with(kHistorySuffix) ? list.substr(0, list.size() - kHistorySuffix.size()) : "";
}

// Slots, and the table of each: that of the column whose values a list has.
void add_slots(const JsonNode& root, Manifest& m) {
  const JsonNode& cats = member(member(root, "columns"), "cats");
  const std::vector<std::string> names = config::to_strings(cats);
  const JsonNode& rows = member(root, "rows");
  std::map<std::string, int64_t> tables;
  for (size_t s = 0; s < names.size(); ++s) {
    const bool is_list = !rows.find(names[s]);
    const std::string of = is_list ? item_of(names[s]) : names[s];
    if (is_list && (!rows.find(of) || std::count(names.begin(), names.end(), of) == 0))
      config::fail_at(cats, fmt::format("expected columns that \"rows\" has, and lists of their "
                                        "values with the names COLUMN{}, found \"{}\"",
                                        kHistorySuffix, names[s]));
    m.columns.emplace_back().name = names[s];
    m.slot_sizes.push_back(config::to_integer(*rows.find(of), {.min = 1}));
    m.slot_tables.push_back(tables.emplace(of, std::ssize(tables)).first->second);
    m.hotness.push_back(is_list ? config::to_integer(member(root, "max_len"), {.min = 1}) : 1);
    if (!is_list) continue;
    const auto slot = static_cast<int64_t>(s);
    if (m.histories.empty()) m.histories.push_back({"history", slot, 0});
    data::History& history = m.histories.back();
    if (history.first_slot + history.slots++ != slot)
      config::fail_at(cats, fmt::format("expected lists side by side, found \"{}\" between them",
                                        names[s - 1]));
  }
}

}  // namespace

PreparedData PreparedData::of_manifest(Manifest manifest, const std::string& folder) {
  const std::string facts = folder + "manifest.json";
  return {std::move(manifest), facts, folder, nlohmann::json(facts).dump(), {}};
}

PreparedData PreparedData::of_histories(const JsonNode& facts, const std::string& name,
                                        const std::string& folder) {
  PreparedData data{{}, name, folder, {}, {}};
  Manifest& m = data.manifest;
  const bool parquet = config::to_choice(member(facts, "format"), {"Parquet", "Norm"}) == "Parquet";
  m.format = parquet ? "parquet" : "norm";
  for (const char* role : {"train", "val", "test"})
    if (const JsonNode* part = facts.find(role)) m.files.push_back(file_of_part(*part, role));
  add_slots(facts, m);
  if (parquet) {
    const JsonNode& columns = member(facts, "columns");
    data.columns = columns.dump();
    m.label_dim = std::ssize(config::to_strings(member(columns, "labels")));
    if (const JsonNode* dense = columns.find("conts"))
      m.dense_dim = std::ssize(config::to_strings(*dense));
  } else {
    const JsonNode* check = facts.find("check");
    m.options_json = nlohmann::json{{"norm_sum", check && check->string() == "Sum"}}.dump();
  }
  data.slot_sizes = fmt::format("[{}]", fmt::join(m.slot_sizes, ", "));
  return data;
}

PreparedData PreparedData::read(const std::string& path) {
  namespace fs = std::filesystem;
  const bool is_file = path.ends_with(".json");
  std::string folder = is_file ? fs::path(path).parent_path().string() : path;
  if (!folder.empty() && !folder.ends_with('/')) folder += '/';
  const std::string histories = is_file ? path : folder + "histories.json";
  if (is_file ? !path.ends_with("manifest.json")
              : !fs::exists(folder + "manifest.json") && fs::exists(histories))
    return of_histories(JsonNode::parse_file(histories), histories, folder);
  return of_manifest(Manifest::read(folder + "manifest.json"), folder);
}

}  // namespace hlite::prep
