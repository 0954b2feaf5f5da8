// Stands in for NVIDIA's header of this name, like cuda_runtime.h: what the project uses of
// cuBLASLt. Products are computed on the CPU, with the strictness of the real library where it is
// known: types that go together, alignment and size of ReLU masks, workspaces, aligned loads. A
// bias or bias gradient that is not aligned to 16 bytes fails to launch,
// as on some devices it does.
//
// Algorithm i of kAlgorithms cuts a product along k into i + 1 parts, so each rounds in its own
// way; those after the first need workspace for m x n floats a part; the last one loads 16 bytes at
// a time and is offered only where all rows are aligned to that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/cuda_emulation/cuda_runtime.h"

inline constexpr int CUBLAS_VER_MAJOR = 13;
inline constexpr int CUBLAS_VERSION = 130100;

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
using cudaDataType = cudaDataType_t;
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasLtEpilogue_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_RELU = 2,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_RELU_AUX = 2 | 128,
  CUBLASLT_EPILOGUE_DRELU = 8 | 128,
  CUBLASLT_EPILOGUE_DRELU_BGRAD = 8 | 128 | 16,
  CUBLASLT_EPILOGUE_BGRADA = 256,
};
enum cublasLtReductionScheme_t {
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
  CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 15,
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};

struct cublasLtContext;
using cublasLtHandle_t = cublasLtContext*;
struct EmulatedMatmulDesc;
using cublasLtMatmulDesc_t = EmulatedMatmulDesc*;
struct EmulatedMatrixLayout;
using cublasLtMatrixLayout_t = EmulatedMatrixLayout*;
struct EmulatedPreference;
using cublasLtMatmulPreference_t = EmulatedPreference*;
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
};

size_t cublasLtGetVersion();
const char* cublasLtGetStatusString(cublasStatus_t status);
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t* results, int* count);
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream);

namespace hlite::emulation {

// The mistakes that an epilogue can make.
enum class EpilogueFault {
  kNone,
  kNoBias,        // leaves it out
  kRoundsTwice,   // rounds the product to d's type, then adds the bias
  kNoRelu,        // lets negative numbers pass
  kFullMask,      // writes a mask of ones
  kNoMask,        // leaves the mask as it was
  kIgnoresMask,   // reads none
  kUnmaskedSums,  // sums the gradient before it is masked
  kNoSums,        // leaves the bias gradient as it was
  kVaries,        // sums the bias gradient in another order each time
};

// The library as tests find and change it, while nothing runs.
struct MatmulLibrary {
  static constexpr int kAlgorithms = 4;
  bool installed = true;
  std::string missing_function;  // that dlsym does not find
  bool epilogues = true;         // false: only CUBLASLT_EPILOGUE_DEFAULT has algorithms
  // The time of a product on Machine::clock_ms; by default the third algorithm is the fastest.
  double milliseconds[kAlgorithms] = {4, 3, 1, 2};
  bool fails[kAlgorithms] = {};      // offered, but does not run
  double epilogue_milliseconds = 0;  // that a product with epilogue costs besides
  EpilogueFault fault = EpilogueFault::kNone;
  int faulty = -1;              // the one algorithm with the fault; -1: all
  bool relu_keeps_nan = false;  // else a NaN becomes 0, as in fmaxf

  std::string opened;           // names that dlopen was asked for, by blanks
  int objects = 0;              // handles, descriptors, layouts and preferences alive
  int created = 0;              // of these, so far
  int varied = 0;               // sums that kVaries has made
  int varies_every = 2;         // and of how many one is in another order
  int searches = 0;             // calls of cublasLtMatmulAlgoGetHeuristic
  int most_asked = 0;           // algorithms, by one of these
  std::vector<int> multiplied;  // the algorithm of each product that ran
  uint32_t last_epilogue = 0;   // of these
};
MatmulLibrary& matmul_library();
// One of the functions below by name, or null: see dlfcn.h.
void* matmul_function(const std::string& name);

}  // namespace hlite::emulation
