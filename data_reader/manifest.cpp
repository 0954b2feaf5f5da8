#include "data_reader/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"

namespace hlite::data {

namespace {

using config::JsonNode;
using config::ObjectReader;
using nlohmann::ordered_json;

constexpr int64_t kManifestVersion = 1;
constexpr std::string_view kFormatPrefix = "hugectr_lite ";

std::string text_of(const ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json record_json(const Manifest& m) {
  const int64_t keys = std::accumulate(m.hotness.begin(), m.hotness.end(), int64_t{0});
  const auto number = [](bool is_float) { return is_float ? "float32" : "int32"; };
  return {{"bytes", m.record_bytes()},
          {"byte_order", "little"},
          {"label", {{"type", number(m.float_label)}, {"offset", 0}, {"count", 1}}},
          {"dense", {{"type", number(m.float_dense)}, {"offset", 4}, {"count", m.dense_dim}}},
          {"keys", {{"type", "uint32"}, {"offset", 4 * (1 + m.dense_dim)}, {"count", keys}}}};
}

// A member a line; long lists of numbers on one line, which shells can pass on,
// and a line a column.
std::string laid_out(const ordered_json& json) {
  std::string text = "{";
  for (const auto& [key, value] : json.items()) {
    text += fmt::format("{}\n \"{}\": ", text.size() > 1 ? "," : "", key);
    if (key == "slot_size_array" || key == "hotness") {
      text += text_of(value);
    } else if (key == "columns") {
      for (size_t i = 0; i < value.size(); ++i)
        text += (i == 0 ? "[\n  " : ",\n  ") + text_of(value[i]);
      text += value.empty() ? "[]" : "\n ]";
    } else {
      for (const char c : text_of(value, 1)) text += c == '\n' ? "\n " : std::string(1, c);
    }
  }
  return text + "\n}\n";
}

ManifestFile read_file(ObjectReader reader, const std::string& role) {
  ManifestFile file;
  file.role = role;
  file.name = reader.string("name");
  file.rows = reader.integer("rows", {.min = 0});
  file.positives = reader.integer_or("positives", 0, {.min = 0, .max = file.rows});
  file.bytes = reader.integer_or("bytes", 0, {.min = 0});
  file.xxh3 = reader.string_or("xxh3", "");
  return file;
}

// Manifests that tools may have written beside the file.
std::vector<std::string> manifests_beside(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  const std::string name = fs::path(path).filename().string();
  std::vector<std::string> candidates = {"manifest.json"};
  for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = name.rfind('.', dot - 1))
    candidates.push_back(name.substr(0, dot) + ".manifest.json");
  std::vector<std::string> found;
  for (const std::string& candidate : candidates) {
    std::error_code none;
    if (fs::is_regular_file(folder / candidate, none))
      found.push_back((folder / candidate).string());
  }
  return found;
}

// The first of them for which matches(entry, name of the file) holds; it may fill in entry.file.
template <typename Matches>
std::optional<ManifestEntry> find_beside(const std::string& path, DamagedManifest damaged,
                                         Matches&& matches) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const std::string& candidate : manifests_beside(path)) {
    try {
      ManifestEntry entry{candidate, Manifest::read(candidate), {}};
      if (matches(entry, name)) return entry;
    } catch (const Error&) {  // other tools' files have such names too
      if (damaged == DamagedManifest::kThrow) throw;
    }
  }
  return std::nullopt;
}

}  // namespace

ordered_json ManifestSource::to_json() const {
  return {{"name", name}, {"role", role}, {"rows", rows}, {"bad_rows", bad_rows}, {"bytes", bytes}};
}

ManifestSource ManifestSource::from_json(const JsonNode& json) {
  ObjectReader reader(json);
  ManifestSource source;
  source.name = reader.string("name");
  source.role = reader.string("role");
  source.rows = reader.integer("rows", {.min = 0});
  source.bad_rows = reader.integer_or("bad_rows", 0, {.min = 0});
  source.bytes = reader.integer_or("bytes", 0, {.min = 0});
  return source;
}

ordered_json ManifestColumn::to_json() const {
  return {{"name", name},
          {"rows", rows},
          {"distinct", distinct},
          {"missing", missing},
          {"out_of_vocabulary", out_of_vocabulary},
          {"top_share", top_share}};
}

ManifestColumn ManifestColumn::from_json(const JsonNode& json) {
  ObjectReader reader(json);
  ManifestColumn column;
  column.name = reader.string("name");
  column.rows = reader.integer("rows", {.min = 0});
  column.distinct = reader.integer("distinct", {.min = 0});
  column.missing = reader.integer_or("missing", 0, {.min = 0});
  column.out_of_vocabulary = reader.integer_or("out_of_vocabulary", 0, {.min = 0});
  if (const JsonNode* shares = reader.find("top_share")) {
    if (shares->kind() != JsonNode::Kind::kArray ||
        shares->elements().size() != std::size(column.top_share)) {
      config::fail_expected(*shares, "a list of 4 numbers");
    }
    for (size_t i = 0; i < std::size(column.top_share); ++i) {
      const JsonNode& share = shares->elements()[i];
      if (!share.is_number()) config::fail_expected(share, "a number");
      column.top_share[i] = share.number();
    }
  }
  return column;
}

int64_t Manifest::record_bytes() const {
  return 4 * (1 + dense_dim + std::accumulate(hotness.begin(), hotness.end(), int64_t{0}));
}

