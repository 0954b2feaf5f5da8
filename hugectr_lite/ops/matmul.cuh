// Matmul: products of matrices by cuBLASLt, with plans that are made once a shape.
//
// A plan is what cuBLASLt wants to know about a product, and the algorithm for it. The first call
// of a problem makes its plan: it asks cuBLASLt for candidates and, where the choice can be
// remembered in the algorithm file, takes the fastest on this device; else cuBLASLt's first, so
// that runs give the same bits either way. Later calls look the plan up, allocate nothing and can
// be captured into a CUDA graph; making a plan cannot, and says so.
//
// Deterministic: products that are cut along k are summed in float in the workspace by a separate
// pass (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE), never by atomics and never in 16 bits.
//
// Ranks of a machine wait for each other's searches (matmul_algorithms.h), so they agree.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/plugin_table.h"
#include "hugectr_lite/ops/cublaslt.cuh"
#include "hugectr_lite/ops/matmul_algorithms.h"

namespace hlite::ops::gpu {

// d [m,n] = epilogue(op(a) [m,k] op(b) [k,n]), all column-major and packed, m, n, k >= 1; turn says
// that the matrix lies transposed. d overlaps nothing else.
struct MatmulProblem {
  bool turn_a = false, turn_b = false;
  int64_t m = 0, n = 0, k = 0;
  cudaDataType_t factors = CUDA_R_32F, result = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  // By the epilogue: bias, or the bias gradient that is written; [m], of d's type.
  void* vector = nullptr;
  // By the epilogue: ReLU's mask, written or read; a column has m bits, padded to multiples of 128.
  void* mask = nullptr;
};

class Matmul {
 public:
  // On the current device.
  explicit Matmul(const cuda::MatmulOptions& options);

  // Multiplies on `stream`. False, with nothing done, where cuBLASLt knows no algorithm for the
  // problem, which happens to rare combinations of epilogue, shape and alignment.
  [[nodiscard]] bool run(const MatmulProblem& problem, cudaStream_t stream);

  // Memory for what callers pass between two kernels on the stream. run() leaves it alone.
  [[nodiscard]] void* scratch() const { return memory_.get() + kWorkspaceBytes; }
  static constexpr int64_t kScratchBytes = int64_t{8} << 20;

 private:
  // NVIDIA's advice for compute capability 9.0. What a smaller device does not need, it gets too:
  // without room for partial results a product with a long k cannot be cut along it.
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

  struct FreeDevice {
    void operator()(char* data) const { report_cuda(cudaFree(data), "cudaFree"); }
  };
  struct DestroyHandle {
    void operator()(cublasLtHandle_t handle) const { (void)cublaslt().destroy(handle); }
  };
  struct DestroyDesc {
    void operator()(cublasLtMatmulDesc_t desc) const { (void)cublaslt().desc_destroy(desc); }
  };
  struct DestroyLayout {
    void operator()(cublasLtMatrixLayout_t layout) const {
      (void)cublaslt().layout_destroy(layout);
    }
  };
  struct DestroyPreference {
    void operator()(cublasLtMatmulPreference_t preference) const {
      (void)cublaslt().preference_destroy(preference);
    }
  };
  using Desc = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, DestroyDesc>;
  using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, DestroyLayout>;
  using Preference =
      std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, DestroyPreference>;

  struct Plan {
    Desc desc;
    Layout a, b, d;
    bool supported = false;
    MatmulAlgorithm algorithm{};
  };
  // All that a plan depends on: how the pointers are aligned, then the problem's numbers.
  using Key = std::array<int64_t, 14>;

  [[nodiscard]] cublasComputeType_t compute_type(const MatmulProblem& problem) const;
  [[nodiscard]] Key key_of(const MatmulProblem& problem) const;
  [[nodiscard]] std::string text_of(const Key& key) const;
  void warn_once(const std::string& text);

  [[nodiscard]] Plan describe(const MatmulProblem& problem) const;
  void set_pointers(const Plan& plan, const MatmulProblem& problem) const;
  [[nodiscard]] std::vector<MatmulAlgorithm> candidates(const Plan& plan, const Key& key) const;
  [[nodiscard]] bool fits(const Plan& plan, const MatmulAlgorithm& algorithm) const;
  cublasStatus_t multiply(const Plan& plan, const MatmulAlgorithm& algorithm,
                          const MatmulProblem& problem, cudaStream_t stream) const;
  [[nodiscard]] bool runs(const Plan& plan, const MatmulAlgorithm& algorithm,
                          const MatmulProblem& problem, cudaStream_t stream) const;
  void choose_first(Plan& plan, const std::vector<MatmulAlgorithm>& all,
                    const MatmulProblem& problem, cudaStream_t stream) const;
  void choose_fastest(Plan& plan, const std::vector<MatmulAlgorithm>& all,
                      const MatmulProblem& problem, cudaStream_t stream) const;
  [[nodiscard]] Plan make_plan(const MatmulProblem& problem, const Key& key, cudaStream_t stream);

  cublasComputeType_t float_compute_;
  std::string device_;  // as keys of the algorithm file name it
  std::string algorithm_file_;
  bool can_remember_ = true;  // until the file turns out not to be writable
  void (*warn_)(const char*);
  std::set<std::string> warned_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyHandle> handle_;
  std::unique_ptr<char, FreeDevice> memory_;  // workspace, then scratch
  std::map<Key, Plan> plans_;
};

}  // namespace hlite::ops::gpu
