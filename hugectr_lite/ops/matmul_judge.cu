#include "hugectr_lite/ops/matmul_judge.cuh"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int kRanges = 8;
constexpr int64_t kRangeColumns = 32, kRangeElements = int64_t{1} << 17;
// A bias gradient that varies is caught in all but one of 2^kRepeats times where two orders of its
// sum are as likely.
constexpr int kRepeats = 16;
// What runs beside a repeated product: copies of as many bytes as it makes, within these limits.
constexpr int kCopiesBeside = 8;
constexpr int64_t kLeastCopied = int64_t{64} << 10, kMostCopied = int64_t{32} << 20;
constexpr int64_t kDigestBlocks = 1024;

size_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

template <typename F>
auto with_type(cudaDataType_t type, F&& f) {
  return type == CUDA_R_16BF  ? f.template operator()<bf16>()
         : type == CUDA_R_16F ? f.template operator()<fp16>()
                              : f.template operator()<float>();
}

// Copies on a stream of their own: a product that other work takes multiprocessors and bandwidth
// from may end its parts in another order than it does alone.
class Beside {
 public:
  explicit Beside(int64_t bytes)
      : bytes_(static_cast<size_t>(std::clamp(bytes, kLeastCopied, kMostCopied))),
        memory_(2 * bytes_, stream_.get()) {}
  void copy() const {
    for (int i = 0; i < kCopiesBeside; ++i)
      HLITE_CUDA(cudaMemcpyAsync(memory_.data() + bytes_, memory_.data(), bytes_, cudaMemcpyDefault,
                                 stream_.get()));
  }

 private:
  const Stream stream_;
  const size_t bytes_;
  const DeviceBuffer<char> memory_;
};

// Adds up numbers that depend on each element's bits and place: in any order.
template <int kCount>
__global__ void __launch_bounds__(kPackThreads)
    digest_kernel(const uint16_t* words, int64_t n, unsigned long long* sum) {
  unsigned long long mine = 0;
  for_each_pack<kCount>(n, [&]<int k>(int64_t at) {
    const Pack<uint16_t, k> pack = load_pack<k>(words + at);
    for (int i = 0; i < k; ++i) {
      unsigned long long x = static_cast<unsigned long long>(at + i) << 16 | pack.value[i];
      x *= 0x9E3779B97F4A7C15ull;
      mine += (x ^ x >> 29) * 0xBF58476D1CE4E5B9ull;
    }
  });
  if (mine != 0) atomicAdd(sum, mine);
}

}  // namespace

