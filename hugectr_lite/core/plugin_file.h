// Plug-ins lie next to the program or, for the Python module, next to its shared object.
#pragma once

#include <string>
#include <vector>

namespace hlite {

// The folder of the shared object that this code is part of, and that of the executable if it is
// another (for Python's module it is Python's).
std::vector<std::string> plugin_folders();

// Path of the library in the first of these folders that has it, else the bare name, which the
// loader looks for on its own path.
std::string plugin_file(const std::string& library);

// The error of dlopen() or dlsym().
std::string loader_error();

}  // namespace hlite
