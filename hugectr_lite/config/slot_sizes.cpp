#include "hugectr_lite/config/slot_sizes.h"

#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/key_layout.h"

namespace hlite::config {
namespace {
constexpr const char* kKey = "slot_size_array";
constexpr IntegerRange kRows{1, kNoKey};
constexpr int64_t kMaxManifestBytes = int64_t{1} << 28;

std::vector<int64_t> from_manifest(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::none)  // it cannot even be looked for
    raise<ConfigError>("{}: expected a manifest, found: {}", path, error.message());
  if (type != std::filesystem::file_type::regular)
    raise<ConfigError>("{}: expected a manifest, found no such file", path);
  const JsonNode manifest = JsonNode::parse(read_text(ReadFile(path), kMaxManifestBytes), path);
  return ObjectReader(manifest).integers(kKey, kRows);
}
}  // namespace

std::vector<int64_t> read_slot_sizes(ObjectReader& reader, const std::string& directory) {
  const JsonNode& node = reader.member(kKey);
  if (node.kind() == JsonNode::Kind::kArray) return reader.integers(kKey, kRows);
  if (node.kind() != JsonNode::Kind::kString || node.string().empty())
    fail_expected(node, "a list of integers, or the path of a manifest");
  try {
    return from_manifest(resolve_path(directory, node.string()));
  } catch (const Error& error) {
    fail_at(node, error.what());  // where the manifest is named
  }
}

}  // namespace hlite::config
