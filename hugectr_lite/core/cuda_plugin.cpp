#include "hugectr_lite/core/cuda_plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "hugectr_lite/core/build_config.h"

namespace hlite::cuda {
namespace {

std::string executable_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : program.parent_path().string();
}

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "the loader gives no reason";
}

// Where the library was really found.
std::string file_of(void* symbol, const std::string& asked) {
  Dl_info info{};
  return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : asked;
}

}  // namespace

void throw_failure(const Failure& failure) { throw DeviceError(failure.text); }

CudaPlugin CudaPlugin::load() {
  if (const char* path = std::getenv("HLITE_CUDA_LIBRARY"); path && *path) return load_from(path);
  if constexpr (!kWithCuda) {
    CudaPlugin none;
    none.reason_ =
        "this build contains no CUDA: it was configured without nvcc or with "
        "HLITE_WITH_CUDA=OFF";
    return none;
  }
  const std::string folder = executable_folder();
  const std::string beside = folder + "/" + kLibraryName;
  if (access(beside.c_str(), F_OK) == 0) return load_from(beside);
  CudaPlugin plugin = load_from(kLibraryName);
  if (!plugin.loaded())
    plugin.reason_ = fmt::format(
        "the CUDA plug-in {} is not beside the program (in {}), and the loader's path "
        "offers none that fits: {}",
        kLibraryName, folder, plugin.reason_);
  return plugin;
}

CudaPlugin CudaPlugin::load_from(const std::string& path) {
  CudaPlugin plugin;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    plugin.reason_ = fmt::format("cannot load the CUDA plug-in {}: {}", path, loader_error());
    return plugin;
  }
  void* symbol = dlsym(library, kEntryName);
  if (!symbol) {
    plugin.reason_ =
        fmt::format("{} is not a CUDA plug-in of this program: {}", path, loader_error());
    dlclose(library);
    return plugin;
  }
  const OpTable* table = reinterpret_cast<OpTableEntry>(symbol)(kAbiVersion);
  if (!table || table->abi_version != kAbiVersion || table->bytes != int{sizeof(OpTable)}) {
    const std::string found =
        table ? fmt::format("version {} with {} bytes", table->abi_version, table->bytes)
              : std::string("another one");
    plugin.reason_ = fmt::format(
        "the CUDA plug-in {} does not fit this program: expected interface version {} with {} "
        "bytes, found {}; build both from the same sources",
        file_of(symbol, path), kAbiVersion, sizeof(OpTable), found);
    return plugin;
  }
  plugin.table_ = table;
  plugin.path_ = file_of(symbol, path);
  Failure why;
  plugin.devices_ = table->device_count(why.text, sizeof(why.text));
  if (plugin.devices_ == 0) plugin.reason_ = why.text;
  return plugin;
}

const OpTable& CudaPlugin::table() const {
  if (!table_) throw DeviceError(reason_);
  return *table_;
}

const OpTable& CudaPlugin::require_device() const {
  if (devices_ == 0) throw DeviceError(reason_);
  return *table_;
}

}  // namespace hlite::cuda
