// Backend: a plug-in as a program uses it, with the entry of each of the program's kernel handles.
#pragma once

#include <vector>

#include "hugectr_lite/core/plugin_interface.h"

namespace hlite::cuda {

struct Backend : DeviceFunctions {
  std::vector<AnyFunction> kernels;  // by KernelHandle::index(); empty: for a GPU that is not here
};

// Throws DeviceError that says what does not fit: both builds, or the kernel that is missing or has
// another signature.
Backend backend_of(const Plugin& plugin);

}  // namespace hlite::cuda
