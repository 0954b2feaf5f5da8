// The CUDA plug-in seen from the program: libhlite_cuda.so, opened and checked.
//
// Everything that includes a CUDA header is built into that one library and found at run time, so
// a program starts in milliseconds and runs on a machine with neither driver nor toolkit. What
// both sides share needs no CUDA: core/plugin_interface.h, and the headers of ops with their
// kernels' handles.
//
// Errors. Every function of the plug-in is noexcept; one that can fail returns false and leaves
// plain words in a Failure. An exception could cross the library boundary too, but only while both
// sides share one libstdc++ and the type information of the error class is one symbol: with hidden
// symbols, a private (RTLD_LOCAL) library or a static libstdc++ it is not, and `catch (const
// Error&)` then silently misses. Function and Kernel turn the words back into a DeviceError on the
// program's side.
#pragma once

#include <string>

#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/core/error.h"

namespace hlite::cuda {

// The plug-in, or the reason in plain words why there is none.
class CudaPlugin {
 public:
  // Takes the library that $HLITE_CUDA_LIBRARY names; without it, the plugin_file(). Never throws
  // for an absent, foreign or unusable library: see reason(). A loaded library stays loaded until
  // the process ends, because the CUDA runtime inside it does not survive being unloaded.
  static CudaPlugin load();
  // The same for the library at `path`.
  static CudaPlugin load_from(const std::string& path);

  // The library is there, of this program's build, and has its kernels.
  [[nodiscard]] bool loaded() const { return backend_ != nullptr; }
  // Usable CUDA devices; 0 when not loaded, without driver or without device.
  [[nodiscard]] int devices() const { return devices_; }
  // Why devices() is 0; empty otherwise.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  // File the plug-in came from; empty when not loaded.
  [[nodiscard]] const std::string& path() const { return path_; }

  // Throws DeviceError with the reason when not loaded. Lives until the process ends.
  [[nodiscard]] const Backend& backend() const;
  // Throws DeviceError with the reason when there is no device.
  [[nodiscard]] const Backend& require_device() const;

 private:
  const Backend* backend_ = nullptr;
  int devices_ = 0;
  std::string reason_;
  std::string path_;
};

}  // namespace hlite::cuda
