#include "tests/support/cuda_emulation/dlfcn.h"

#include <map>
#include <mutex>
#include <string>

#include "tests/support/cuda_emulation/cublasLt.h"
#include "tests/support/cuda_emulation/nccl.h"

namespace hlite::emulation {
namespace {

thread_local std::string loader_text;

template <typename Pointer>
void* address(Pointer* function) {
  return reinterpret_cast<void*>(function);
}

void* nccl_function(const std::string& name) {
  static const std::map<std::string, void*> functions = {
      {"ncclGetVersion", address(ncclGetVersion)},
      {"ncclGetUniqueId", address(ncclGetUniqueId)},
      {"ncclGetErrorString", address(ncclGetErrorString)},
      {"ncclGetLastError", address(ncclGetLastError)},
      {"ncclCommInitRankConfig", address(ncclCommInitRankConfig)},
      {"ncclCommGetAsyncError", address(ncclCommGetAsyncError)},
      {"ncclCommRevoke", address(ncclCommRevoke)},
      {"ncclCommAbort", address(ncclCommAbort)},
      {"ncclCommFinalize", address(ncclCommFinalize)},
      {"ncclCommDestroy", address(ncclCommDestroy)},
      {"ncclGroupStart", address(ncclGroupStart)},
      {"ncclGroupEnd", address(ncclGroupEnd)},
      {"ncclSend", address(ncclSend)},
      {"ncclRecv", address(ncclRecv)},
      {"ncclAllReduce", address(ncclAllReduce)}};
  const auto function = functions.find(name);
  return function != functions.end() && name != nccl_machine().missing_function ? function->second
                                                                                : nullptr;
}

using Find = void* (*)(const std::string& name);
Find finders[] = {matmul_function, nccl_function};

// By the name that is asked for, without a path.
Find* library_of(const std::string& name) {
  if (name.starts_with("libcublasLt.so") && matmul_library().installed) return &finders[0];
  if (name.starts_with("libnccl.so") && nccl_machine().installed) return &finders[1];
  return nullptr;
}

}  // namespace

// Ranks, which are threads, open libraries at the same time.
void* dlopen(const char* name, int) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  matmul_library().opened += std::string(name) + " ";
  Find* const library = library_of(name);
  if (!library) loader_text = std::string(name) + ": cannot open shared object file";
  return library;
}

void* dlsym(void* library, const char* name) {
  void* const function = (*static_cast<Find*>(library))(name);
  if (!function) loader_text = std::string("undefined symbol: ") + name;
  return function;
}

const char* dlerror() { return loader_text.c_str(); }

}  // namespace hlite::emulation
