// The main() of every program: the command line through CLI11, errors as one message and an exit
// code.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace hlite {

// Parses the command line with `app`, whose name messages start with, runs `body` and returns the
// exit code (core/error.h): the body's, that of an error which it throws, kExitConfig for wrong
// usage, kExitData where standard output could not be written. --help and --version print and
// return kExitDone. An option's value must not be empty: "$FOLDER" of a shell that has no such
// variable would otherwise mean that nothing was asked for. Nor is the option that follows a value.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

}  // namespace hlite
