// The work that an unfinished preparation has done, as the work folder keeps it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data_reader/manifest.h"
#include "hugectr_lite/preparation/engine/one_pass.h"
#include "hugectr_lite/preparation/engine/parse_stage.h"
#include "hugectr_lite/preparation/engine/prep_options.h"

namespace hlite::prep {

struct PrepState {
  nlohmann::ordered_json run;  // of which inputs and options: describe_run()
  ParseState parse;
  std::optional<OnePassState> one_pass;         // of rows that are numbered as they are parsed
  bool by_columns = false;                      // it did not fit the memory
  std::map<int, data::ManifestColumn> columns;  // numbered slots
  nlohmann::ordered_json fitted;                // PrepEngine::keep()

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // Throws DataError "<where>: ..." for what to_json() never made.
  static PrepState from_json(const nlohmann::ordered_json& json, const std::string& where);
};

// Returns what must be the same for a run to go on: version, options, and the inputs' sizes and
// times.
nlohmann::ordered_json describe_run(const PrepOptions& options);
// Names what differs, for a person: "max_ind_range: 40000000 then, 1000 now; day_0.gz has changed".
// Empty: nothing.
std::string difference(const nlohmann::ordered_json& then, const nlohmann::ordered_json& now);

}  // namespace hlite::prep
