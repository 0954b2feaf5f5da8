#include "tools/inspect/manifests.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite::tools {
namespace {

// In the order of their names.
std::vector<std::string> manifests_beside(const std::string& path) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent_directory(path), error)) {
    if (entry.path().filename().string().ends_with("manifest.json")) {
      found.push_back(entry.path().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

template <typename Matches>
std::optional<ManifestEntry> find_if(const std::string& path, Matches&& matches) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const std::string& candidate : manifests_beside(path)) {
    try {
      ManifestEntry entry{candidate, data::Manifest::read(candidate), {}};
      if (matches(entry, name)) return entry;
    } catch (const Error&) {  // other tools' files have such names too
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ManifestEntry> find_manifest_of(const std::string& path) {
  return find_if(path, [](ManifestEntry& entry, const std::string& name) {
    for (const data::ManifestFile& file : entry.manifest.files) {
      if (file.name != name) continue;
      entry.file = file;
      return true;
    }
    return false;
  });
}

bool is_key_counts(const std::string& path) {
  return find_if(path,
                 [](const ManifestEntry& entry, const std::string& name) {
                   return entry.manifest.key_counts_name == name;
                 })
      .has_value();
}

}  // namespace hlite::tools
