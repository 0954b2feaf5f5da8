// cuBLASLt, opened when first needed: linking it would cost every start of the program 100 ms and
// more, and keep the plug-in from loading on a machine without it.
#pragma once

#include <cublasLt.h>

#include <string>

#include "hugectr_lite/core/cuda_raii.cuh"

namespace hlite::ops::gpu {

// The functions of the library that this project calls.
struct CublasLt {
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoCheck) check;
  decltype(&cublasLtMatmul) matmul;
};

// Opens the library of the major version that this was compiled for: on the loader's path, then in
// the usual folder of a CUDA toolkit. Throws CudaError that says where it was looked for.
CublasLt load_cublaslt();

// The library, loaded on the first call and never closed. A failure is tried again next time.
const CublasLt& cublaslt();

// Throws CudaError for a call that failed.
void check_cublaslt(cublasStatus_t status, const char* call, const char* file, int line);
#define HLITE_CUBLASLT(call) ::hlite::ops::gpu::check_cublaslt((call), #call, __FILE__, __LINE__)

}  // namespace hlite::ops::gpu
