// The output of a preparation tool, and the command line options that choose it: the same for all.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/preparation/engine/row_source.h"

namespace CLI {
class App;
}

namespace hlite::prep {

enum class OutputFormat { kRaw, kNorm };

struct OutputOptions {
  std::string folder = {};  // for the results; made if missing
  OutputFormat format = OutputFormat::kRaw;
  std::string multi_hot = {};  // "", "dcnv2" or a list of sizes (multi_hot.h)
  bool norm_sum = true;        // blocks of Norm files carry their checksum
  int64_t norm_rows_per_file = int64_t{1} << 20;
  bool shuffle = false;        // the rows of the training split
  uint64_t seed = 0;           // of the shuffle and of the multi-hot lists
  std::string config_of = {};  // model whose first config is written into the folder; "": none
};

// Adds --out, --format, --multi-hot, --norm-check, --norm-rows-per-file, --shuffle, --seed and
// --write-config.
void add_output_options(CLI::App& app, OutputOptions& options);

// Sets what `options` decide about a data set of rows of this shape: format, float_label,
// float_dense, dense_dim, hotness, fixed_length, slot_tables. Throws ConfigError for sizes that do
// not fit.
void describe_output(const OutputOptions& options, const RowShape& shape, data::Manifest& manifest);

// Returns what decides the bytes, for the manifest's options.
nlohmann::ordered_json output_json(const OutputOptions& options);

// Keys of each slot: those of the rows, or of --multi-hot. Throws ConfigError.
std::vector<int64_t> output_hotness(const OutputOptions& options, const RowShape& shape);

// Throws ConfigError if the file of --write-config exists: its owner may have changed it.
void check_config_place(const OutputOptions& options);
// Writes it, if it is asked for. Returns its path, or "". Throws ConfigError, FileError.
std::string write_first_config(const OutputOptions& options, const data::Manifest& manifest);

}  // namespace hlite::prep
