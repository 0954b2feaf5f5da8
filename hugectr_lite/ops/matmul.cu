#include "hugectr_lite/ops/matmul.cuh"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/matmul_context.h"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {
namespace {

// The largest alignment that cuBLASLt cares to know.
constexpr uintptr_t kMaxAligned = 256;
// The alignment of bias, bias gradient and mask for cuBLASLt's epilogues.
constexpr uintptr_t kEpilogueAlignment = 16;
constexpr int64_t kMaskBits = 128;

bool has(cublasLtEpilogue_t epilogue, int part) { return (epilogue & part) != 0; }
bool has_bias(cublasLtEpilogue_t e) { return has(e, CUBLASLT_EPILOGUE_BIAS); }
bool has_sums(cublasLtEpilogue_t e) { return has(e, 16 /* BGRAD */ | CUBLASLT_EPILOGUE_BGRADA); }
bool has_mask(cublasLtEpilogue_t e) { return has(e, 128 /* AUX */); }

bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kEpilogueAlignment == 0;
}

uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | kMaxAligned;
  return static_cast<uint32_t>(address & (~address + 1));
}

template <typename T>
__global__ void widen_kernel(const T* from, float* to, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) to[i] = to_float(from[i]);
}
template <typename T>
void widen(const void* from, float* to, int64_t n, cudaStream_t stream) {
  constexpr int64_t kThreads = 256;
  launch(
      {.name = "widen", .grid = grid_for(n, kThreads), .block = dim3(kThreads), .stream = stream},
      widen_kernel<T>, static_cast<const T*>(from), to, n);
}

// Every column of `to` [m,n], column-major, becomes `from` [m]: a thread keeps its rows' values and
// goes from column to column.
template <int kCount, typename T>
__global__ void __launch_bounds__(kPackThreads)
    repeat_column_kernel(const T* from, T* to, int64_t m, int64_t n) {
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kCount;
  if (row >= m) return;
  const Pack<T, kCount> values = load_pack<kCount>(from + row);
  for (int64_t column = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; column < n;
       column += int64_t{gridDim.y} * blockDim.y)
    store_pack(to + column * m + row, values);
}
template <typename T>
void repeat_column(const void* from, void* to, int64_t m, int64_t n, cudaStream_t stream) {
  constexpr int kCount = kPackCount<T>;
  constexpr int64_t kBlocks = 2048;
  const dim3 block(kWarp, kPackThreads / kWarp);
  const auto* const column = static_cast<const T*>(from);
  auto* const matrix = static_cast<T*>(to);
  const bool aligned =
      m % kCount == 0 && starts_pack<kCount>(column) && starts_pack<kCount>(matrix);
  with_pack_count<kCount>(aligned, [&](auto count) {
    const dim3 across = grid_for(m, int64_t{count} * block.x);
    const dim3 down = grid_for(n, block.y, std::max<int64_t>(1, kBlocks / across.x));
    launch(
        {.name = "repeat_column", .grid = dim3(across.x, down.x), .block = block, .stream = stream},
        repeat_column_kernel<count(), T>, column, matrix, m, n);
  });
}

// "NVIDIA_H200/9.0/132/130100": what else than the problem decides which algorithm is the fastest.
std::string current_device() {
  int device = 0;
  cudaDeviceProp properties{};
  HLITE_CUDA(cudaGetDevice(&device));
  HLITE_CUDA(cudaGetDeviceProperties(&properties, device));
  std::string text = properties.name;
  for (char& c : text)
    if (c <= ' ') c = '_';
  return text + "/" + std::to_string(properties.major) + "." + std::to_string(properties.minor) +
         "/" + std::to_string(properties.multiProcessorCount) + "/" +
         std::to_string(cublaslt().version());
}

}  // namespace

