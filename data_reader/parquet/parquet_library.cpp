#include "data_reader/parquet/parquet_library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/plugin_file.h"

namespace hlite::data::parquet {
namespace {

constexpr const char* kAdvice =
    "reading Parquet needs Arrow C++: tools/setup.sh --parquet fetches it; then configure and "
    "build again";

struct Opened {
  const Plugin* plugin = nullptr;
  std::string reason;
};

Opened open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return {nullptr, fmt::format("cannot load the Parquet plug-in {}: {}; {}", path, loader_error(),
                                 kAdvice)};
  void* symbol = dlsym(library, kEntryName);
  if (!symbol) return {nullptr, fmt::format("{} is no Parquet plug-in: {}", path, loader_error())};
  const Plugin* found = reinterpret_cast<PluginEntry>(symbol)();
  if (found->version != kInterfaceVersion)
    return {nullptr,
            fmt::format(
                "the Parquet plug-in {} does not fit this program: expected version {}, found {}; "
                "build both again",
                path, kInterfaceVersion, found->version)};
  return {found, ""};
}

Opened find() {
  if (const char* path = std::getenv("HLITE_PARQUET_LIBRARY"); path && *path)
    return open_library(path);
  const std::string file = plugin_file(kLibraryName);
  Opened found = open_library(file);
  if (!found.plugin && file == kLibraryName)
    found.reason =
        fmt::format("the Parquet plug-in {} is neither in {} nor on the loader's path; {}",
                    kLibraryName, fmt::join(plugin_folders(), " or "), kAdvice);
  return found;
}

const Opened& opened() {
  static const Opened once = find();
  return once;
}

}  // namespace

const Plugin& plugin() {
  if (!opened().plugin) throw DataError(opened().reason);
  return *opened().plugin;
}

std::string why_missing() { return opened().reason; }

}  // namespace hlite::data::parquet
