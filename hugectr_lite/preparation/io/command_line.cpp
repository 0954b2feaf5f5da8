#include "hugectr_lite/preparation/io/command_line.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/run_program.h"

namespace hlite::prep {

int run_tool(int argc, char** argv, const ToolDescription& description,
             const std::function<void(CLI::App&)>& add_options, const std::function<void()>& body) {
  CLI::App app(description.summary, description.name);
  app.footer("Examples:\n" + description.examples);
  app.set_version_flag("--version", description.name + " " + kVersion);
  add_options(app);
  return run_program(app, argc, argv, [&] {
    body();
    return kExitDone;
  });
}

namespace {
// The number that `text` begins with; `rest` is what follows it.
double leading_number(const std::string& text, std::string& rest) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  rest.assign(stop, end);
  return error == std::errc() && std::isfinite(value) && value >= 0 ? value : -1;
}
}  // namespace

int64_t parse_bytes(const char* option, const std::string& text) {
  std::string unit;
  const double value = leading_number(text, unit);
  if (unit.size() == 2 && (unit[1] == 'B' || unit[1] == 'b')) unit.pop_back();
  static constexpr std::string_view kUnits = "KMGT";
  const size_t power =
      unit.size() == 1 ? kUnits.find(static_cast<char>(std::toupper(unit[0]))) + 1 : 0;
  const double bytes = value * static_cast<double>(uint64_t{1} << 10 * power);
  if (value <= 0 || unit.size() > 1 || (unit.size() == 1 && power == 0) || bytes > 0x1p62)
    raise<ConfigError>("{}: expected a size such as 4G, 512M or 100000, found \"{}\"", option,
                       text);
  return static_cast<int64_t>(bytes);
}

double parse_share(const char* option, const std::string& text) {
  std::string unit;
  const double value = leading_number(text, unit);
  const double share = unit.empty() ? value : value / 100;
  if (!(share >= 0 && share <= 1) || (!unit.empty() && unit != "%"))
    raise<ConfigError>("{}: expected a share such as 0.01 or 1%, found \"{}\"", option, text);
  return share;
}

}  // namespace hlite::prep
