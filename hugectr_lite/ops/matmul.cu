#include "hugectr_lite/ops/matmul.cuh"

#include <bit>
#include <cstdio>
#include <limits>

#include "hugectr_lite/core/matmul_context.h"

namespace hlite::ops::gpu {
namespace {

constexpr int kCandidates = 16;
// A candidate's time is the best of kTimings, each of kRepeats products: some 30 ms for the largest
// shapes of DLRM at batch 65,536, once a machine.
constexpr int kTimings = 3;
constexpr int kRepeats = 3;
// As aligned as cuBLASLt cares to know.
constexpr uintptr_t kMostAligned = 256;
constexpr int64_t kMaskBits = 128;

bool has(cublasLtEpilogue_t epilogue, int part) { return (epilogue & part) != 0; }
bool has_vector(cublasLtEpilogue_t e) { return has(e, CUBLASLT_EPILOGUE_BIAS | 16 /* BGRAD */); }
bool has_mask(cublasLtEpilogue_t e) { return has(e, 128 /* AUX */); }

uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | kMostAligned;
  return static_cast<uint32_t>(address & (~address + 1));
}

// Measures the device's time between two points of a stream.
class Timer {
 public:
  Timer() {
    for (cudaEvent_t& event : events_)
      HLITE_CUDA(cudaEventCreateWithFlags(&event, cudaEventDefault));
  }
  ~Timer() {
    for (const cudaEvent_t event : events_)
      if (event) report_cuda(cudaEventDestroy(event), "cudaEventDestroy");
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void start(cudaStream_t stream) { HLITE_CUDA(cudaEventRecord(events_[0], stream)); }
  // Milliseconds since start(), after waiting for the stream.
  float stop(cudaStream_t stream) {
    float ms = 0;
    HLITE_CUDA(cudaEventRecord(events_[1], stream));
    HLITE_CUDA(cudaEventSynchronize(events_[1]));
    HLITE_CUDA(cudaEventElapsedTime(&ms, events_[0], events_[1]));
    return ms;
  }

 private:
  cudaEvent_t events_[2] = {};
};

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  HLITE_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
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

Matmul::Matmul(const cuda::MatmulOptions& options)
    : float_compute_(options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F),
      device_(current_device()),
      algorithm_file_(options.algorithm_file ? options.algorithm_file : ""),
      warn_(options.warn) {
  cublasLtHandle_t handle = nullptr;
  HLITE_CUBLASLT(cublaslt().create(&handle));
  handle_.reset(handle);
  void* memory = nullptr;
  static_assert(kWorkspaceBytes + kScratchBytes == kMatmulBytes);
  HLITE_CUDA(cudaMalloc(&memory, kMatmulBytes));
  memory_.reset(static_cast<char*>(memory));
}

cublasComputeType_t Matmul::compute_type(const MatmulProblem& p) const {
  return p.factors == CUDA_R_32F ? float_compute_ : CUBLAS_COMPUTE_32F;
}

Matmul::Key Matmul::key_of(const MatmulProblem& p) const {
  return {alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(p.d),
          alignment_of(p.vector),
          alignment_of(p.mask),
          compute_type(p),
          p.factors,
          p.result,
          p.epilogue,
          p.turn_a,
          p.turn_b,
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

Matmul::Plan Matmul::describe(const MatmulProblem& p) const {
  const CublasLt& lt = cublaslt();
  const auto layout = [&](cudaDataType_t type, int64_t rows, int64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    HLITE_CUBLASLT(lt.layout_create(&made, type, static_cast<uint64_t>(rows),
                                    static_cast<uint64_t>(columns), rows));
    return Layout(made);
  };
  Plan plan;
  plan.a = p.turn_a ? layout(p.factors, p.k, p.m) : layout(p.factors, p.m, p.k);
  plan.b = p.turn_b ? layout(p.factors, p.n, p.k) : layout(p.factors, p.k, p.n);
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

void Matmul::set_pointers(const Plan& plan, const MatmulProblem& p) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* value) {
    HLITE_CUBLASLT(cublaslt().desc_set(plan.desc.get(), attribute, &value, sizeof(value)));
  };
  if (has_vector(p.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.vector);
  if (has_mask(p.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.mask);
}

std::vector<MatmulAlgorithm> Matmul::candidates(const Plan& plan, const Key& key) const {
  const CublasLt& lt = cublaslt();
  cublasLtMatmulPreference_t preference = nullptr;
  HLITE_CUBLASLT(lt.preference_create(&preference));
  const Preference owner(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    HLITE_CUBLASLT(lt.preference_set(preference, attribute, &value, sizeof(value)));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key[0]));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(key[1]));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(key[2]));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(key[2]));

