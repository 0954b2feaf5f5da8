// One file looked at: what it is, its columns, their statistics.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/preparation/inspect/column_stats.h"
#include "hugectr_lite/preparation/inspect/file_kind.h"
#include "hugectr_lite/preparation/inspect/rows.h"

namespace hlite::prep {

struct InspectOptions {
  int64_t rows = 1000000;  // most rows to look at
  int64_t batch = 65536;   // samples whose distinct rows are counted
};

struct Inspection {
  FileFacts file;
  std::string schema;  // "raw records of 160 bytes (1 label + 13 dense + 26 keys), 1000000 samples"
  Sureness sure = Sureness::kGuess;
  std::string why;
  std::vector<std::string> remarks;
  // Statistics of files with rows.
  std::optional<FileStatistics> statistics;
  RowSchema columns;
  std::string part;  // which rows the statistics are of
  int64_t rows_in_file = -1;
};

// `config`: the layout of raw data without a manifest, may be null. `slot_rows`: rows of each
// slot's table, or empty. Throws FileError, DataError.
Inspection inspect_file(const std::string& path, const config::TrainConfig* config,
                        const std::vector<int64_t>& slot_rows, const InspectOptions& options);

// The report for people, and as a JSON object.
std::string report_text(const Inspection& inspection);
nlohmann::ordered_json report_json(const Inspection& inspection);

}  // namespace hlite::prep
