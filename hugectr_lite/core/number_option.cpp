#include "hugectr_lite/core/number_option.h"

#include <fmt/format.h>

#include "hugectr_lite/core/parse_number.h"

namespace hlite {

CLI::Validator whole_number(int64_t least, int64_t most) {
  const std::string range = most == INT64_MAX ? fmt::format("of at least {}", least)
                                              : fmt::format("from {} to {}", least, most);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto value = parse_number<int64_t>(text);
        if (value && *value >= least && *value <= most) return {};
        return fmt::format("expected a whole number {}, found \"{}\"", range, text);
      },
      range);
}

}  // namespace hlite
