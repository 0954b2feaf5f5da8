// The choice of a new shape's algorithm: see matmul.cuh.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>

#include "hugectr_lite/ops/matmul.cuh"
#include "hugectr_lite/ops/matmul_judge.cuh"

namespace hlite::ops::gpu {
namespace {

// cuBLASLt's order of candidates does not count what an epilogue stores. The mask of a ReLU makes a
// product up to half as long again with some algorithms (DLRM's first large layer on an H200: 148
// instead of 104 us), so more of them are tried for it.
constexpr int kCandidates = 16, kMaskCandidates = 64;
// A time is the best of kTimings, each of kRepeats products: some 30 ms for 16 candidates of the
// largest shapes of DLRM at batch 65,536, once a machine.
constexpr int kTimings = 3;
constexpr int kRepeats = 3;

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  HLITE_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

bool adds_to_16_bits(const MatmulProblem& p) { return p.accumulate && p.result != CUDA_R_32F; }

std::string epilogue_text(cublasLtEpilogue_t epilogue) {
  return "cuBLASLt's epilogue " + std::to_string(epilogue);
}

std::string hexadecimal(const MatmulAlgorithm& algorithm) {
  std::string text;
  char number[17];
  for (const uint64_t word : algorithm) {
    std::snprintf(number, sizeof(number), "%016llx", static_cast<unsigned long long>(word));
    if (!text.empty()) text += ',';
    text += number;
  }
  return text;
}

}  // namespace

// Measures the device's time between two points of a stream.
class Matmul::Timer {
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

  void start(cudaStream_t stream) const { HLITE_CUDA(cudaEventRecord(events_[0], stream)); }
  // Milliseconds since start(), after waiting for the stream.
  [[nodiscard]] float stop(cudaStream_t stream) const {
    float ms = 0;
    HLITE_CUDA(cudaEventRecord(events_[1], stream));
    HLITE_CUDA(cudaEventSynchronize(events_[1]));
    HLITE_CUDA(cudaEventElapsedTime(&ms, events_[0], events_[1]));
    return ms;
  }
  // The least time of one call of work(), which puts it on the stream.
  template <typename Work>
  [[nodiscard]] float best(cudaStream_t stream, const Work& work) const {
    float least = std::numeric_limits<float>::infinity();
    for (int timing = 0; timing < kTimings; ++timing) {
      start(stream);
      for (int i = 0; i < kRepeats; ++i) work();
      least = std::min(least, stop(stream));
    }
    return least / kRepeats;
  }

 private:
  cudaEvent_t events_[2] = {};
};

std::vector<MatmulAlgorithm> Matmul::candidates(const ProductPlan& plan,
                                                const MatmulProblem& problem) const {
  const Key key = key_of(problem);
  const CublasLt& lt = cublaslt();
  cublasLtMatmulPreference_t preference = nullptr;
  HLITE_CUBLASLT(lt.preference_create(&preference));
  const Preference owner(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    HLITE_CUBLASLT(lt.preference_set(preference, attribute, &value, sizeof(value)));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      // A sum of parts is rounded to d's type before what d holds is added.
      adds_to_16_bits(problem) ? 0u : uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key[0]));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(key[1]));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(key[2]));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(key[2]));

  const bool writes_mask = (problem.epilogue & CUBLASLT_EPILOGUE_RELU) != 0 && problem.mask;
  cublasLtMatmulHeuristicResult_t results[kMaskCandidates] = {};
  int count = 0;
  const cublasStatus_t status = lt.heuristic(
      handle_.get(), plan.desc.get(), plan.a.get(), plan.b.get(), plan.d.get(), plan.d.get(),
      preference, writes_mask ? kMaskCandidates : kCandidates, results, &count);
  std::vector<MatmulAlgorithm> all;
  // It is not strict about which of the two it says of a combination that it does not know.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return all;
  check_cublaslt(status, "cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
  for (int i = 0; i < count; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS)
      all.push_back(std::bit_cast<MatmulAlgorithm>(results[i].algo));
  return all;
}

