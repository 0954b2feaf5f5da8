// The plug-in's side of hugectr_lite/core/plugin_table.h: exceptions stop here and become words.
#include <cstdio>
#include <cstring>
#include <exception>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/plugin_table.h"
#include "hugectr_lite/cuda/device_report.h"
#include "hugectr_lite/ops/interaction_kernels.cuh"

namespace hlite::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

void copy_text(const std::string& from, char* text, size_t size) {
  std::snprintf(text, size, "%s", from.c_str());
}

// Turns body(args...), which throws, into an entry of the table, which does not.
template <auto kBody>
struct Entry;
template <typename... Params, void (*kBody)(Params...)>
struct Entry<kBody> {
  static bool call(Failure* failure, Params... args) noexcept {
    try {
      kBody(args...);
      return true;
    } catch (const std::exception& error) {
      copy_text(error.what(), failure->text, sizeof(failure->text));
    } catch (...) {
      copy_text("an unknown exception in the CUDA plug-in", failure->text, sizeof(failure->text));
    }
    return false;
  }
};

int driver_version() noexcept {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int runtime_version() noexcept {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

int device_count(char* why, size_t size) noexcept {
  DeviceQuery query;
  query.driver_version = driver_version();
  query.runtime_version = runtime_version();
  const cudaError_t error = cudaGetDeviceCount(&query.devices);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    query.failed = true;
    query.error = cudaGetErrorString(error);
    query.devices = 0;
  }
  copy_text(why_no_device(query), why, size);
  return query.devices;
}

void device_description(int device, char* text, size_t size) {
  cudaDeviceProp properties{};
  HLITE_CUDA(cudaGetDeviceProperties(&properties, device));
  std::snprintf(text, size, "%s, compute capability %d.%d, %.1f GiB, %d multiprocessors",
                properties.name, properties.major, properties.minor,
                static_cast<double>(properties.totalGlobalMem) / (1u << 30),
                properties.multiProcessorCount);
}

void use_device(int device) { HLITE_CUDA(cudaSetDevice(device)); }

void stream_create(void** stream) { *stream = Stream().release(); }
void stream_destroy(void* stream) { HLITE_CUDA(cudaStreamDestroy(stream_of(stream))); }
void stream_synchronize(void* stream) { HLITE_CUDA(cudaStreamSynchronize(stream_of(stream))); }

void allocate(void** data, size_t bytes) {
  *data = nullptr;
  if (bytes > 0) HLITE_CUDA(cudaMalloc(data, bytes));
}
void free_device(void* data) {
  if (data) HLITE_CUDA(cudaFree(data));
}
void allocate_pinned(void** data, size_t bytes) {
  *data = nullptr;
  if (bytes > 0) HLITE_CUDA(cudaMallocHost(data, bytes));
}
void free_pinned(void* data) {
  if (data) HLITE_CUDA(cudaFreeHost(data));
}
void copy(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes > 0) HLITE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)));
}
void zero(void* data, size_t bytes, void* stream) {
  if (bytes > 0) HLITE_CUDA(cudaMemsetAsync(data, 0, bytes, stream_of(stream)));
}

template <typename T>
void interaction_forward(void* stream, Matrix<const T> bottom, View<const T, 3> slots,
                         Matrix<T> out) {
  ops::gpu::interaction_forward<T>(stream_of(stream), bottom, slots, out);
}
template <typename T>
void interaction_backward(void* stream, Matrix<const T> bottom, View<const T, 3> slots,
                          Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots) {
  ops::gpu::interaction_backward<T>(stream_of(stream), bottom, slots, dout, dbottom, dslots);
}

template <typename T>
constexpr TypedOps<T> kTypedOps = {
    .interaction_forward = {Entry<interaction_forward<T>>::call},
    .interaction_backward = {Entry<interaction_backward<T>>::call},
};

constexpr OpTable kTable = {
    .abi_version = kAbiVersion,
    .bytes = int{sizeof(OpTable)},
    .device_count = device_count,
    .driver_version = driver_version,
    .runtime_version = runtime_version,
    .device_description = {Entry<device_description>::call},
    .use_device = {Entry<use_device>::call},
    .stream_create = {Entry<stream_create>::call},
    .stream_destroy = {Entry<stream_destroy>::call},
    .stream_synchronize = {Entry<stream_synchronize>::call},
    .allocate = {Entry<allocate>::call},
    .free = {Entry<free_device>::call},
    .allocate_pinned = {Entry<allocate_pinned>::call},
    .free_pinned = {Entry<free_pinned>::call},
    .copy = {Entry<copy>::call},
    .zero = {Entry<zero>::call},
    .f32 = kTypedOps<float>,
    .b16 = kTypedOps<bf16>,
    .f16 = kTypedOps<fp16>,
};

}  // namespace
}  // namespace hlite::cuda

// Hidden symbols are the rule in this library; this is the one that shows.
extern "C" __attribute__((visibility("default"))) const hlite::cuda::OpTable* hlite_cuda_op_table(
    int abi_version) {
  return abi_version == hlite::cuda::kAbiVersion ? &hlite::cuda::kTable : nullptr;
}