Matmul::Judge::Judge(const Matmul& matmul, const Search& search)
    : matmul_(matmul),
      problem_(search.problem),
      stream_(search.stream),
      ranges_(sample_of(problem_.n)),
      digest_(1, search.stream) {
  expected_.rows = problem_.m;
  for (const JudgedRange& range : ranges_) expected_.columns += range.count;
  expected_.mask_stride = (problem_.m + 127) / 128 * 16;
  expected_.relu = (problem_.epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
  expected_.product = sampled_product();
  if (problem_.bias) make_bias();
  if (problem_.mask && !expected_.relu) expected_.gate = sampled_mask();
  if (!problem_.sums) return;
  if (sums_a()) expected_.terms = sampled_terms();
  matmul_.multiply_plainly(*search.plain, problem_, *search.kernels, stream_);
  expected_.sums = sums();
}

std::vector<Matmul::Judge::JudgedRange> Matmul::Judge::sample_of(int64_t columns) const {
  const int64_t count = std::clamp<int64_t>(kRangeElements / problem_.m, 1, kRangeColumns);
  if (columns <= kRanges * count) return {{0, std::min(columns, kRanges * count)}};
  std::vector<JudgedRange> ranges;
  // Columns of a turned b begin where its rows may be loaded 16 bytes at a time.
  const int64_t unit = problem_.turn_b && columns % 8 == 0 ? 8 : 1;
  for (int64_t i = 0; i < kRanges; ++i)
    ranges.push_back({(columns - count) * i / (kRanges - 1) / unit * unit, count});
  return ranges;
}

void Matmul::Judge::make_bias() {
  double squares = 0, finite = 0;
  for (const float value : expected_.product)
    if (std::isfinite(value)) {
      squares += static_cast<double>(value) * value;
      ++finite;
    }
  const double size = finite > 0 ? std::sqrt(squares / finite) : 0;
  std::vector<float>& bias = expected_.bias;
  const size_t bytes = static_cast<size_t>(problem_.m) * size_of(problem_.result);
  bias_ = DeviceBuffer<char>(bytes, stream_);
  with_type(problem_.result, [&]<typename T>() {
    std::vector<T> rounded;
    for (int64_t row = 0; row < problem_.m; ++row) {
      const double pattern = static_cast<double>(row * 37 % 64) / 32 - 0.984375;
      rounded.push_back(from_float<T>(static_cast<float>(size * pattern)));
      bias.push_back(to_float(rounded.back()));
    }
    HLITE_CUDA(cudaMemcpyAsync(bias_.data(), rounded.data(), bytes, cudaMemcpyDefault, stream_));
    HLITE_CUDA(cudaStreamSynchronize(stream_));
  });
  problem_.bias = bias_.data();
}

template <typename T>
std::vector<T> Matmul::Judge::copied(const T* data, int64_t n) const {
  std::vector<T> host(static_cast<size_t>(n));
  HLITE_CUDA(
      cudaMemcpyAsync(host.data(), data, host.size() * sizeof(T), cudaMemcpyDefault, stream_));
  HLITE_CUDA(cudaStreamSynchronize(stream_));
  return host;
}

std::vector<float> Matmul::Judge::floats(cudaDataType_t type, const void* data, int64_t first,
                                         int64_t n) const {
  return with_type(type, [&]<typename T>() {
    std::vector<float> wide;
    for (const T value : copied(static_cast<const T*>(data) + first, n))
      wide.push_back(to_float(value));
    return wide;
  });
}

std::vector<float> Matmul::Judge::sampled_values() const {
  std::vector<float> all;
  for (const JudgedRange& range : ranges_) {
    const auto part =
        floats(problem_.result, problem_.d, range.begin * problem_.m, range.count * problem_.m);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

bool Matmul::Judge::sums_a() const { return problem_.epilogue == CUBLASLT_EPILOGUE_BGRADA; }

std::vector<float> Matmul::Judge::sampled_terms() const {
  std::vector<float> all;
  for (const JudgedRange& range : sample_of(problem_.k)) {
    const auto part =
        floats(problem_.factors, problem_.a, range.begin * problem_.m, range.count * problem_.m);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// The plain product, which is not rounded to the result's type.
std::vector<float> Matmul::Judge::sampled_product() const {
  std::vector<float> all;
  for (const JudgedRange& range : ranges_) {
    const DeviceBuffer<float> values(static_cast<size_t>(range.count * problem_.m), stream_);
    MatmulProblem part = without_epilogue(problem_);
    part.n = range.count;
    part.b_stride = problem_.turn_b ? problem_.n : problem_.k;
    part.b =
        static_cast<const char*>(problem_.b) + range.begin * (problem_.turn_b ? 1 : problem_.k) *
                                                   static_cast<int64_t>(size_of(problem_.factors));
    part.result = CUDA_R_32F;
    part.accumulate = false;
    part.d = values.data();
    if (!matmul_.multiply_once(part, stream_))
      throw CudaError("cuBLASLt cannot multiply [" + std::to_string(part.m) + "," +
                      std::to_string(part.k) + "] by [" + std::to_string(part.k) + "," +
                      std::to_string(part.n) + "] into float");
    const auto product = copied(values.data(), range.count * problem_.m);
    all.insert(all.end(), product.begin(), product.end());
  }
  return all;
}

std::vector<uint8_t> Matmul::Judge::sampled_mask() const {
  std::vector<uint8_t> all;
  const int64_t stride = expected_.mask_stride;
  for (const JudgedRange& range : ranges_) {
    const auto part = copied(static_cast<const uint8_t*>(problem_.mask) + range.begin * stride,
                             range.count * stride);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<float> Matmul::Judge::sums() const { return copied(problem_.sums, problem_.m); }

// Spoils the results: what an algorithm leaves unwritten must not be right by what was there
// before.
void Matmul::Judge::spoil_results() const {
  const auto spoil = [&](void* data, int64_t bytes) {
    HLITE_CUDA(cudaMemsetAsync(data, 0xFF, static_cast<size_t>(bytes), stream_));
  };
  const auto size = static_cast<int64_t>(size_of(problem_.result));
  spoil(problem_.d, problem_.m * problem_.n * size);
  if (problem_.mask && expected_.relu) spoil(problem_.mask, problem_.n * expected_.mask_stride);
  if (!problem_.sums) return;
  spoil(matmul_.vector_of(problem_), problem_.m * size);
  spoil(problem_.sums, problem_.m * static_cast<int64_t>(sizeof(float)));
}

ProductRounding Matmul::Judge::rounding() const {
  ProductRounding r;
  r.unit = problem_.result == CUDA_R_16BF  ? 0x1p-9
           : problem_.result == CUDA_R_16F ? 0x1p-12
                                           : 0x1p-24;
  r.smallest = problem_.result == CUDA_R_16F ? 0x1p-24 : 0x1p-126;
  if (matmul_.compute_type(problem_) == CUBLAS_COMPUTE_32F_FAST_TF32) r.factor = 0x1p-11;
  r.k = problem_.k;
  r.batch = sums_a() ? problem_.k : problem_.n;
  return r;
}

uint64_t Matmul::Judge::digest() const {
  constexpr int kCount = kPackCount<uint16_t>;
  HLITE_CUDA(cudaMemsetAsync(digest_.data(), 0, sizeof(unsigned long long), stream_));
  const auto add = [&](const void* data, int64_t bytes) {
    const auto* const words = static_cast<const uint16_t*>(data);
    const int64_t n = bytes / 2;
    with_pack_count<kCount>(starts_pack<kCount>(words), [&](auto count) {
      launch({.name = "digest",
              .grid = pack_grid(n, count, kDigestBlocks),
              .block = dim3(kPackThreads),
              .stream = stream_},
             digest_kernel<count()>, words, n, digest_.data());
    });
  };
  add(problem_.d, problem_.m * problem_.n * static_cast<int64_t>(size_of(problem_.result)));
  if (problem_.sums) add(problem_.sums, problem_.m * static_cast<int64_t>(sizeof(float)));
  return copied(digest_.data(), 1)[0];
}

Matmul::Judge::Opinion Matmul::Judge::of(const ProductPlan& plan,
                                         const MatmulAlgorithm& algorithm) const {
  spoil_results();
  const auto multiply = [&] { matmul_.multiply_fused(plan, algorithm, problem_, stream_); };
  multiply();
  FusedSample got;
  got.values = sampled_values();
  if (problem_.mask && expected_.relu) got.mask = sampled_mask();
  if (problem_.sums) got.sums = sums();
  if (const std::string why = difference(expected_, got, rounding()); !why.empty())
    return {MatmulVerdict::kDiffers, why};
  const uint64_t first = digest();
  const Beside beside(problem_.m * problem_.n * static_cast<int64_t>(size_of(problem_.result)));
  for (int i = 0; i < kRepeats; ++i) {
    beside.copy();
    multiply();
    if (digest() != first)
      return {MatmulVerdict::kVaries, "the same product gave other bits when it was repeated"};
  }
  return {};
}

}  // namespace hlite::ops::gpu