// Returns true if a remembered algorithm can run here.
bool Matmul::fits(const ProductPlan& plan, const MatmulAlgorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  return cublaslt().check(handle_.get(), plan.desc.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                          plan.d.get(), &algo, &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= size_t{kWorkspaceBytes};
}

// Heuristics promise much, but whether an algorithm runs shows when it does.
bool Matmul::runs(const ProductPlan& plan, const MatmulAlgorithm& algorithm,
                  const MatmulProblem& problem, cudaStream_t stream) const {
  if (multiply(plan, algorithm, problem, stream) == CUBLAS_STATUS_SUCCESS) return true;
  (void)cudaGetLastError();  // not to be found by the next check
  return false;
}

bool Matmul::multiply_once(const MatmulProblem& problem, cudaStream_t stream) const {
  const ProductPlan plan = describe(problem);
  for (const MatmulAlgorithm& algorithm : candidates(plan, problem))
    if (runs(plan, algorithm, problem, stream)) return true;
  return false;
}

Matmul::Chosen Matmul::choose(const ProductPlan& plan, const std::vector<MatmulAlgorithm>& all,
                              const Search& search, bool timed) {
  struct Candidate {
    MatmulAlgorithm algorithm;
    float ms;
  };
  const auto run = [&](const MatmulAlgorithm& algorithm) {
    multiply_fused(plan, algorithm, search.problem, search.stream);
  };
  Timer timer;
  std::vector<Candidate> candidates;
  for (const MatmulAlgorithm& algorithm : all)
    if (!timed)
      candidates.push_back({algorithm, 0});
    else if (runs(plan, algorithm, search.problem, search.stream))
      candidates.push_back({algorithm, timer.best(search.stream, [&] { run(algorithm); })});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.ms < b.ms; });

  std::unique_ptr<Judge> judge;
  float max_ms = std::numeric_limits<float>::infinity();
  Chosen chosen;
  std::string complaint;
  for (const Candidate& candidate : candidates) {
    if (!timed && !runs(plan, candidate.algorithm, search.problem, search.stream)) continue;
    if (!search.plain) return {{candidate.algorithm}, true, true};
    if (!judge) {
      if (timed)
        max_ms = timer.best(search.stream, [&] {
          multiply_plainly(*search.plain, search.problem, *search.kernels, search.stream);
        });
      judge = std::make_unique<Judge>(*this, search);
    }
    if (candidate.ms > max_ms) {
      if (!chosen.any) chosen = {{candidate.algorithm, MatmulVerdict::kSlower}, true, true};
      break;
    }
    if (!judge->is_conclusive()) {
      warn_once("matrix product " + search.name +
                ": its numbers are all 0 or not finite, so that " +
                epilogue_text(search.problem.epilogue) +
                " cannot be checked; a kernel does its work in this run");
      return {{candidate.algorithm, MatmulVerdict::kDiffers}, true, false};
    }
    const Judge::Opinion opinion = judge->of(plan, candidate.algorithm);
    if (opinion.verdict == MatmulVerdict::kTake) return {{candidate.algorithm}, true, true};
    if (!chosen.any) {
      chosen = {{candidate.algorithm, opinion.verdict}, true, true};
      complaint = "algorithm " + hexadecimal(candidate.algorithm) + ": " + opinion.why;
    }
  }
  if (!complaint.empty())
    warn_once("matrix product " + search.name + " with " + epilogue_text(search.problem.epilogue) +
              ": " + complaint + "; a kernel is used");
  return chosen;
}

bool Matmul::follow_remembered(const LockedAlgorithms& remembered, const Search& search,
                               ProductPlan& plan) {
  const MatmulChoice* const found = remembered.find(search.name);
  if (!found) return false;
  const MatmulVerdict verdict = found->verdict;
  const bool take = verdict == MatmulVerdict::kTake;
  if (take && !(fits(plan, found->algorithm) &&
                runs(plan, found->algorithm, search.problem, search.stream)))
    return false;
  if (verdict == MatmulVerdict::kDiffers || verdict == MatmulVerdict::kVaries)
    warn_once("matrix product " + search.name + ": " + epilogue_text(search.problem.epilogue) +
              (verdict == MatmulVerdict::kVaries ? " gave other bits when it was repeated"
                                                 : " was not that of a kernel") +
              " when it was tried first; it is not used");
  plan.algorithm = found->algorithm;
  plan.supported = take;
  return true;
}

