// Problems: the faults of a config, collected so that all of them are reported at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/core/error.h"

namespace hlite::config {

class Problems {
 public:
  [[nodiscard]] bool empty() const { return lines_.empty(); }
  [[nodiscard]] size_t size() const { return lines_.size(); }
  void add(const JsonNode& node, std::string_view message);  // "<where>: <path>: <message>"
  // Runs `read`. Returns false if it threw a ConfigError, whose lines are added.
  template <typename Read>
  bool collect(Read&& read) {
    try {
      read();
      return true;
    } catch (const ConfigError& error) {
      add_lines(error.what());
      return false;
    }
  }
  // Throws ConfigError with all faults, a line for each: those of --set first, then in the order of
  // the file, then those without a place. Does nothing if there are none.
  void raise() const;

 private:
  void add_lines(std::string_view text);
  std::vector<std::string> lines_;
};

}  // namespace hlite::config
