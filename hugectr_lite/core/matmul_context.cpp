#include "hugectr_lite/core/matmul_context.h"

#include <cstdlib>

#include "hugectr_lite/core/error.h"

namespace hlite {
namespace {

// The value of an environment variable that holds an absolute path, as the XDG rules ask.
std::string folder_in(const char* variable) {
  const char* value = std::getenv(variable);
  return value && value[0] == '/' ? value : "";
}

Exec gpu_only(const cuda::Backend& gpu) { return {.device = Device::kCuda, .cuda = &gpu}; }

}  // namespace

MatmulContext::MatmulContext(const cuda::Backend& gpu, const MatmulOptions& options)
    : gpu_(&gpu), context_(kernels::matmul_create(gpu_only(gpu), options)) {}

MatmulContext::~MatmulContext() {
  if (!context_) return;
  try {
    kernels::matmul_destroy(gpu_only(*gpu_), context_);
  } catch (const DeviceError&) {  // a destructor cannot report errors
  }
}

std::string default_algorithm_file() {
  std::string folder = folder_in("XDG_CACHE_HOME");
  if (folder.empty()) {
    folder = folder_in("HOME");
    if (folder.empty()) return "";
    folder += "/.cache";
  }
  return folder + "/hugectr_lite/matmul_algorithms.txt";
}

}  // namespace hlite
