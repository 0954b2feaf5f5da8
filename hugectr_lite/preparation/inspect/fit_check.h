// Do a file and a config fit? If not: what is wrong, and what would fit.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/preparation/inspect/file_kind.h"

namespace hlite::prep {

struct Finding {
  // One of: missing_file, empty_file, same_file, swapped_files, wrong_role, compressed,
  // wrong_format, norm_file, record_size, size_of_manifest, stale_file, layout_of_manifest,
  // tables_of_manifest, mixed_vocabularies, num_samples, label_values, float_label, integer_label,
  // float_dense, integer_dense, negative_dense, not_finite, dense_dim, global_keys, local_keys,
  // norm_keys, key_range, records.
  std::string fault;
  std::string message;  // what was expected, what was found, where
  std::string advice;   // what would fit; may be empty
};

struct FitReport {
  // The cause first; what only follows from it is left out.
  std::vector<Finding> faults;
  std::vector<std::string> notes;  // odd, but it would run
  [[nodiscard]] bool fits() const { return faults.empty(); }
  void fail(std::string fault, std::string message, std::string advice = "") {
    faults.push_back({std::move(fault), std::move(message), std::move(advice)});
  }
};

struct FitCase {
  const config::TrainConfig& config;
  config::Split role;
  std::string path;
  std::vector<int64_t> slot_rows;  // rows of each slot's table; empty: unknown
  int64_t wanted;                  // most rows to look at
};

// Rows of each slot's table, from the embedding layers, else from the Data layer; empty where
// neither says. Throws ConfigError.
std::vector<int64_t> slot_rows_of(const config::TrainConfig& config);

// Looks at one file. Throws FileError when it cannot be read.
FitReport check_fit(const FitCase& fit);

// "source" or "eval_source"
std::string role_name(const FitCase& fit);
// The part of check_fit() that reads the records.
void check_records(const FitCase& fit, FitReport& report);

}  // namespace hlite::prep
