// The command line options of how a preparation runs: the same for all tools.
#pragma once

#include "tools/prep/prep_options.h"

namespace CLI {
class App;
}

namespace hlite::tools {

// Adds --sample, --max-bad-rows, --memory, --threads, --restart and --quiet.
void add_run_options(CLI::App& app, PrepOptions& options);

}  // namespace hlite::tools