std::string Manifest::to_json() const {
  ordered_json json;
  json["format"] = std::string(kFormatPrefix) + format;
  json["version"] = kManifestVersion;
  json["tool"] = tool + " " + kVersion;
  if (format == "raw" || format == "multi_hot_raw") json["record"] = record_json(*this);
  json["float_label_dense"] = float_label && float_dense;
  json["float_label"] = float_label;
  json["float_dense"] = float_dense;
  json["label_dim"] = 1;
  json["dense_dim"] = dense_dim;
  json["slot_num"] = slot_sizes.size();
  json["slot_size_array"] = slot_sizes;
  json["hotness"] = hotness;
  json["files"] = ordered_json::object();
  for (const ManifestFile& f : files) {
    json["files"][f.role] = {{"name", f.name},   {"rows", f.rows},
                             {"bytes", f.bytes}, {"label_rate", f.label_rate()},
                             {"xxh3", f.xxh3},   {"positives", f.positives}};
  }
  json["sources"] = ordered_json::array();
  for (const ManifestSource& s : sources) json["sources"].push_back(s.to_json());
  json["columns"] = ordered_json::array();
  for (const ManifestColumn& c : columns) json["columns"].push_back(c.to_json());
  if (!key_counts_name.empty()) {
    json["key_counts"] = {{"name", key_counts_name}, {"type", "uint32"}, {"xxh3", key_counts_xxh3}};
  }
  json["options"] = ordered_json::parse(options_json);
  if (!features_json.empty()) json["features"] = ordered_json::parse(features_json);
  return laid_out(json);
}

std::string Manifest::summary() const {
  std::string text;
  for (const ManifestFile& f : files) {
    text += fmt::format("{}: {} rows, label rate {:.5f}, {} bytes, xxh3 {}\n", f.name, f.rows,
                        f.label_rate(), f.bytes, f.xxh3);
  }
  text += fmt::format("{} table{}, {} rows in all: {}\n", slot_sizes.size(),
                      slot_sizes.size() == 1 ? "" : "s",
                      std::accumulate(slot_sizes.begin(), slot_sizes.end(), int64_t{0}),
                      fmt::join(slot_sizes, ","));
  return text;
}

Manifest Manifest::read(const std::string& path) {
  const JsonNode root = JsonNode::parse_file(path);
  ObjectReader reader(root);
  Manifest m;
  const JsonNode& format = reader.member("format");
  if (format.kind() != JsonNode::Kind::kString || !format.string().starts_with(kFormatPrefix))
    config::fail_expected(format, "a manifest's \"hugectr_lite ...\"");
  m.format = format.string().substr(kFormatPrefix.size());
  const JsonNode& version = reader.member("version");
  if (version.kind() != JsonNode::Kind::kInteger || version.integer() != kManifestVersion)
    config::fail_expected(version, fmt::format("version {}", kManifestVersion));
  const std::string tool = reader.string("tool");
  m.tool = tool.substr(0, tool.find(' '));
  const bool both = reader.boolean_or("float_label_dense", false);
  m.float_label = reader.boolean_or("float_label", both);
  m.float_dense = reader.boolean_or("float_dense", both);
  m.dense_dim = reader.integer("dense_dim", {.min = 0, .max = int64_t{1} << 20});
  m.slot_sizes = reader.integers("slot_size_array", {.min = 0, .max = int64_t{1} << 32});
  m.hotness = reader.integers_or("hotness", std::vector<int64_t>(m.slot_sizes.size(), 1),
                                 {.min = 1, .max = int64_t{1} << 20});
  if (m.hotness.size() != m.slot_sizes.size()) {
    config::fail_expected(
        reader.member("hotness"),
        fmt::format("{} numbers, as many as in slot_size_array", m.slot_sizes.size()));
  }
  const JsonNode& files = reader.member("files");
  if (files.kind() != JsonNode::Kind::kObject) config::fail_expected(files, "an object");
  for (const auto& [role, file] : files.members())
    m.files.push_back(read_file(ObjectReader(file), role));
  for (const JsonNode& source : reader.list_or_empty("sources"))
    m.sources.push_back(ManifestSource::from_json(source));
  for (const JsonNode& column : reader.list_or_empty("columns"))
    m.columns.push_back(ManifestColumn::from_json(column));
  if (reader.has("key_counts")) {
    ObjectReader counts = reader.object("key_counts");
    m.key_counts_name = counts.string("name");
    m.key_counts_xxh3 = counts.string_or("xxh3", "");
  }
  if (const JsonNode* options = reader.find("options")) m.options_json = options->dump();
  if (const JsonNode* features = reader.find("features")) m.features_json = features->dump();
  return m;
}

std::optional<ManifestEntry> find_manifest_of(const std::string& path, DamagedManifest damaged) {
  return find_beside(path, damaged, [](ManifestEntry& entry, const std::string& name) {
    const auto& files = entry.manifest.files;
    const auto file =
        std::find_if(files.begin(), files.end(), [&](const auto& f) { return f.name == name; });
    if (file == files.end()) return false;
    entry.file = *file;
    return true;
  });
}

bool is_key_counts(const std::string& path) {
  return find_beside(path, DamagedManifest::kPassOver,
                     [](const ManifestEntry& entry, const std::string& name) {
                       return entry.manifest.key_counts_name == name;
                     })
      .has_value();
}

}  // namespace hlite::data
