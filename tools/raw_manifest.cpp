#include "tools/raw_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "hugectr_lite/core/build_config.h"

namespace hlite::tools {

using nlohmann::ordered_json;

// Indented JSON with the list of numbers `key` on one line: shells pass it on with --set.
static std::string on_one_line(std::string text, const std::string& key) {
  const size_t begin = text.find("\"" + key + "\": ");
  const auto from = text.begin() + static_cast<int64_t>(text.find('[', begin));
  const auto to = text.begin() + static_cast<int64_t>(text.find(']', begin));
  text.erase(std::remove_if(from, to, [](char c) { return c == ' ' || c == '\n'; }), to);
  return text;
}

std::string RawManifest::to_json() const {
  const int words = 1 + dense_dim + static_cast<int>(slot_sizes.size());
  const char* number = float_label_dense ? "float32" : "int32";
  ordered_json json;
  json["format"] = "hugectr_lite raw";
  json["version"] = 1;
  json["tool"] = tool + " " + kVersion;
  json["record"] = {{"bytes", 4 * words},
                    {"byte_order", "little"},
                    {"label", {{"type", number}, {"offset", 0}, {"count", 1}}},
                    {"dense", {{"type", number}, {"offset", 4}, {"count", dense_dim}}},
                    {"keys",
                     {{"type", "uint32"},
                      {"offset", 4 * (1 + dense_dim)},
                      {"count", static_cast<int>(slot_sizes.size())}}}};
  json["float_label_dense"] = float_label_dense;
  json["label_dim"] = 1;
  json["dense_dim"] = dense_dim;
  json["slot_num"] = slot_sizes.size();
  json["slot_size_array"] = slot_sizes;
  json["files"] = ordered_json::object();
  for (const RawFile& f : files) {
    json["files"][f.role] = {{"name", f.name},   {"rows", f.rows},
                             {"bytes", f.bytes}, {"label_rate", f.label_rate()},
                             {"xxh3", f.xxh3},   {"positives", f.positives}};
  }
  json["sources"] = ordered_json::array();
  for (const SourceFile& s : sources) {
    json["sources"].push_back({{"name", s.name},
                               {"role", s.role},
                               {"rows", s.rows},
                               {"bad_rows", s.bad_rows},
                               {"bytes", s.bytes}});
  }
  json["options"] = options;
  if (!features.is_null()) json["features"] = features;
  return on_one_line(json.dump(1, ' ', false, ordered_json::error_handler_t::replace),
                     "slot_size_array") +
         "\n";
}

std::string RawManifest::summary() const {
  std::string text;
  for (const RawFile& f : files) {
    text += fmt::format("{}: {} rows, label rate {:.5f}, {} bytes, xxh3 {}\n", f.name, f.rows,
                        f.label_rate(), f.bytes, f.xxh3);
  }
  int64_t total = 0;
  for (const int64_t size : slot_sizes) total += size;
  text += fmt::format("{} tables, {} rows in all: {}\n", slot_sizes.size(), total,
                      fmt::join(slot_sizes, ","));
  return text;
}

RawWriter::RawWriter(const std::string& folder, const std::string& role, int words)
    : words_(words), file_((std::filesystem::path(folder) / (role + ".bin")).string()) {
  summary_.role = role;
  summary_.name = role + ".bin";
}

void RawWriter::write(const uint32_t* records, int64_t rows, int64_t positives) {
  file_.write(records, static_cast<size_t>(rows * words_) * sizeof(uint32_t));
  summary_.rows += rows;
  summary_.positives += positives;
}

RawFile RawWriter::summary() const {
  RawFile summary = summary_;
  summary.bytes = file_.bytes();
  summary.xxh3 = file_.xxh3();
  return summary;
}

void publish(const std::string& folder, RawManifest& manifest,
             const std::vector<std::unique_ptr<RawWriter>>& writers) {
  manifest.files.clear();
  for (const auto& writer : writers) manifest.files.push_back(writer->summary());
  OutputFile json((std::filesystem::path(folder) / "manifest.json").string());
  json.write(manifest.to_json());
  json.finish();
  for (const auto& writer : writers) writer->file().finish();
  remove_path(json.path());
  for (const auto& writer : writers) writer->file().commit();
  json.commit();
}

}  // namespace hlite::tools
