// Prepared data as a first config has to know them: a manifest, or the facts of samples with
// histories in Parquet or Norm files (histories.json, docs/histories.md).
#pragma once

#include <string>

#include "data_reader/manifest.h"
#include "hugectr_lite/config/json_node.h"

namespace hlite::prep {

struct PreparedData {
  data::Manifest manifest;  // of histories.json: what it says, format "parquet" or "norm"
  std::string facts;        // the file, for messages
  std::string folder;       // put before names of files: "" or "work/adult/"
  std::string slot_sizes;   // the Data layer's slot_size_array, JSON
  std::string columns;      // of Parquet files: the Data layer's columns, JSON

  // `folder` as above.
  static PreparedData of_manifest(data::Manifest manifest, const std::string& folder);
  // Throws ConfigError for what is missing, and for a list of keys whose item is not known.
  static PreparedData of_histories(const config::JsonNode& facts, const std::string& name,
                                   const std::string& folder);
  // A folder with manifest.json or histories.json, or the path of a histories.json of any name.
  // Throws as these do, and FileError.
  static PreparedData read(const std::string& path);
};

}  // namespace hlite::prep
