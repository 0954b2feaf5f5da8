#include "tests/support/cuda_emulation/cublasLt.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tests/support/cuda_emulation/dlfcn.h"
#include "tests/support/cuda_emulation/matmul_product.h"
#include "tests/support/cuda_emulation/runtime_state.h"

struct cublasLtContext {
  int device = 0;
};
struct EmulatedPreference {
  uint64_t workspace = 0;
  uint32_t reductions = 7, a = 256, b = 256, c = 256, d = 256;
};

namespace hlite::emulation {
namespace {

constexpr uint64_t kMark = 0x656d756c61746564;  // in every algorithm of this library

MatmulLibrary the_library;
// Guards its counts: devices of several threads use it at once.
std::mutex counting;

template <typename T, typename... Args>
cublasStatus_t create(T** object, Args... args) {
  *object = new T{args...};
  const std::lock_guard lock(counting);
  ++the_library.objects;
  ++the_library.created;
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T>
cublasStatus_t destroy(T* object) {
  if (!object) return CUBLAS_STATUS_INVALID_VALUE;
  delete object;
  const std::lock_guard lock(counting);
  --the_library.objects;
  return CUBLAS_STATUS_SUCCESS;
}

// The number of an algorithm of this library, or -1.
int number_of(const cublasLtMatmulAlgo_t& algorithm) {
  return algorithm.data[0] == kMark && algorithm.data[1] < MatmulLibrary::kAlgorithms
             ? static_cast<int>(algorithm.data[1])
             : -1;
}

// Copies an attribute of exactly that size.
template <typename T>
cublasStatus_t set(T* attribute, const void* value, size_t bytes) {
  if (!value || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Pointer>
void* address(Pointer* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

MatmulLibrary& matmul_library() { return the_library; }

void* matmul_function(const std::string& name) {
  static const std::map<std::string, void*> functions = {
      {"cublasLtGetVersion", address(cublasLtGetVersion)},
      {"cublasLtGetStatusString", address(cublasLtGetStatusString)},
      {"cublasLtCreate", address(cublasLtCreate)},
      {"cublasLtDestroy", address(cublasLtDestroy)},
      {"cublasLtMatmulDescCreate", address(cublasLtMatmulDescCreate)},
      {"cublasLtMatmulDescDestroy", address(cublasLtMatmulDescDestroy)},
      {"cublasLtMatmulDescSetAttribute", address(cublasLtMatmulDescSetAttribute)},
      {"cublasLtMatrixLayoutCreate", address(cublasLtMatrixLayoutCreate)},
      {"cublasLtMatrixLayoutDestroy", address(cublasLtMatrixLayoutDestroy)},
      {"cublasLtMatmulPreferenceCreate", address(cublasLtMatmulPreferenceCreate)},
      {"cublasLtMatmulPreferenceDestroy", address(cublasLtMatmulPreferenceDestroy)},
      {"cublasLtMatmulPreferenceSetAttribute", address(cublasLtMatmulPreferenceSetAttribute)},
      {"cublasLtMatmulAlgoGetHeuristic", address(cublasLtMatmulAlgoGetHeuristic)},
      {"cublasLtMatmulAlgoCheck", address(cublasLtMatmulAlgoCheck)},
      {"cublasLtMatmul", address(cublasLtMatmul)}};
  const auto function = functions.find(name);
  const bool found = function != functions.end() && name != the_library.missing_function;
  return found ? function->second : nullptr;
}

}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the requested functionality is not supported";
  }
  return "unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(handle, current_device()); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(desc, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(&desc->turn_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(&desc->turn_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(&desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(&desc->vector, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(&desc->mask, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(&desc->mask_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return set(&desc->sms, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  return create(layout, type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(&preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(&preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(&preference->a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(&preference->b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(&preference->c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(&preference->d, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  {
    const std::lock_guard lock(counting);
    ++the_library.searches;
    the_library.most_asked = std::max(the_library.most_asked, asked);
  }
  *count = 0;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (asked <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  const MatmulProduct product{*desc, *a, *b, *d};
  if (const cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  const bool aligned = preference->a % 16 == 0 && preference->b % 16 == 0 &&
                       preference->c % 16 == 0 && preference->d % 16 == 0;
  for (int i = 0; i < MatmulLibrary::kAlgorithms && *count < asked; ++i) {
    if (!product.supports(i) || product.workspace(i) > preference->workspace) continue;
    if (i > 0 && (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0) continue;
    if (i == MatmulLibrary::kAlgorithms - 1 && !aligned) continue;
    results[(*count)++] = {
        {{kMark, static_cast<uint64_t>(i)}}, product.workspace(i), CUBLAS_STATUS_SUCCESS, 1.0f};
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const MatmulProduct product{*desc, *a, *b, *d};
  const int number = number_of(*algorithm);
  if (number < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (!product.supports(number)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = product.workspace(number);
  return product.check();
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  // No caller scales, and a caller that adds does so to d itself and without an epilogue.
  const float before = *static_cast<const float*>(beta);
  if (*static_cast<const float*>(alpha) != 1 || (before != 0 && before != 1) || c != d ||
      c_layout != d_layout || !a || !b || !d || !algorithm ||
      (before != 0 && desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT))
    return CUBLAS_STATUS_INVALID_VALUE;
  const MatmulProduct product{*desc, *a_layout, *b_layout, *d_layout};
  if (const cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  const int number = number_of(*algorithm);
  if (number < 0 || product.workspace(number) > workspace_bytes ||
      (product.workspace(number) > 0 && !workspace) || !MatmulProduct::aligned(workspace, 256))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (current_device() != handle->device || device_of(stream) != handle->device)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool aligned = MatmulProduct::aligned(a, 16) && MatmulProduct::aligned(b, 16) &&
                       MatmulProduct::aligned(d, 16);
  if (!product.supports(number) || the_library.fails[number] ||
      (number == MatmulLibrary::kAlgorithms - 1 && !aligned))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  cudaStreamCaptureStatus status;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
      check_fault_on(stream, "product") != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  hlite::emulation::submit(
      stream,
      [=, of = *desc, a_of = *a_layout, b_of = *b_layout, d_of = *d_layout] {
        const MatmulProduct captured{of, a_of, b_of, d_of};
        // A real algorithm leaves its partial results there.
        if (workspace) std::memset(workspace, 0xFF, captured.workspace(number));
        captured.multiply(a, b, d, number, before);
      },
      "product");
  {
    const std::lock_guard lock(counting);
    the_library.multiplied.push_back(number);
    the_library.last_epilogue = desc->epilogue;
  }
  const auto held = StreamQueues::lock();
  machine().clock_ms += the_library.milliseconds[number];
  if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    machine().clock_ms += the_library.epilogue_milliseconds;
  return CUBLAS_STATUS_SUCCESS;
}
