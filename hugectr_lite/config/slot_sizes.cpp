#include "hugectr_lite/config/slot_sizes.h"

#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/key_layout.h"

namespace hlite::config {
namespace {
constexpr const char* kKey = "slot_size_array";
constexpr int64_t kMaxManifestBytes = int64_t{1} << 28;

std::vector<int64_t> from_manifest(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::none)  // it cannot even be looked for
    raise<ConfigError>("{}: expected a manifest, found: {}", path, error.message());
  if (type != std::filesystem::file_type::regular)
    raise<ConfigError>("{}: expected a manifest, found no such file", path);
  const JsonNode manifest = JsonNode::parse(read_text(ReadFile(path), kMaxManifestBytes), path);
  return to_integers(member(manifest, kKey), {1, kNoKey});
}

constexpr const char* kTakes = "a list of integers, or the path of a manifest";
}  // namespace

std::vector<int64_t> read_slot_sizes(const JsonNode& node, const std::string& directory,
                                     int64_t least) {
  if (node.kind() == JsonNode::Kind::kArray) return to_integers(node, {least, kNoKey});
  if (node.kind() != JsonNode::Kind::kString || node.string().empty()) fail_expected(node, kTakes);
  try {
    return from_manifest(resolve_path(directory, node.string()));
  } catch (const Error& error) {
    fail_at(node, error.what());  // where the manifest is named
  }
}

bool declare_slot_sizes(Block& s, const std::string& directory, std::vector<int64_t>* sizes,
                        const char* meaning, const Need& need, int64_t least) {
  return s.value(
      kKey,
      {fmt::format("{}; each {}", kTakes, range_text(IntegerRange{least, kNoKey})),
       fmt::format(R"("type":["array","string"],"items":{{"type":"integer","minimum":{}}})",
                   least)},
      meaning, need,
      [&](const JsonNode& node) { *sizes = read_slot_sizes(node, directory, least); });
}

}  // namespace hlite::config
