// Checks that cuBLASLt's epilogues do what they should, on a problem's own data: samples and
// digests of results go to the host, so only for a shape's first call.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/ops/epilogue_check.h"
#include "hugectr_lite/ops/matmul.cuh"

namespace hlite::ops::gpu {

class Matmul::Judge {
 public:
  // Multiplies plainly, the sample in float too. A bias is replaced by one of this class, as large
  // as the product: those of a new network are 0 and would show nothing.
  Judge(const Matmul& matmul, const Search& search);

  // Returns true if the product's numbers can reveal a wrong epilogue.
  [[nodiscard]] bool is_conclusive() const { return ops::is_conclusive(expected_); }
  struct Opinion {
    MatmulVerdict verdict = MatmulVerdict::kTake;
    std::string why;  // of another one
  };
  // Judges an algorithm that runs.
  [[nodiscard]] Opinion of(const ProductPlan& plan, const MatmulAlgorithm& algorithm) const;

 private:
  // Some neighbouring columns of the result.
  struct JudgedRange {
    int64_t begin, count;
  };
  [[nodiscard]] std::vector<JudgedRange> sample_of(int64_t columns) const;
  void make_bias();
  // Copied from the device when it is done.
  template <typename T>
  [[nodiscard]] std::vector<T> copied(const T* data, int64_t n) const;
  [[nodiscard]] std::vector<float> floats(cudaDataType_t type, const void* data, int64_t first,
                                          int64_t n) const;
  [[nodiscard]] std::vector<float> sampled_values() const;
  // Whether the epilogue sums rows of a, not of d; and columns of a.
  [[nodiscard]] bool sums_a() const;
  [[nodiscard]] std::vector<float> sampled_terms() const;
  [[nodiscard]] std::vector<float> sampled_product() const;
  [[nodiscard]] std::vector<uint8_t> sampled_mask() const;
  [[nodiscard]] std::vector<float> sums() const;
  void spoil_results() const;
  [[nodiscard]] ProductRounding rounding() const;
  // Equal for equal bits in all of d and the bias gradient.
  [[nodiscard]] uint64_t digest() const;

  const Matmul& matmul_;
  MatmulProblem problem_;
  cudaStream_t stream_;
  std::vector<JudgedRange> ranges_;
  EpilogueSample expected_;
  DeviceBuffer<char> bias_;
  DeviceBuffer<unsigned long long> digest_;
};

}  // namespace hlite::ops::gpu
