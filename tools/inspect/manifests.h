// Manifests that lie beside a file and name it.
#pragma once

#include <optional>
#include <string>

#include "data_reader/manifest.h"

namespace hlite::tools {

struct ManifestEntry {
  std::string path;  // of the manifest
  data::Manifest manifest;
  data::ManifestFile file;
};

// Looks through the files *manifest.json in the file's folder; damaged ones are passed over.
std::optional<ManifestEntry> find_manifest_of(const std::string& path);

// Whether such a manifest says that the file holds its key counts.
bool is_key_counts(const std::string& path);

}  // namespace hlite::tools
