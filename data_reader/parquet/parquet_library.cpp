#include "data_reader/parquet/parquet_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "hugectr_lite/core/error.h"

namespace hlite::data::parquet {
namespace {

constexpr const char* kAdvice =
    "reading Parquet needs Arrow C++: tools/setup.sh --parquet fetches it; then configure and "
    "build again";

struct Opened {
  const Plugin* plugin = nullptr;
  std::string reason;
};

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "the loader gives no reason";
}

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

std::string program_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : program.parent_path().string();
}

// Of the shared library that this code is in; of a program, as it was started.
std::string code_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&program_folder), &info) || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path().string();
}

Opened find() {
  if (const char* path = std::getenv("HLITE_PARQUET_LIBRARY"); path && *path)
    return open_library(path);
  for (const std::string& folder : {program_folder(), code_folder()}) {
    const std::string beside = folder + "/" + kLibraryName;
    if (!folder.empty() && access(beside.c_str(), F_OK) == 0) return open_library(beside);
  }
  Opened other = open_library(kLibraryName);
  if (!other.plugin)
    other.reason = fmt::format(
        "the Parquet plug-in {} is neither beside the program (in {}) nor on the loader's path; {}",
        kLibraryName, program_folder(), kAdvice);
  return other;
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
