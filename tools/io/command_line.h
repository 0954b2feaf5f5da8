// What the tools' main() functions have in common: options through CLI11, one place that turns
// errors into messages and exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace hlite::tools {

struct ToolDescription {
  std::string name;
  std::string summary;   // one paragraph, above the options in --help
  std::string examples;  // below them
};

// Parses the command line of a tool and runs it.
//   add_options  declares the tool's options on the app
//   body         the work, after successful parsing
// Returns the exit code: 0; 2 for wrong usage (CLI11's errors, ConfigError); that of the error
// otherwise (core/error.h). --help and --version print to standard output and return 0.
int run_tool(int argc, char** argv, const ToolDescription& description,
             const std::function<void(CLI::App&)>& add_options, const std::function<void()>& body);

// "4G", "512M", "100K" (powers of 1024) or plain bytes. Throws ConfigError.
int64_t parse_bytes(const std::string& text);
// "0.01" or "1%". Throws ConfigError.
double parse_share(const std::string& text);

}  // namespace hlite::tools
