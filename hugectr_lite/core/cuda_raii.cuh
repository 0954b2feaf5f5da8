// Owners of CUDA resources, and the check of every CUDA runtime call.
//
// CudaError never leaves the plug-in: core/kernel_list.cuh turns it into words at the border. It
// stands apart from core/error.h because nvcc cannot parse that header's fmt in C++20.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace hlite {

class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Also takes the error out of the runtime's memory, or the next check would report it again.
inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  throw CudaError(std::string(file) + ":" + std::to_string(line) + ": " + call + ": " +
                  cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}
#define HLITE_CUDA(call) ::hlite::check_cuda((call), #call, __FILE__, __LINE__)

// Used by destructors, where a throw would hide the error that unwinds the stack. The runtime may
// have shut down before an owner with static lifetime; that is no error.
inline void report_cuda(cudaError_t error, const char* call) noexcept {
  if (error == cudaSuccess || error == cudaErrorCudartUnloading) return;
  (void)cudaGetLastError();
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
}

// Does not wait for work on the legacy default stream, nor that for it.
class Stream {
 public:
  Stream() { HLITE_CUDA(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking)); }
  ~Stream() {
    if (handle_) report_cuda(cudaStreamDestroy(handle_), "cudaStreamDestroy");
  }
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  [[nodiscard]] cudaStream_t get() const { return handle_; }
  [[nodiscard]] cudaStream_t release() { return std::exchange(handle_, nullptr); }
  void synchronize() const { HLITE_CUDA(cudaStreamSynchronize(handle_)); }

 private:
  cudaStream_t handle_ = nullptr;
};

// Orders streams; carries no time, which makes it cheap.
class Event {
 public:
  Event() { HLITE_CUDA(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming)); }
  ~Event() {
    if (handle_) report_cuda(cudaEventDestroy(handle_), "cudaEventDestroy");
  }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  [[nodiscard]] cudaEvent_t get() const { return handle_; }
  void record(cudaStream_t stream) { HLITE_CUDA(cudaEventRecord(handle_, stream)); }
  // Work put on `stream` from now on starts after what was recorded.
  void hold_back(cudaStream_t stream) const { HLITE_CUDA(cudaStreamWaitEvent(stream, handle_, 0)); }

 private:
  cudaEvent_t handle_ = nullptr;
};

// n uninitialised T, taken and given back in the order of `stream`, which must outlive the buffer.
// Work on another stream has to be ordered against this one by an Event.
template <typename T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceBuffer() = default;
  DeviceBuffer(size_t n, cudaStream_t stream) : size_(n), stream_(stream) {
    if (n > 0) HLITE_CUDA(cudaMallocAsync(reinterpret_cast<void**>(&data_), n * sizeof(T), stream));
  }
  ~DeviceBuffer() {
    if (data_) report_cuda(cudaFreeAsync(data_, stream_), "cudaFreeAsync");
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        stream_(other.stream_) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(stream_, other.stream_);
    return *this;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace hlite
