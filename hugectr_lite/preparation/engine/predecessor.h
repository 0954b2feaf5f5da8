// Predecessor: the preparation that another one continues (--continue-from). Its categories keep
// their ids, new categories get the next ids, and numbers go through its transforms.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/preparation/engine/numbering.h"
#include "hugectr_lite/preparation/engine/output_options.h"

namespace hlite::prep {

class Predecessor {
 public:
  // `tool`: the one that continues. Throws ConfigError for a preparation that cannot be continued,
  // or with such an output; DataError or FileError for a folder without one.
  Predecessor(const std::string& folder, const std::string& tool, const OutputOptions& output);

  // An option or a list of features as its manifest has them.
  [[nodiscard]] const config::JsonNode& option(const char* name) const;
  [[nodiscard]] const std::vector<config::JsonNode>& features(const char* name) const;
  // Returns the continued preparation's own minimum where `given` is `unset`. Throws ConfigError
  // where another one was given.
  [[nodiscard]] int64_t same_option(const char* option_name, const char* name, int64_t given,
                                    int64_t unset) const;
  // `skips_first`: id 0 stands for all categories without an id of their own.
  [[nodiscard]] KnownKeys known_keys(bool skips_first) const;
  // Paths of the vocabularies, one of each column.
  [[nodiscard]] std::vector<std::string> vocabularies() const;
  // Identifies this preparation in the options of the one that continues it.
  [[nodiscard]] std::string digits() const { return data::digits_of(manifest_.identity()); }
  // Adds this preparation to the manifest of the one that continues it. Throws ConfigError if the
  // two differ in more than their vocabularies.
  void link(data::Manifest& manifest) const;

 private:
  std::string folder_, path_;
  data::Manifest manifest_;
  config::JsonNode options_, features_;
};

}  // namespace hlite::prep
