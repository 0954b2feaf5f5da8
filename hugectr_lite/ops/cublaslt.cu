#include "hugectr_lite/ops/cublaslt.cuh"

#include <dlfcn.h>

namespace hlite::ops::gpu {
namespace {

// Returns the loader's last error.
std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "the loader gives no reason";
}

void* open_library(const std::string& name) {
  constexpr const char* kToolkit = "/usr/local/cuda/lib64/";
  if (void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
  const std::string why = loader_error();
  if (void* library = dlopen((kToolkit + name).c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
  throw CudaError("cannot load cuBLASLt, which multiplies matrices on the GPU: looked for " + name +
                  " on the loader's path (LD_LIBRARY_PATH, ldconfig) and in " + kToolkit + "; " +
                  why +
                  "; it comes with the CUDA toolkit (package libcublas) or by pip install "
                  "'hugectr_lite[cuda]'");
}

template <typename Pointer>
void find(void* library, const std::string& file, const char* name, Pointer* function) {
  *function = reinterpret_cast<Pointer>(dlsym(library, name));
  if (!*function)
    throw CudaError(file + " has no " + name + ": " + loader_error() +
                    "; this program was built for version " + std::to_string(CUBLAS_VERSION));
}

}  // namespace

CublasLt load_cublaslt() {
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* const library = open_library(file);
  CublasLt lt{};
  find(library, file, "cublasLtGetVersion", &lt.version);
  find(library, file, "cublasLtGetStatusString", &lt.status_string);
  find(library, file, "cublasLtCreate", &lt.create);
  find(library, file, "cublasLtDestroy", &lt.destroy);
  find(library, file, "cublasLtMatmulDescCreate", &lt.desc_create);
  find(library, file, "cublasLtMatmulDescDestroy", &lt.desc_destroy);
  find(library, file, "cublasLtMatmulDescSetAttribute", &lt.desc_set);
  find(library, file, "cublasLtMatrixLayoutCreate", &lt.layout_create);
  find(library, file, "cublasLtMatrixLayoutDestroy", &lt.layout_destroy);
  find(library, file, "cublasLtMatmulPreferenceCreate", &lt.preference_create);
  find(library, file, "cublasLtMatmulPreferenceDestroy", &lt.preference_destroy);
  find(library, file, "cublasLtMatmulPreferenceSetAttribute", &lt.preference_set);
  find(library, file, "cublasLtMatmulAlgoGetHeuristic", &lt.heuristic);
  find(library, file, "cublasLtMatmulAlgoCheck", &lt.check);
  find(library, file, "cublasLtMatmul", &lt.matmul);
  return lt;
}

const CublasLt& cublaslt() {
  static const CublasLt lt = load_cublaslt();
  return lt;
}

void check_cublaslt(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(std::string(file) + ":" + std::to_string(line) + ": " + call + ": " +
                  cublaslt().status_string(status));
}

}  // namespace hlite::ops::gpu
