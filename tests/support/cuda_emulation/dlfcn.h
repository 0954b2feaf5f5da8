// Stands in for the system's header of this name in the project's .cu files: the libraries that
// these open at run time are stand-ins, too.
#pragma once

namespace hlite::emulation {
void* dlopen(const char* name, int flags);
void* dlsym(void* library, const char* name);
const char* dlerror();
}  // namespace hlite::emulation

using hlite::emulation::dlerror;
using hlite::emulation::dlopen;
using hlite::emulation::dlsym;

inline constexpr int RTLD_LAZY = 1;
inline constexpr int RTLD_NOW = 2;
inline constexpr int RTLD_LOCAL = 0;
