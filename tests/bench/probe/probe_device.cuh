// What the probes that nvcc compiles share: timed events, streams with a priority, graphs, and
// products by cuBLASLt with every choice open.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/cublaslt.cuh"
#include "tests/bench/probe/probe.h"

namespace hlite::probe {

// Keeps a stream busy for so long, so that what the host puts there next is all there when it
// starts.
void delay(double us, cudaStream_t stream);

// Between two points of a stream, or of two.
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

  void start(cudaStream_t stream) const { HLITE_CUDA(cudaEventRecord(events_[0], stream)); }
  // Microseconds since start(), after waiting for the stream.
  [[nodiscard]] double stop(cudaStream_t stream) const {
    float ms = 0;
    HLITE_CUDA(cudaEventRecord(events_[1], stream));
    HLITE_CUDA(cudaEventSynchronize(events_[1]));
    HLITE_CUDA(cudaEventElapsedTime(&ms, events_[0], events_[1]));
    return 1e3 * static_cast<double>(ms);
  }
  // `stream` waits for start().
  void hold_back(cudaStream_t stream) const {
    HLITE_CUDA(cudaStreamWaitEvent(stream, events_[0], 0));
  }
  // The least time of one of `times` calls in a row, after a delay of so many microseconds.
  template <typename Work>
  [[nodiscard]] double best(cudaStream_t stream, int timings, int times, const Work& work,
                            double delayed_us = 0) const {
    double least = std::numeric_limits<double>::infinity();
    for (int timing = 0; timing < timings; ++timing) {
      if (delayed_us > 0) delay(delayed_us, stream);
      start(stream);
      for (int i = 0; i < times; ++i) work();
      least = std::min(least, stop(stream) / times);
    }
    return least;
  }

 private:
  cudaEvent_t events_[2] = {};
};

class ProbeStream {
 public:
  explicit ProbeStream(bool urgent = false) {
#if defined(__CUDACC__)
    int low = 0, high = 0;
    HLITE_CUDA(cudaDeviceGetStreamPriorityRange(&low, &high));
    HLITE_CUDA(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, urgent ? high : low));
#else
    (void)urgent;  // the emulator has none
    HLITE_CUDA(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
#endif
  }
  ~ProbeStream() {
    if (handle_) report_cuda(cudaStreamDestroy(handle_), "cudaStreamDestroy");
  }
  ProbeStream(const ProbeStream&) = delete;
  ProbeStream& operator=(const ProbeStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return handle_; }
  [[nodiscard]] cudaStream_t release() { return std::exchange(handle_, nullptr); }
  void synchronize() const { HLITE_CUDA(cudaStreamSynchronize(handle_)); }

 private:
  cudaStream_t handle_ = nullptr;
};

// What body() puts on the stream, as a graph.
class Graph {
 public:
  template <typename Body>
  Graph(cudaStream_t stream, const Body& body) {
    HLITE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    body();
    HLITE_CUDA(cudaStreamEndCapture(stream, &graph_));
    HLITE_CUDA(cudaGraphInstantiate(&exec_, graph_, 0));
    HLITE_CUDA(cudaGraphUpload(exec_, stream));
  }
  ~Graph() {
    report_cuda(cudaGraphExecDestroy(exec_), "cudaGraphExecDestroy");
    report_cuda(cudaGraphDestroy(graph_), "cudaGraphDestroy");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { HLITE_CUDA(cudaGraphLaunch(exec_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

// Device memory of its own, not from a pool.
template <typename T>
class Array {
 public:
  explicit Array(int64_t n) : size_(n) {
    HLITE_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), static_cast<size_t>(n) * sizeof(T)));
  }
  ~Array() { report_cuda(cudaFree(data_), "cudaFree"); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] int64_t size() const { return size_; }
  [[nodiscard]] size_t bytes() const { return static_cast<size_t>(size_) * sizeof(T); }
  void zero(cudaStream_t stream) const { HLITE_CUDA(cudaMemsetAsync(data_, 0, bytes(), stream)); }
  // After waiting for the stream.
  [[nodiscard]] std::vector<T> to_host(cudaStream_t stream) const {
    std::vector<T> values(static_cast<size_t>(size_));
    HLITE_CUDA(cudaMemcpyAsync(values.data(), data_, bytes(), cudaMemcpyDefault, stream));
    HLITE_CUDA(cudaStreamSynchronize(stream));
    return values;
  }

 private:
  T* data_ = nullptr;
  int64_t size_;
};

// ---- Products (probe_products.cu) ----

struct Operands {
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  void *bias = nullptr, *sums = nullptr, *mask = nullptr;  // that the epilogue asks for
};

// A product that cuBLASLt has been asked about.
class PreparedProduct {
 public:
  PreparedProduct(cublasLtHandle_t handle, const Product& product, const Epilogue& epilogue,
                  bool float_result, const Operands& operands, int sms, int asked);
  ~PreparedProduct();
  PreparedProduct(const PreparedProduct&) = delete;
  PreparedProduct& operator=(const PreparedProduct&) = delete;

  [[nodiscard]] size_t candidates() const { return algorithms_.size(); }
  // Returns false where the candidate cannot run after all.
  [[nodiscard]] bool run(size_t candidate, cudaStream_t stream, void* workspace) const;
  [[nodiscard]] std::string algorithm(size_t candidate) const;

  static constexpr int kMostAsked = 64;
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

 private:
  cublasLtHandle_t handle_;
  Operands operands_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  // Not cublasLtMatmulAlgo_t: nvcc 13.0 cannot destroy a vector of a type without a name.
  using Algorithm = std::array<uint64_t, 8>;
  std::vector<Algorithm> algorithms_;
};

class ProductLibrary {
 public:
  ProductLibrary() { HLITE_CUBLASLT(ops::gpu::cublaslt().create(&handle_)); }
  ~ProductLibrary() { (void)ops::gpu::cublaslt().destroy(handle_); }
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;

  [[nodiscard]] std::unique_ptr<PreparedProduct> prepare(const Product& product,
                                                         const Epilogue& epilogue,
                                                         bool float_result,
                                                         const Operands& operands, int sms,
                                                         int asked) const {
    return std::make_unique<PreparedProduct>(handle_, product, epilogue, float_result, operands,
                                             sms, asked);
  }

  struct Best {
    int candidate = -1;  // -1: none runs
    double us = 0, us_first = 0;
    int ran = 0;
  };
  // Ends early where `left` is over.
  [[nodiscard]] static Best fastest(const PreparedProduct& prepared, cudaStream_t stream,
                                    void* workspace, const std::function<bool()>& left);

 private:
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace hlite::probe
