#include "data_reader/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite::data {

namespace {

using config::Block;
using config::JsonNode;
using config::kRequired;
using nlohmann::ordered_json;

constexpr int64_t kManifestVersion = 1;
constexpr std::string_view kFormatPrefix = "hugectr_lite ";

std::string text_of(const ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json record_json(const Manifest& m) {
  const int64_t keys = std::accumulate(m.hotness.begin(), m.hotness.end(), int64_t{0});
  const int64_t weights = m.sample_weight ? 1 : 0;
  const auto number = [](bool is_float) { return is_float ? "float32" : "int32"; };
  ordered_json json = {
      {"bytes", m.record_bytes()},
      {"byte_order", "little"},
      {"label", {{"type", number(m.float_label)}, {"offset", 0}, {"count", m.label_dim}}}};
  if (m.sample_weight)
    json["weight"] = {{"type", "float32"}, {"offset", 4 * m.label_dim}, {"count", 1}};
  const int64_t dense = 4 * (m.label_dim + weights);
  json["dense"] = {{"type", number(m.float_dense)}, {"offset", dense}, {"count", m.dense_dim}};
  json["keys"] = {{"type", "uint32"}, {"offset", dense + 4 * m.dense_dim}, {"count", keys}};
  return json;
}

// A member a line; long lists of numbers on one line, which shells can pass on,
// and a line a column.
std::string laid_out(const ordered_json& json) {
  std::string text = "{";
  for (const auto& [key, value] : json.items()) {
    text += fmt::format("{}\n \"{}\": ", text.size() > 1 ? "," : "", key);
    if (key == "slot_size_array" || key == "slot_tables" || key == "hotness") {
      text += text_of(value);
    } else if (key == "columns" || key == "dense") {
      for (size_t i = 0; i < value.size(); ++i)
        text += (i == 0 ? "[\n  " : ",\n  ") + text_of(value[i]);
      text += value.empty() ? "[]" : "\n ]";
    } else {
      for (const char c : text_of(value, 1)) text += c == '\n' ? "\n " : std::string(1, c);
    }
  }
  return text + "\n}\n";
}

void declare(Block& s, ManifestFile& file) {
  s.text("name", &file.name, "", kRequired);
  s.integer("rows", &file.rows, {.min = 0}, "", kRequired);
  s.integer("positives", &file.positives, {.min = 0, .max = file.rows});
  s.integer("bytes", &file.bytes, {.min = 0});
  s.text("xxh3", &file.xxh3);
  s.text("sample_xxh3", &file.sample_xxh3);
  LabelMoments labels;
  if (s.number("label_mean", &labels.mean, {}) &&
      s.number("label_deviation", &labels.deviation, {.min = 0}))
    file.labels = labels;
}

// Manifests that tools may have written next to the file.
std::vector<std::string> manifests_next_to(const std::string& path) {
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
std::optional<ManifestEntry> find_next_to(const std::string& path, DamagedManifest damaged,
                                          Matches&& matches) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const std::string& candidate : manifests_next_to(path)) {
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

void declare(Block& s, ManifestSource& source) {
  s.accept_others();
  s.text("name", &source.name, "", kRequired);
  s.text("role", &source.role, "", kRequired);
  s.integer("rows", &source.rows, {.min = 0}, "", kRequired);
  s.integer("bad_rows", &source.bad_rows, {.min = 0});
  s.integer("bytes", &source.bytes, {.min = 0});
}

ordered_json ManifestColumn::to_json() const {
  ordered_json json = {{"name", name},
                       {"rows", rows},
                       {"distinct", distinct},
                       {"missing", missing},
                       {"out_of_vocabulary", out_of_vocabulary},
                       {"top_share", top_share}};
  if (!vocabulary.empty()) json["vocabulary"] = vocabulary;
  for (const SplitValues& split : splits)
    json["splits"][split.role] = {{"missing", split.missing}, {"unknown", split.unknown}};
  return json;
}

void declare(Block& s, ManifestColumn& column) {
  s.accept_others();
  s.text("name", &column.name, "", kRequired);
  s.integer("rows", &column.rows, {.min = 0}, "", kRequired);
  s.integer("distinct", &column.distinct, {.min = 0}, "", kRequired);
  s.integer("missing", &column.missing, {.min = 0});
  s.integer("out_of_vocabulary", &column.out_of_vocabulary, {.min = 0});
  s.text("vocabulary", &column.vocabulary);
  s.value("splits", {}, [&](const JsonNode& splits) {
    for (const auto& [role, values] : config::to_object(splits))
      column.splits.push_back(
          {.role = role,
           .missing = config::to_integer(config::member(values, "missing"), {.min = 0}),
           .unknown = config::to_integer(config::member(values, "unknown"), {.min = 0})});
  });
  s.value("top_share", {}, [&](const JsonNode& shares) {
    if (config::to_list(shares).size() != std::size(column.top_share))
      config::fail_expected(shares, "a list of 4 numbers");
    std::transform(shares.elements().begin(), shares.elements().end(), column.top_share,
                   [](const JsonNode& share) { return config::to_number(share); });
  });
}

int64_t Manifest::record_bytes() const {
  return 4 * (label_dim + (sample_weight ? 1 : 0) + dense_dim +
              std::accumulate(hotness.begin(), hotness.end(), int64_t{0}));
}

int64_t Manifest::rows_of(std::string_view role) const {
  int64_t rows = 0;
  for (const ManifestFile& file : files) rows += file.role == role ? file.rows : 0;
  return rows;
}

std::vector<int64_t> Manifest::tables_of(std::span<const int64_t> slots) const {
  std::vector<int64_t> tables;
  std::map<int64_t, int64_t> numbers;
  for (const int64_t s : slots) {
    if (s >= std::ssize(slot_tables)) return {};
    const int64_t table = slot_tables[static_cast<size_t>(s)];
    tables.push_back(numbers.emplace(table, std::ssize(numbers)).first->second);
  }
  return numbers.size() == slots.size() ? std::vector<int64_t>() : tables;
}

DataIdentity Manifest::identity() const {
  DataIdentity identity{.slots = {}, .dense = dense, .rules = rules};
  for (const ManifestColumn& column : columns) {
    if (column.vocabulary.empty()) return {};
    identity.slots.push_back({.name = column.name, .value = column.vocabulary});
  }
  return identity;
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
  json["label_dim"] = label_dim;
  if (real_label) json["real_label"] = true;
  if (sample_weight) json["sample_weight"] = true;
  if (negative_share < 1) json["negative_share"] = negative_share;
  json["dense_dim"] = dense_dim;
  json["slot_num"] = slot_sizes.size();
  json["slot_size_array"] = slot_sizes;
  if (!slot_tables.empty()) json["slot_tables"] = slot_tables;
  json["hotness"] = hotness;
  if (!fixed_length) json["fixed_length"] = false;
  for (const History& h : histories)
    json["histories"].push_back(
        {{"name", h.name}, {"first_slot", h.first_slot}, {"slots", h.slots}});
  json["files"] = ordered_json::object();
  for (const ManifestFile& f : files) {
    json["files"][f.role] = {{"name", f.name},   {"rows", f.rows},
                             {"bytes", f.bytes}, {"label_rate", f.label_rate()},
                             {"xxh3", f.xxh3},   {"positives", f.positives}};
    if (!f.sample_xxh3.empty()) json["files"][f.role]["sample_xxh3"] = f.sample_xxh3;
    if (f.labels) {
      json["files"][f.role]["label_mean"] = f.labels->mean;
      json["files"][f.role]["label_deviation"] = f.labels->deviation;
    }
  }
  json["sources"] = ordered_json::array();
  for (const ManifestSource& s : sources) json["sources"].push_back(s.to_json());
  json["columns"] = ordered_json::array();
  for (const ManifestColumn& c : columns) json["columns"].push_back(c.to_json());
  if (!key_counts_name.empty()) {
    json["key_counts"] = {{"name", key_counts_name}, {"type", "uint32"}, {"xxh3", key_counts_xxh3}};
  }
  if (!dense.empty()) json["dense"] = parts_json(dense, "transform");
  if (!rules.empty()) json["rules"] = parts_json(rules, "value");
  if (!continues.empty()) json["continues"] = continues;
  json["options"] = ordered_json::parse(options_json);
  if (!features_json.empty()) json["features"] = ordered_json::parse(features_json);
  return laid_out(json);
}

std::string Manifest::summary() const {
  std::string text;
  for (const ManifestFile& f : files) {
    text += fmt::format("{}: {} rows, {}{} bytes, xxh3 {}\n", f.name, f.rows,
                        real_label ? "" : fmt::format("label rate {:.5f}, ", f.label_rate()),
                        f.bytes, f.xxh3);
  }
  int64_t tables = 0, in_all = 0;
  for (size_t s = 0; s < slot_sizes.size(); ++s) {
    if (!slot_tables.empty() && slot_tables[s] < tables) continue;
    ++tables;
    in_all += slot_sizes[s];
  }
  text += fmt::format("{} table{}, {} rows in all: {}\n", tables, tables == 1 ? "" : "s", in_all,
                      fmt::join(slot_sizes, ","));
  if (!slot_tables.empty())
    text += fmt::format("slots of one vocabulary can share a table: \"slot_tables\": [{}]\n",
                        fmt::join(slot_tables, ","));
  return text;
}

template <typename Item>
static void declare_items(Block& s, const char* key, std::vector<Item>& items) {
  s.value(key, {}, [&](const JsonNode& list) {
    for (const JsonNode& node : config::to_list(list))
      items.push_back(config::read_block<Item>(node));
  });
}

static bool is_numbered(const Manifest& m) {
  if (m.slot_tables.size() != m.slot_sizes.size()) return false;
  std::vector<int64_t> sizes;  // rows of each table
  for (size_t s = 0; s < m.slot_tables.size(); ++s) {
    const auto table = static_cast<size_t>(m.slot_tables[s]);
    if (table == sizes.size()) sizes.push_back(m.slot_sizes[s]);
    if (table > sizes.size() || sizes[table] != m.slot_sizes[s]) return false;
  }
  return true;
}

static void declare_histories(Block& s, Manifest& m) {
  s.value("histories", {}, [&](const JsonNode& list) {
    int64_t next = 0;
    for (const JsonNode& node : config::to_list(list)) {
      History& h = m.histories.emplace_back();
      config::read_object(node, [&](Block& of) {
        of.text("name", &h.name, "", kRequired);
        of.integer("first_slot", &h.first_slot, {.min = next}, "", kRequired);
        of.integer("slots", &h.slots, {.min = 1}, "", kRequired);
      });
      next = h.first_slot + h.slots;
      if (next > std::ssize(m.hotness))
        config::fail_expected(node, fmt::format("slots below {}", m.hotness.size()));
      const auto first = m.hotness.begin() + h.first_slot;
      if (std::count(first, first + h.slots, *first) != h.slots)
        config::fail_expected(node, "slots of one hotness");
    }
  });
}

static void declare(Block& s, Manifest& m) {
  s.text("tool", &m.tool, "", kRequired);
  m.tool = m.tool.substr(0, m.tool.find(' '));
  bool both = false;
  s.boolean("float_label_dense", &both);
  m.float_label = m.float_dense = both;
  s.boolean("float_label", &m.float_label);
  s.boolean("float_dense", &m.float_dense);
  s.integer("label_dim", &m.label_dim, {.min = 1});
  s.boolean("real_label", &m.real_label);
  s.boolean("sample_weight", &m.sample_weight);
  s.number("negative_share", &m.negative_share, {.min = 0, .max = 1, .without_min = true});
  s.integer("dense_dim", &m.dense_dim, {.min = 0, .max = int64_t{1} << 20}, "", kRequired);
  s.integers("slot_size_array", &m.slot_sizes, {.min = 0, .max = int64_t{1} << 32}, "", kRequired);
  s.integers("slot_tables", &m.slot_tables, {.min = 0, .max = std::ssize(m.slot_sizes)});
  if (!m.slot_tables.empty() && !is_numbered(m))
    s.expected("slot_tables",
               "the table of each slot, counted from 0 in the order in which they first appear, of "
               "one size for all slots of a table");
  m.hotness.assign(m.slot_sizes.size(), 1);
  s.integers("hotness", &m.hotness, {.min = 1, .max = int64_t{1} << 20});
  if (m.hotness.size() != m.slot_sizes.size())
    s.expected("hotness",
               fmt::format("{} numbers, as many as in slot_size_array", m.slot_sizes.size()));
  s.boolean("fixed_length", &m.fixed_length);
  declare_histories(s, m);
  s.value("files", kRequired, [&](const JsonNode& files) {
    for (const auto& [role, node] : config::to_object(files)) {
      ManifestFile& file = m.files.emplace_back();
      file.role = role;
      config::read_object(node, [&](Block& of) {
        of.accept_others();
        declare(of, file);
      });
    }
  });
  declare_items(s, "sources", m.sources);
  declare_items(s, "columns", m.columns);
  declare_parts(s, "dense", "transform", m.dense);
  declare_parts(s, "rules", "value", m.rules);
  s.strings("continues", &m.continues);
  if (auto counts = s.object("key_counts")) {
    counts->text("name", &m.key_counts_name, "", kRequired);
    counts->text("xxh3", &m.key_counts_xxh3);
  }
  s.value("options", {}, [&](const JsonNode& node) { m.options_json = node.dump(); });
  s.value("features", {}, [&](const JsonNode& node) { m.features_json = node.dump(); });
}

Manifest Manifest::read(const std::string& path) {
  const JsonNode root = JsonNode::parse_file(path);
  // Data of another program is identified by these alone.
  const JsonNode& format = config::member(root, "format");
  if (format.kind() != JsonNode::Kind::kString || !format.string().starts_with(kFormatPrefix))
    config::fail_expected(format, "a manifest's \"hugectr_lite ...\"");
  const JsonNode& version = config::member(root, "version");
  if (version.kind() != JsonNode::Kind::kInteger || version.integer() != kManifestVersion)
    config::fail_expected(version, fmt::format("version {}", kManifestVersion));
  Manifest m;
  m.format = format.string().substr(kFormatPrefix.size());
  config::read_object(root, [&](Block& s) {
    s.accept_others();
    declare(s, m);
  });
  return m;
}

std::string sample_digits(const std::vector<std::string>& paths) {
  constexpr int64_t kBlocks = 64, kBlockBytes = 4096;
  std::vector<int64_t> begins{0};
  for (const std::string& path : paths) begins.push_back(begins.back() + ReadFile(path).size());
  const int64_t bytes = begins.back();
  Checksum checksum;
  std::vector<std::byte> block;
  std::optional<ReadFile> open;
  size_t open_index = 0;
  for (int64_t i = 0; i < kBlocks; ++i) {
    int64_t at = std::max<int64_t>(bytes - kBlockBytes, 0) / (kBlocks - 1) * i;
    if (i + 1 == kBlocks) at = std::max<int64_t>(bytes - kBlockBytes, 0);
    const int64_t end = std::min(at + kBlockBytes, bytes);
    while (at < end) {  // a block may lie in several files
      const auto file = std::upper_bound(begins.begin(), begins.end(), at) - begins.begin() - 1;
      const auto index = static_cast<size_t>(file);
      block.resize(static_cast<size_t>(std::min(end, begins[index + 1]) - at));
      if (!open || open_index != index) open.emplace(paths[open_index = index]);
      open->read(at - begins[index], block);
      checksum.add(block);
      at += std::ssize(block);
    }
  }
  return checksum.sum().digits();
}

std::optional<ManifestEntry> find_manifest_of(const std::string& path, DamagedManifest damaged) {
  return find_next_to(path, damaged, [](ManifestEntry& entry, const std::string& name) {
    const auto& files = entry.manifest.files;
    const auto file =
        std::find_if(files.begin(), files.end(), [&](const auto& f) { return f.name == name; });
    if (file == files.end()) return false;
    entry.file = *file;
    return true;
  });
}

std::string manifest_without(const std::string& path) {
  bool named = find_manifest_of(path, DamagedManifest::kPassOver).has_value();
  const auto other =
      find_next_to(path, DamagedManifest::kPassOver, [](auto&, auto&) { return true; });
  return named || !other || other->manifest.tool == "criteo_synth" ? "" : other->path;
}

bool is_key_counts(const std::string& path) {
  return find_next_to(path, DamagedManifest::kPassOver,
                      [](const ManifestEntry& entry, const std::string& name) {
                        return entry.manifest.key_counts_name == name;
                      })
      .has_value();
}

}  // namespace hlite::data