const Matmul::ProductPlan* Matmul::plan_of_largest_batch(const Key& key) const {
  constexpr size_t kBatch = 13;  // n, in the key
  const ProductPlan* largest = nullptr;
  int64_t most = 0;
  for (const auto& [other, plan] : plans_) {
    Key same = other;
    same[kBatch] = key[kBatch];
    if (same != key || other[kBatch] <= most) continue;
    most = other[kBatch];
    largest = &plan;
  }
  return largest;
}

Matmul::ProductPlan Matmul::make_plan(MatmulProblem problem, const Key& key,
                                      const EpilogueKernels* kernels, cudaStream_t stream) {
  const bool fused = problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  Search search = {problem, kernels, nullptr, text_of(key), stream};
  const LockedAlgorithms::Warn warn = [this](const std::string& text) { warn_once(text); };
  if (is_captured(stream))
    throw CudaError("matrix product " + search.name +
                    " is new: each shape must run once before a CUDA graph captures it");
  if (!can_fuse(problem)) {
    warn_once("matrix product " + search.name + ": not aligned for " +
              epilogue_text(problem.epilogue) + ", which takes a pass of its own now");
    return {};
  }
  DeviceBuffer<char> trial;  // for the search to add to as often as it likes
  if (problem.accumulate) {
    const int64_t bytes = problem.m * problem.n * (problem.result == CUDA_R_32F ? 4 : 2);
    trial = DeviceBuffer<char>(static_cast<size_t>(bytes), stream);
    problem.d = trial.data();
  }
  ProductPlan plan = describe(problem);
  if (const ProductPlan* const of = one_for_all_batches_ ? plan_of_largest_batch(key) : nullptr;
      of && (!of->supported || fits(plan, of->algorithm))) {
    plan.algorithm = of->algorithm;
    plan.supported = of->supported;
    return plan;
  }
  const std::vector<MatmulAlgorithm> all = candidates(plan, problem);
  const auto without_algorithm = [&] {
    if (fused)
      warn_once("matrix product " + search.name + ": cuBLASLt has no algorithm with epilogue " +
                std::to_string(problem.epilogue) + ", which takes a pass of its own now");
  };
  if (all.empty()) {
    without_algorithm();
    return plan;
  }
  // Other lanes would disturb what is measured; and what the stream waits for may be another rank,
  // which may wait for the file.
  HLITE_CUDA(cudaDeviceSynchronize());
  if (!algorithm_file_.empty() &&
      follow_remembered(LockedAlgorithms(algorithm_file_, warn), search, plan))
    return plan;
  if (fused) {  // before the file is locked: this may lock it
    const ProductPlan& plain = plan_of(without_epilogue(problem), nullptr, stream);
    if (!plain.supported) return plan;
    search.plain = &plain;
  }
  Chosen chosen;
  if (algorithm_file_.empty()) {
    chosen = choose(plan, all, search, false);
  } else {
    LockedAlgorithms remembered(algorithm_file_, warn);
    if (follow_remembered(remembered, search, plan)) return plan;  // found by another rank
    const bool timed = can_remember_ && remembered.writable();
    chosen = choose(plan, all, search, timed);
    if (timed && chosen.any && chosen.sure && !remembered.put(search.name, chosen.choice)) {
      can_remember_ = false;
      chosen = choose(plan, all, search, false);
    }
  }
  if (!chosen.any) without_algorithm();
  plan.algorithm = chosen.choice.algorithm;
  plan.supported = chosen.any && chosen.choice.verdict == MatmulVerdict::kTake;
  return plan;
}

}  // namespace hlite::ops::gpu
