#include "tools/command_line.h"

#include <cstdio>
#include <exception>
#include <new>

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

}  // namespace hlite::tools
