// manifest.json: what a preparation tool made, from what, and how to read it.
//
// Raw files have no header; the manifest is where a config's slot_size_array, dimensions and sample
// counts come from. It holds no times and no absolute facts about the machine: same input, same
// options, same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/output_file.h"

namespace hlite::tools {

struct RawFile {
  std::string role;  // train, val, test
  std::string name;  // inside the manifest's folder
  int64_t rows = 0;
  int64_t positives = 0;  // rows with label 1
  int64_t bytes = 0;
  std::string xxh3;
  [[nodiscard]] double label_rate() const {
    return rows > 0 ? static_cast<double>(positives) / static_cast<double>(rows) : 0.0;
  }
};

struct SourceFile {
  std::string name;
  std::string role;
  int64_t rows = 0;
  int64_t bad_rows = 0;
  int64_t bytes = 0;  // decompressed
};

struct RawManifest {
  std::string tool;
  bool float_label_dense = false;
  int dense_dim = 0;
  std::vector<int64_t> slot_sizes;  // rows that each table needs
  std::vector<RawFile> files;
  std::vector<SourceFile> sources;
  nlohmann::ordered_json options = nlohmann::ordered_json::object();
  nlohmann::ordered_json features;  // the tool's own account of its columns; null: left out

  [[nodiscard]] std::string to_json() const;
  // What a person wants to know, one line a file and one for the tables.
  [[nodiscard]] std::string summary() const;
};

// Writes the records of one raw file and counts them.
class RawWriter {
 public:
  // `words`: 32-bit words in a record, the first of which is the label.
  RawWriter(const std::string& folder, const std::string& role, int words);
  // `positives` of the `rows` records at `records` have label 1.
  void write(const uint32_t* records, int64_t rows, int64_t positives);
  [[nodiscard]] OutputFile& file() { return file_; }
  [[nodiscard]] int64_t rows() const { return summary_.rows; }
  [[nodiscard]] RawFile summary() const;

 private:
  RawFile summary_;
  int words_;
  OutputFile file_;
};

// Gives every file its final name. An older manifest goes first and the new one comes last: at any
// moment, whoever finds a manifest finds the files that it describes.
void publish(const std::string& folder, RawManifest& manifest,
             const std::vector<std::unique_ptr<RawWriter>>& writers);

}  // namespace hlite::tools
