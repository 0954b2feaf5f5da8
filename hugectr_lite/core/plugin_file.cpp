#include "hugectr_lite/core/plugin_file.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace hlite {

std::vector<std::string> plugin_folders() {
  namespace fs = std::filesystem;
  std::vector<std::string> folders;
  std::error_code error;
  Dl_info code{};
  if (dladdr(reinterpret_cast<void*>(&plugin_folders), &code) != 0 && code.dli_fname) {
    // A program's own name has no folder if the shell found it on PATH.
    const fs::path file(code.dli_fname);
    if (file.has_parent_path())
      folders.push_back(fs::weakly_canonical(file.parent_path(), error).string());
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error && (folders.empty() || folders[0] != program.parent_path()))
    folders.push_back(program.parent_path().string());
  return folders;
}

std::string plugin_file(const std::string& library) {
  for (const std::string& folder : plugin_folders()) {
    std::string path = folder + "/" + library;
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return library;
}

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "the loader gives no reason";
}

namespace {
OpenedPlugin open_library(const PluginNames& names, const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return {.reason = fmt::format("cannot load the {} plug-in {}: {}; {}", names.name, path,
                                  loader_error(), names.advice)};
  void* symbol = dlsym(library, names.entry);
  if (!symbol)
    return {.reason = fmt::format("{} is no {} plug-in: {}", path, names.name, loader_error())};
  const void* const table = reinterpret_cast<const void* (*)() noexcept>(symbol)();
  if (const int32_t found = *static_cast<const int32_t*>(table); found != names.version)
    return {.reason = fmt::format("the {} plug-in {} does not fit this program: expected version "
                                  "{}, found {}; build both again",
                                  names.name, path, names.version, found)};
  return {.table = table};
}
}  // namespace

OpenedPlugin open_plugin(const PluginNames& names) {
  if (const char* path = std::getenv(names.variable); path && *path)
    return open_library(names, path);
  const std::string file = plugin_file(names.library);
  OpenedPlugin opened = open_library(names, file);
  // The loader's path may have one that lacks a library of its own: its words say which.
  if (!opened.table && file == names.library)
    opened.reason = fmt::format(
        "the {} plug-in is not in {}, and the loader's path offers none that "
        "fits: {}",
        names.name, fmt::join(plugin_folders(), " or "), opened.reason);
  return opened;
}

}  // namespace hlite
