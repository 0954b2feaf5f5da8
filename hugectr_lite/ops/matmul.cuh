// Matmul: products of matrices by cuBLASLt, with plans that are made once a shape.
//
// A plan is what cuBLASLt wants to know about a product, and the algorithm for it. The first call
// of a problem makes its plan: it asks cuBLASLt for candidates and, where the choice can be
// remembered in the algorithm file, takes the fastest on this device; else cuBLASLt's first, so
// that runs give the same bits either way. Later calls look the plan up, allocate nothing and can
// be captured into a CUDA graph; making a plan cannot, and says so.
//
// An epilogue (bias, ReLU, ...) is cuBLASLt's or a kernel's that goes over the plain product once
// more, or makes that too (few_inputs_layer.cuh). cuBLASLt's is taken where it
//   - is given pointers aligned to 16 bytes, which a bias below that is copied for: it is known
//     to fault on some devices,
//   - makes what the plain product and the kernel make, and rounds it once (epilogue_check.h),
//   - gives the same bits each time: that is not documented of its bias gradients,
//   - and, where times can be remembered, is no slower than plain product and kernel.
// All this is found out on the first call's own data and remembered in the algorithm file.
//
// Deterministic: products that are cut along k are summed in float in the workspace by a separate
// pass (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE), never by atomics and never in 16 bits; one that
// is added to 16 bits is not cut, because that pass would round it first. On an
// H200 cuBLASLt 13.1 rounds there first in all aligned shapes, too, as PyTorch's two gradients are.
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
#include "hugectr_lite/core/matmul_context.h"
#include "hugectr_lite/ops/column_sums.cuh"
#include "hugectr_lite/ops/cublaslt.cuh"
#include "hugectr_lite/ops/matmul_algorithms.h"

namespace hlite::ops::gpu {

// d [m,n] = epilogue(op(a) [m,k] op(b) [k,n]), all column-major and packed, m, n, k >= 1; turn says
// that the matrix lies transposed. d overlaps nothing else. accumulate: d += the product, which has
// no epilogue. A product with an epilogue other than BGRADA has turn_b = false, one with BGRADA
// turn_a = false.
struct MatmulProblem {
  bool turn_a = false, turn_b = false;
  int64_t m = 0, n = 0, k = 0;
  cudaDataType_t factors = CUDA_R_32F, result = CUDA_R_32F;
  bool accumulate = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;  // by the epilogue: [m], of d's type
  // By the epilogue: [m], written: the bias gradient, sums of d's rows or, by BGRADA, of a's.
  float* sums = nullptr;
  // By the epilogue: ReLU's mask, written or read; a column has m bits, padded to multiples of 128.
  void* mask = nullptr;
  int64_t b_stride = 0;  // of b, as it lies; 0: it is packed
};

// The kernels that do an epilogue's work: turn the plain product in problem.d into what
// problem.epilogue asks for; or, if they multiply, make it of the factors. problem.bias is null if
// the product was added to the bias. They allocate nothing, and may use scratch(). What it is made
// of must outlive it.
class EpilogueKernels {
 public:
  template <typename Run>
  explicit EpilogueKernels(const Run& run, bool multiply = false)
      : object_(&run),
        call_([](const void* object, const MatmulProblem& problem) {
          (*static_cast<const Run*>(object))(problem);
        }),
        multiply_(multiply) {}
  [[nodiscard]] bool multiply() const { return multiply_; }
  void operator()(const MatmulProblem& problem) const { call_(object_, problem); }

 private:
  const void* object_;
  void (*call_)(const void*, const MatmulProblem&);
  bool multiply_;
};

class Matmul {
 public:
  // On the current device.
  explicit Matmul(const MatmulOptions& options);

  // Multiplies on `stream`, by cuBLASLt's epilogue or `kernels`, which only a problem with epilogue
  // needs. False, with nothing done, where cuBLASLt knows no algorithm for the plain product.
  [[nodiscard]] bool run(const MatmulProblem& problem, cudaStream_t stream,
                         const EpilogueKernels* kernels = nullptr);

  // Memory for what kernels pass to each other on the stream; run() with `sums` uses it too.
  [[nodiscard]] void* scratch() const { return memory_.get() + kWorkspaceBytes; }
  static constexpr int64_t kScratchBytes = (int64_t{8} << 20) - kBlockCounters * 4;
  // After it: what is_last_block() counts in.
  [[nodiscard]] unsigned* counters() const {
    return reinterpret_cast<unsigned*>(memory_.get() + kWorkspaceBytes + kScratchBytes);
  }

 private:
  // NVIDIA's advice for compute capability 9.0. What a smaller device does not need, it gets too:
  // without memory for partial results a product with a long k cannot be cut along it.
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