Matmul::Matmul(const MatmulOptions& options)
    : float_compute_(options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F),
      one_for_all_batches_(options.one_for_all_batches),
      device_(current_device()),
      algorithm_file_(options.algorithm_file ? options.algorithm_file : ""),
      warn_(options.warn),
      planned_(options.planned) {
  cublasLtHandle_t handle = nullptr;
  HLITE_CUBLASLT(cublaslt().create(&handle));
  handle_.reset(handle);
  void* memory = nullptr;
  constexpr auto kCounterBytes = static_cast<size_t>(kBlockCounters) * sizeof(unsigned);
  static_assert(kWorkspaceBytes + kScratchBytes + kCounterBytes == kMatmulBytes);
  HLITE_CUDA(cudaMalloc(&memory, kMatmulBytes));
  memory_.reset(static_cast<char*>(memory));
  HLITE_CUDA(cudaMemsetAsync(counters(), 0, kCounterBytes, nullptr));
  HLITE_CUDA(cudaStreamSynchronize(nullptr));
}

cublasComputeType_t Matmul::compute_type(const MatmulProblem& p) const {
  return p.factors == CUDA_R_32F ? float_compute_ : CUBLAS_COMPUTE_32F;
}

Matmul::Key Matmul::key_of(const MatmulProblem& p) const {
  return {alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(p.d),
          alignment_of(vector_of(p)),
          alignment_of(p.mask),
          compute_type(p),
          p.factors,
          p.result,
          p.epilogue,
          p.turn_a,
          p.turn_b,
          p.accumulate,
          p.m,
          p.n,
          p.k};
}

std::string Matmul::text_of(const Key& key) const {
  std::string text = device_;
  for (const int64_t number : key) text.append(1, '/').append(std::to_string(number));
  return text;
}

void Matmul::warn_once(const std::string& text) {
  if (!warned_.insert(text).second) return;
  if (warn_)
    warn_(text.c_str());
  else
    std::fprintf(stderr, "warning: %s\n", text.c_str());
}

void* Matmul::vector_of(const MatmulProblem& p) const {
  if (has_bias(p.epilogue))
    return is_aligned(p.bias) ? const_cast<void*>(p.bias) /* read */ : scratch();
  if (!has_sums(p.epilogue)) return nullptr;
  return p.result == CUDA_R_32F && is_aligned(p.sums) ? p.sums : scratch();
}

bool Matmul::can_fuse(const MatmulProblem& p) const {
  return is_aligned(p.mask) &&
         (vector_of(p) != scratch() || p.m * static_cast<int64_t>(sizeof(float)) <= kScratchBytes);
}

MatmulProblem Matmul::without_epilogue(MatmulProblem problem) {
  problem.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  problem.accumulate |= problem.bias && problem.result != CUDA_R_32F;
  problem.bias = problem.mask = nullptr;
  problem.sums = nullptr;
  return problem;
}

Matmul::ProductPlan Matmul::describe(const MatmulProblem& p) const {
  const CublasLt& lt = cublaslt();
  const auto layout = [&](cudaDataType_t type, int64_t rows, int64_t columns, int64_t stride = 0) {
    cublasLtMatrixLayout_t made = nullptr;
    HLITE_CUBLASLT(lt.layout_create(&made, type, static_cast<uint64_t>(rows),
                                    static_cast<uint64_t>(columns), stride ? stride : rows));
    return Layout(made);
  };
  ProductPlan plan;
  plan.a = p.turn_a ? layout(p.factors, p.k, p.m) : layout(p.factors, p.m, p.k);
  plan.b =
      p.turn_b ? layout(p.factors, p.n, p.k, p.b_stride) : layout(p.factors, p.k, p.n, p.b_stride);
  plan.d = layout(p.result, p.m, p.n);

  cublasLtMatmulDesc_t desc = nullptr;
  HLITE_CUBLASLT(lt.desc_create(&desc, compute_type(p), CUDA_R_32F));
  plan.desc.reset(desc);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    HLITE_CUBLASLT(lt.desc_set(desc, attribute, &value, sizeof(value)));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.turn_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.turn_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  if (has_mask(p.epilogue))
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (p.m + kMaskBits - 1) / kMaskBits * kMaskBits);
  set_pointers(plan, p);  // candidates depend on how they are aligned
  return plan;
}

