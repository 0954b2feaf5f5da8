#include "tools/io/command_line.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"

namespace hlite::tools {

int run_tool(int argc, char** argv, const ToolDescription& description,
             const std::function<void(CLI::App&)>& add_options, const std::function<void()>& body) {
  const char* name = description.name.c_str();
  try {
    CLI::App app(description.summary, description.name);
    app.footer("Examples:\n" + description.examples);
    app.set_version_flag("--version", description.name + " " + kVersion);
    add_options(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      // CLI11 has its own exit codes; ours are 0 for --help and --version, else 2.
      return app.exit(error) == 0 ? kExitDone : kExitConfig;
    }
    body();
    return kExitDone;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", name);
    return kExitInternal;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: internal error: %s\n", name, error.what());
    return kExitInternal;
  }
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

int64_t parse_bytes(const std::string& text) {
  std::string unit;
  const double value = leading_number(text, unit);
  if (unit.size() == 2 && (unit[1] == 'B' || unit[1] == 'b')) unit.pop_back();
  static constexpr std::string_view kUnits = "KMGT";
  const size_t power =
      unit.size() == 1 ? kUnits.find(static_cast<char>(std::toupper(unit[0]))) + 1 : 0;
  const double bytes = value * static_cast<double>(uint64_t{1} << 10 * power);
  if (value < 0 || unit.size() > 1 || (unit.size() == 1 && power == 0) || bytes > 0x1p62)
    raise<ConfigError>("expected a size such as 4G, 512M or 100000, found \"{}\"", text);
  return static_cast<int64_t>(bytes);
}

double parse_share(const std::string& text) {
  std::string unit;
  const double value = leading_number(text, unit);
  if (value < 0 || (!unit.empty() && unit != "%"))
    raise<ConfigError>("expected a share such as 0.01 or 1%, found \"{}\"", text);
  return unit.empty() ? value : value / 100;
}

}  // namespace hlite::tools