  struct ProductPlan {
    Desc desc;
    Layout a, b, d;
    bool supported = false;
    MatmulAlgorithm algorithm{};
  };
  // All that a plan depends on: how the pointers are aligned, then the problem's numbers.
  using Key = std::array<int64_t, 15>;
  class Timer;
  class Judge;
  // State of the search for a new shape.
  struct Search {
    const MatmulProblem& problem;
    const EpilogueKernels* kernels;  // null for a plain product
    const ProductPlan* plain;  // plan of the product without epilogue; null: this one has none
    std::string name;          // the key's text
    cudaStream_t stream;
  };

  // ---- matmul.cu: products ----
  [[nodiscard]] cublasComputeType_t compute_type(const MatmulProblem& problem) const;
  [[nodiscard]] Key key_of(const MatmulProblem& problem) const;
  [[nodiscard]] std::string text_of(const Key& key) const;
  void warn_once(const std::string& text);
  // Returns the address where cuBLASLt finds the bias or writes the bias gradient: of d's type, and
  // aligned.
  [[nodiscard]] void* vector_of(const MatmulProblem& problem) const;
  [[nodiscard]] bool can_fuse(const MatmulProblem& problem) const;
  // The product that kernels make the result of: without epilogue, and added to a bias of 16 bits,
  // so that it is rounded once.
  [[nodiscard]] static MatmulProblem without_epilogue(MatmulProblem problem);
  [[nodiscard]] ProductPlan describe(const MatmulProblem& problem) const;
  void set_pointers(const ProductPlan& plan, const MatmulProblem& problem) const;
  cublasStatus_t multiply(const ProductPlan& plan, const MatmulAlgorithm& algorithm,
                          const MatmulProblem& problem, cudaStream_t stream) const;
  // A product, and what goes before and after cuBLASLt's epilogue.
  void multiply_fused(const ProductPlan& plan, const MatmulAlgorithm& algorithm,
                      const MatmulProblem& problem, cudaStream_t stream) const;
  // plain: the plan of without_epilogue(problem).
  void multiply_plainly(const ProductPlan& plain, const MatmulProblem& problem,
                        const EpilogueKernels& kernels, cudaStream_t stream) const;
  const ProductPlan& plan_of(const MatmulProblem& problem, const EpilogueKernels* kernels,
                             cudaStream_t stream);

  // ---- matmul_search.cu: the choice of an algorithm ----
  [[nodiscard]] ProductPlan make_plan(MatmulProblem problem, const Key& key,
                                      const EpilogueKernels* kernels, cudaStream_t stream);
  [[nodiscard]] std::vector<MatmulAlgorithm> candidates(const ProductPlan& plan,
                                                        const MatmulProblem& problem) const;
  [[nodiscard]] bool fits(const ProductPlan& plan, const MatmulAlgorithm& algorithm) const;
  // A plain product by the first algorithm that runs, which is not remembered. False: none does.
  [[nodiscard]] bool multiply_once(const MatmulProblem& problem, cudaStream_t stream) const;
  [[nodiscard]] bool runs(const ProductPlan& plan, const MatmulAlgorithm& algorithm,
                          const MatmulProblem& problem, cudaStream_t stream) const;
  // Chooses the first of the candidates, or where `timed` the fastest, that runs and, for an
  // epilogue, is worth its while and right.
  struct Chosen {
    MatmulChoice choice;
    bool any = false;   // whether one runs
    bool sure = false;  // whether it may be remembered
  };
  [[nodiscard]] Chosen choose(const ProductPlan& plan, const std::vector<MatmulAlgorithm>& all,
                              const Search& search, bool timed);
  // Returns true if the file has a choice that can be followed here; the plan then does.
  [[nodiscard]] bool follow_remembered(const LockedAlgorithms& remembered, const Search& search,
                                       ProductPlan& plan);

  // The plan of the same product of the largest batch, or null.
  [[nodiscard]] const ProductPlan* plan_of_largest_batch(const Key& key) const;

  cublasComputeType_t float_compute_;
  bool one_for_all_batches_;
  std::string device_;  // as keys of the algorithm file name it
  std::string algorithm_file_;
  bool can_remember_ = true;  // until the file turns out not to be writable
  void (*warn_)(const char*);
  void (*planned_)(const char*);
  std::set<std::string> warned_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyHandle> handle_;
  std::unique_ptr<char, FreeDevice> memory_;  // workspace, scratch, counters
  std::map<Key, ProductPlan> plans_;
};

// For column_sums.cuh.
inline SumScratch scratch_of(const Matmul& matmul) {
  return {{static_cast<float*>(matmul.scratch()), Matmul::kScratchBytes / sizeof(float)},
          matmul.counters()};
}

}  // namespace hlite::ops::gpu
