// A matrix product of the stand-in for cuBLASLt: whether it can be had, and its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/cuda_emulation/cublasLt.h"

struct EmulatedMatmulDesc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t turn_a = CUBLAS_OP_N, turn_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
  void* mask = nullptr;
  int64_t mask_ld = 0;
  int32_t sms = 0;  // changes nothing here
};
struct EmulatedMatrixLayout {
  cudaDataType_t type;
  int64_t rows, columns, ld;
};

namespace hlite::emulation {

struct MatmulProduct {
  const EmulatedMatmulDesc& desc;
  const EmulatedMatrixLayout &a, &b, &d;

  // Returns the error of the real library where it refuses the product with any algorithm.
  [[nodiscard]] cublasStatus_t check() const;
  static bool aligned(const void* pointer, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  }
  [[nodiscard]] size_t workspace(int algorithm) const {
    return algorithm == 0 ? 0 : static_cast<size_t>(m() * n() * (algorithm + 1)) * sizeof(float);
  }
  [[nodiscard]] bool supports(int algorithm) const {
    return algorithm < MatmulLibrary::kAlgorithms - 1 || rows_aligned();
  }
  // Algorithm `number` sums in number + 1 parts. before: 1 adds to what d holds, 0 does not read
  // it.
  void multiply(const void* a_data, const void* b_data, void* d_data, int number,
                float before) const;

  [[nodiscard]] int64_t m() const { return d.rows; }
  [[nodiscard]] int64_t n() const { return d.columns; }
  [[nodiscard]] int64_t k() const { return desc.turn_a == CUBLAS_OP_N ? a.columns : a.rows; }
  [[nodiscard]] bool has(uint32_t part) const { return (desc.epilogue & part) != 0; }
  [[nodiscard]] cublasStatus_t check_epilogue() const;
  [[nodiscard]] bool rows_aligned() const;
  [[nodiscard]] std::vector<float> factor(const void* data, const EmulatedMatrixLayout& layout,
                                          bool turned, int64_t rows, int64_t columns) const;
};

}  // namespace hlite::emulation
