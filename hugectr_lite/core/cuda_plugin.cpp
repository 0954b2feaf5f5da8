#include "hugectr_lite/core/cuda_plugin.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/plugin_file.h"

namespace hlite::cuda {
namespace {

// Returns the file where the library was found.
std::string file_of(void* symbol, const std::string& asked) {
  Dl_info info{};
  return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : asked;
}

// One for each library, which stays as long as it does.
const Backend& loaded_backend(const Plugin& plugin) {
  static std::mutex mutex;
  static std::map<const Plugin*, Backend> backends;
  const std::lock_guard lock(mutex);
  auto found = backends.find(&plugin);
  if (found == backends.end()) found = backends.emplace(&plugin, backend_of(plugin)).first;
  return found->second;
}

}  // namespace

CudaPlugin CudaPlugin::load() {
  if (const char* path = std::getenv("HLITE_CUDA_LIBRARY"); path && *path) return load_from(path);
  if constexpr (!kWithCuda) {
    CudaPlugin none;
    none.reason_ =
        "this build contains no CUDA: it was configured without nvcc or with "
        "HLITE_WITH_CUDA=OFF";
    return none;
  }
  const std::string file = plugin_file(kLibraryName);
  CudaPlugin plugin = load_from(file);
  if (!plugin.loaded() && file == kLibraryName)
    plugin.reason_ = fmt::format(
        "the CUDA plug-in {} is not in {}, and the loader's path offers none that fits: {} (for "
        "programs of pip: pip install hugectr_lite_cuda)",
        kLibraryName, fmt::join(plugin_folders(), " or "), plugin.reason_);
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
  try {
    plugin.backend_ = &loaded_backend(*reinterpret_cast<PluginEntry>(symbol)());
  } catch (const DeviceError& why) {
    plugin.reason_ = fmt::format("the CUDA plug-in {} does not fit this program: {}",
                                 file_of(symbol, path), why.what());
    return plugin;
  }
  plugin.path_ = file_of(symbol, path);
  Failure why;
  plugin.devices_ = plugin.backend_->device_count(why.text, sizeof(why.text));
  if (plugin.devices_ == 0) plugin.reason_ = why.text;
  return plugin;
}

const Backend& CudaPlugin::backend() const {
  if (!backend_) throw DeviceError(reason_);
  return *backend_;
}

const Backend& CudaPlugin::require_device() const {
  if (devices_ == 0) throw DeviceError(reason_);
  return *backend_;
}

}  // namespace hlite::cuda