void Matmul::set_pointers(const ProductPlan& plan, const MatmulProblem& p) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* value) {
    HLITE_CUBLASLT(cublaslt().desc_set(plan.desc.get(), attribute, &value, sizeof(value)));
  };
  if (const void* vector = vector_of(p)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (has_mask(p.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.mask);
}

cublasStatus_t Matmul::multiply(const ProductPlan& plan, const MatmulAlgorithm& algorithm,
                                const MatmulProblem& p, cudaStream_t stream) const {
  const float one = 1, before = p.accumulate ? 1 : 0;
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  return cublaslt().matmul(handle_.get(), plan.desc.get(), &one, p.a, plan.a.get(), p.b,
                           plan.b.get(), &before, p.d, plan.d.get(), p.d, plan.d.get(), &algo,
                           memory_.get(), size_t{kWorkspaceBytes}, stream);
}

void Matmul::multiply_fused(const ProductPlan& plan, const MatmulAlgorithm& algorithm,
                            const MatmulProblem& problem, cudaStream_t stream) const {
  void* const vector = vector_of(problem);
  if (problem.bias && vector != problem.bias) {
    const size_t bytes = problem.result == CUDA_R_32F ? sizeof(float) : sizeof(bf16);
    HLITE_CUDA(cudaMemcpyAsync(vector, problem.bias, static_cast<size_t>(problem.m) * bytes,
                               cudaMemcpyDefault, stream));
  }
  set_pointers(plan, problem);
  HLITE_CUBLASLT(multiply(plan, algorithm, problem, stream));
  if (!has_sums(problem.epilogue) || vector == problem.sums) return;
  if (problem.result == CUDA_R_16BF)
    widen<bf16>(vector, problem.sums, problem.m, stream);
  else if (problem.result == CUDA_R_16F)
    widen<fp16>(vector, problem.sums, problem.m, stream);
  else
    widen<float>(vector, problem.sums, problem.m, stream);
}

void Matmul::multiply_plainly(const ProductPlan& plain, const MatmulProblem& problem,
                              const EpilogueKernels& kernels, cudaStream_t stream) const {
  if (kernels.multiply()) return kernels(problem);
  const MatmulProblem product = without_epilogue(problem);
  MatmulProblem rest = problem;
  if (product.accumulate) {
    if (problem.result == CUDA_R_16BF)
      repeat_column<bf16>(problem.bias, problem.d, problem.m, problem.n, stream);
    else
      repeat_column<fp16>(problem.bias, problem.d, problem.m, problem.n, stream);
    rest.bias = nullptr;
  }
  HLITE_CUBLASLT(multiply(plain, plain.algorithm, product, stream));
  kernels(rest);
}

const Matmul::ProductPlan& Matmul::plan_of(const MatmulProblem& problem,
                                           const EpilogueKernels* kernels, cudaStream_t stream) {
  const Key key = key_of(problem);
  auto plan = plans_.find(key);
  if (plan == plans_.end()) {
    plan = plans_.emplace(key, make_plan(problem, key, kernels, stream)).first;
    if (planned_) planned_(text_of(key).c_str());
  }
  return plan->second;
}

bool Matmul::run(const MatmulProblem& problem, cudaStream_t stream,
                 const EpilogueKernels* kernels) {
  if (problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    const ProductPlan& fused = plan_of(problem, kernels, stream);
    if (fused.supported) {
      multiply_fused(fused, fused.algorithm, problem, stream);
      return true;
    }
  }
  if (kernels && kernels->multiply()) {
    (*kernels)(problem);
    return true;
  }
  const MatmulProblem product = kernels ? without_epilogue(problem) : problem;
  const ProductPlan& plain = plan_of(product, nullptr, stream);
  if (!plain.supported) return false;
  if (kernels)
    multiply_plainly(plain, problem, *kernels, stream);
  else
    HLITE_CUBLASLT(multiply(plain, plain.algorithm, product, stream));
  return true;
}

static void* create(MatmulOptions options) { return new Matmul(options); }
static void destroy(void* matmul) { delete static_cast<Matmul*>(matmul); }

HLITE_KERNELS(matmul) {
  list.add<create>(hlite::kernels::matmul_create);
  list.add<destroy>(hlite::kernels::matmul_destroy);
}

}  // namespace hlite::ops::gpu
