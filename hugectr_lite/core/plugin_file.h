// Plug-ins lie next to the program or, for the Python module, next to its shared object. What pip
// installs has them in the package's folder alone: that is on the path that its programs carry for
// the loader (RUNPATH, hugectr_lite/python/CMakeLists.txt).
#pragma once

#include <cstdint>
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

// A plug-in whose entry, a function without arguments, returns a table of functions. The table
// begins with the version of its interface, an int32_t.
struct PluginNames {
  const char* name;      // for messages
  const char* library;   // its file
  const char* entry;     // the function
  const char* variable;  // the environment's name of another file
  const char* advice;    // how to get the plug-in
  int32_t version;       // of the interface that the program has
};
struct OpenedPlugin {
  const void* table = nullptr;  // lives until the process ends
  std::string reason = {};      // why there is none
};
// Opens the library that the variable names; without it, the plugin_file().
OpenedPlugin open_plugin(const PluginNames& names);

}  // namespace hlite
