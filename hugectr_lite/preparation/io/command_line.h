// The common part of the tools' main() functions, in addition to core/run_program.h.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace hlite::prep {

struct ToolDescription {
  std::string name;
  std::string summary;   // one paragraph, above the options in --help
  std::string examples;  // below them
};

// Parses the command line of a tool and runs it.
//   add_options  declares the tool's options on the app
//   body         the work, after successful parsing
// Returns the exit code, as run_program() does.
int run_tool(int argc, char** argv, const ToolDescription& description,
             const std::function<void(CLI::App&)>& add_options, const std::function<void()>& body);

// The value of `option`: "4G", "512M", "100K" (powers of 1024) or plain bytes. Throws ConfigError.
int64_t parse_bytes(const char* option, const std::string& text);
// "0.01" or "1%". Throws ConfigError.
double parse_share(const char* option, const std::string& text);

}  // namespace hlite::prep