  cublasLtMatmulHeuristicResult_t results[kCandidates] = {};
  int count = 0;
  const cublasStatus_t status =
      lt.heuristic(handle_.get(), plan.desc.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                   plan.d.get(), preference, kCandidates, results, &count);
  std::vector<MatmulAlgorithm> all;
  // It is not strict about which of the two it says of a combination that it does not know.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return all;
  check_cublaslt(status, "cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
  for (int i = 0; i < count; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS)
      all.push_back(std::bit_cast<MatmulAlgorithm>(results[i].algo));
  return all;
}

// Whether a remembered algorithm can run here.
bool Matmul::fits(const Plan& plan, const MatmulAlgorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  return cublaslt().check(handle_.get(), plan.desc.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                          plan.d.get(), &algo, &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= size_t{kWorkspaceBytes};
}

cublasStatus_t Matmul::multiply(const Plan& plan, const MatmulAlgorithm& algorithm,
                                const MatmulProblem& p, cudaStream_t stream) const {
  const float one = 1, zero = 0;
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  return cublaslt().matmul(handle_.get(), plan.desc.get(), &one, p.a, plan.a.get(), p.b,
                           plan.b.get(), &zero, p.d, plan.d.get(), p.d, plan.d.get(), &algo,
                           memory_.get(), size_t{kWorkspaceBytes}, stream);
}

// Heuristics promise much, but whether an algorithm runs shows when it does.
bool Matmul::runs(const Plan& plan, const MatmulAlgorithm& algorithm, const MatmulProblem& problem,
                  cudaStream_t stream) const {
  if (multiply(plan, algorithm, problem, stream) == CUBLAS_STATUS_SUCCESS) return true;
  (void)cudaGetLastError();  // not to be found by the next check
  return false;
}

void Matmul::choose_first(Plan& plan, const std::vector<MatmulAlgorithm>& all,
                          const MatmulProblem& problem, cudaStream_t stream) const {
  for (const MatmulAlgorithm& algorithm : all) {
    if (!runs(plan, algorithm, problem, stream)) continue;
    plan.algorithm = algorithm;
    plan.supported = true;
    return;
  }
}

void Matmul::choose_fastest(Plan& plan, const std::vector<MatmulAlgorithm>& all,
                            const MatmulProblem& problem, cudaStream_t stream) const {
  Timer timer;
  float best = std::numeric_limits<float>::infinity();
  for (const MatmulAlgorithm& algorithm : all) {
    if (!runs(plan, algorithm, problem, stream)) continue;
    for (int timing = 0; timing < kTimings; ++timing) {
      timer.start(stream);
      for (int i = 0; i < kRepeats; ++i) HLITE_CUBLASLT(multiply(plan, algorithm, problem, stream));
      const float ms = timer.stop(stream);
      if (ms >= best) continue;
      best = ms;
      plan.algorithm = algorithm;
      plan.supported = true;
    }
  }
}

Matmul::Plan Matmul::make_plan(const MatmulProblem& problem, const Key& key, cudaStream_t stream) {
  const std::string name = text_of(key);
  if (is_captured(stream))
    throw CudaError("matrix product " + name +
                    " is new: each shape must run once before a CUDA graph captures it");
  Plan plan = describe(problem);
  const std::vector<MatmulAlgorithm> all = candidates(plan, key);
  if (all.empty()) return plan;
  if (algorithm_file_.empty()) {
    choose_first(plan, all, problem, stream);
    return plan;
  }

  // What the stream waits for may be another rank, which may wait for the file.
  HLITE_CUDA(cudaStreamSynchronize(stream));
  const LockedAlgorithms::Warn warn = [this](const std::string& text) { warn_once(text); };
  LockedAlgorithms remembered(algorithm_file_, warn);
  if (const MatmulAlgorithm* found = remembered.find(name)) {
    plan.algorithm = *found;
    plan.supported = fits(plan, plan.algorithm) && runs(plan, plan.algorithm, problem, stream);
    if (plan.supported) return plan;
  }
  if (can_remember_ && remembered.writable()) {
    choose_fastest(plan, all, problem, stream);
    if (!plan.supported || remembered.put(name, plan.algorithm)) return plan;
    can_remember_ = false;
  }
  choose_first(plan, all, problem, stream);
  return plan;
}

bool Matmul::run(const MatmulProblem& problem, cudaStream_t stream) {
  const Key key = key_of(problem);
  auto plan = plans_.find(key);
  if (plan == plans_.end()) {
    plan = plans_.emplace(key, make_plan(problem, key, stream)).first;
    if (!plan->second.supported && problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
      warn_once("matrix product " + text_of(key) + ": cuBLASLt has no algorithm with epilogue " +
                std::to_string(problem.epilogue) + ", which takes a pass of its own now");
  }
  if (!plan->second.supported) return false;
  set_pointers(plan->second, problem);
  HLITE_CUBLASLT(multiply(plan->second, plan->second.algorithm, problem, stream));
  return true;
}

}  // namespace hlite::ops::gpu
