// The manifest that the preparation tools write next to their data: what the files are, how many
// rows each table needs, how often each key occurs. Configs take their slot_size_array from it
// ("slot_size_array": "manifest.json"), the hybrid embedding its statistics, data_inspect the rest.
//
// A manifest holds no times and no facts about the machine: same input, same options, same bytes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/data_identity.h"
#include "data_reader/history_check.h"

namespace hlite::data {

// Mean and standard deviation of the labels of some rows, each counted as its weight says.
struct LabelMoments {
  double mean = 0, deviation = 0;
};

// One file of a data set.
struct ManifestFile {
  std::string role;  // train, val, test
  std::string name;  // inside the manifest's folder; of a Norm set: of the list
  int64_t rows = 0;
  int64_t positives = 0;  // rows with label 1
  int64_t bytes = 0;
  std::string xxh3;  // 16 hexadecimal digits: of all bytes; of a set, of its files' digits in order
  std::string sample_xxh3 = {};  // sample_digits() of its files; empty: not known
  // Where label_rate() does not say it: of real labels, and of rows with weights. Nothing: of no
  // rows, and not known of data of earlier versions.
  std::optional<LabelMoments> labels = {};
  [[nodiscard]] double label_rate() const {
    return rows > 0 ? static_cast<double>(positives) / static_cast<double>(rows) : 0.0;
  }
};

// A file that rows came from.
struct ManifestSource {
  std::string name, role;
  int64_t rows = 0, bad_rows = 0, bytes = 0;  // bytes: decompressed
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

// Values of one categorical column in a split that is not trained on.
struct SplitValues {
  std::string role;
  int64_t missing = 0;  // empty, or with the key of empty ones
  int64_t unknown = 0;  // without an id of their own, or without a training row of that id; of
                        // rows with several values, those that have such a one
};

// Statistics of one categorical column over the training rows.
struct ManifestColumn {
  std::string name;                    // C1...
  int64_t rows = 0;                    // of its table
  int64_t distinct = 0;                // ids that occur in training rows
  int64_t missing = 0;                 // training rows whose field was empty
  int64_t out_of_vocabulary = 0;       // training rows with a key that was dropped for being rare
  double top_share[4] = {0, 0, 0, 0};  // of the 1, 10, 100, 1000 most frequent ids
  std::string vocabulary = {};         // DataIdentity::slots; empty: not known
  std::vector<SplitValues> splits = {};
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

// Keys of their JSON objects.
void declare(config::Block& s, ManifestSource& source);
void declare(config::Block& s, ManifestColumn& column);

struct Manifest {
  std::string tool;            // "criteo_prep"
  std::string format = "raw";  // raw, multi_hot_raw, norm
  bool float_label = false, float_dense = false;
  int64_t label_dim = 1;       // labels of a row; counts of positives are of the first
  bool real_label = false;     // labels are any numbers, not 0 or 1
  bool sample_weight = false;  // after the label of a row comes its weight
  double negative_share = 1;   // of the training rows with label 0, those that were kept
  int64_t dense_dim = 0;
  std::vector<int64_t> hotness;  // keys of each slot; all 1 for one-hot data
  bool fixed_length = true;      // each sample has so many, else up to so many (kNoKey fills up)
  std::vector<History> histories = {};
  std::vector<int64_t> slot_sizes;  // rows that each slot's table needs
  // The table of each slot, counted from 0 in the order in which they first appear: slots of one
  // table share a vocabulary. Empty: none do.
  std::vector<int64_t> slot_tables;
  std::vector<ManifestFile> files;
  std::vector<ManifestSource> sources;
  std::vector<ManifestColumn> columns;
  // Counts of each id in the training rows: uint32 little-endian (saturating), table after table,
  // slot_sizes[0] + slot_sizes[1] + ... of them. Empty name: not written.
  std::string key_counts_name, key_counts_xxh3;
  std::vector<DataIdentity::IdentityPart> dense, rules;  // parts of identity()
  // digits_of() the data that these continue (--continue-from), oldest first: all of their ids are
  // still the same.
  std::vector<std::string> continues;
  std::string options_json = "{}";  // a JSON object: the tool's options
  std::string features_json;        // a JSON value: the tool's own account of its columns, or ""

  // Rows of the files with that role.
  [[nodiscard]] int64_t rows_of(std::string_view role) const;
  // slot_tables of these slots alone, numbered likewise; empty: none of them
  // share.
  [[nodiscard]] std::vector<int64_t> tables_of(std::span<const int64_t> slots) const;
  // Not known where a column lacks its vocabulary, as in manifests of earlier versions.
  [[nodiscard]] DataIdentity identity() const;
  // Multi-hot lists and offsets aside, bytes of a record of the raw formats.
  [[nodiscard]] int64_t record_bytes() const;
  [[nodiscard]] std::string to_json() const;
  // Returns a summary for people, one line a file and one for the tables.
  [[nodiscard]] std::string summary() const;
  // Reads manifest.json. Throws FileError, or ConfigError/DataError with line and JSON path for one
  // that is damaged or of another version. Unknown keys are ignored: newer tools may add some.
  static Manifest read(const std::string& path);
};

struct ManifestEntry {
  std::string path;  // of the manifest
  Manifest manifest;
  ManifestFile file;
};

// A checksum of a sample of the files' bytes, taken as one sequence: 64 blocks of 4 KiB at equal
// distances, including the first and the last. It distinguishes a stale file of the right size from
// the prepared one, at the cost of 64 reads. 16 digits. Throws FileError.
std::string sample_digits(const std::vector<std::string>& paths);

// Decides what happens with a manifest that cannot be read: throw what Manifest::read() throws, or
// look further.
enum class DamagedManifest { kThrow, kPassOver };

// Finds the manifest of the tool that wrote a file: the first one that names the file, of
// manifest.json and, for p.train.bin, p.manifest.json in the same folder.
std::optional<ManifestEntry> find_manifest_of(const std::string& path,
                                              DamagedManifest damaged = DamagedManifest::kThrow);
// Path of the manifest.json next to a file that it does not name; "" if there is no manifest, or
// if it names the file.
std::string manifest_without(const std::string& path);
// Returns true if such a manifest says that the file holds its key counts. Passes over damaged
// ones.
bool is_key_counts(const std::string& path);

}  // namespace hlite::data
