// The plug-in's side of hugectr_lite/core/plugin_table.h: exceptions stop here and become words.
#include <cstdio>
#include <cstring>
#include <exception>

#include "embedding/lookup_kernels.cuh"
#include "embedding/sparse_update_kernels.cuh"
#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/fill_kernels.cuh"
#include "hugectr_lite/core/plugin_table.h"
#include "hugectr_lite/cuda/device_report.h"
#include "hugectr_lite/ops/add_kernels.cuh"
#include "hugectr_lite/ops/bce_loss_kernels.cuh"
#include "hugectr_lite/ops/cast_kernels.cuh"
#include "hugectr_lite/ops/concat_kernels.cuh"
#include "hugectr_lite/ops/dropout_kernels.cuh"
#include "hugectr_lite/ops/fully_connected_kernels.cuh"
#include "hugectr_lite/ops/interaction_kernels.cuh"
#include "hugectr_lite/ops/matmul.cuh"
#include "hugectr_lite/ops/regularizer_kernels.cuh"
#include "hugectr_lite/ops/relu_kernels.cuh"
#include "hugectr_lite/ops/scan_kernels.cuh"
#include "hugectr_lite/optimizer/advance_schedules_kernels.cuh"
#include "hugectr_lite/optimizer/dense_update_kernels.cuh"
#include "hugectr_lite/optimizer/loss_scale_kernels.cuh"
#include "hugectr_lite/trainer/evaluation_kernels.cuh"

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

// The entry that calls kLauncher(stream, params...) just so.
template <auto kLauncher>
struct OnStream;
template <typename... Params, void (*kLauncher)(cudaStream_t, Params...)>
struct OnStream<kLauncher> {
  static void run(void* stream, Params... params) { kLauncher(stream_of(stream), params...); }
};
template <auto kLauncher>
constexpr auto kOnStream = Entry<OnStream<kLauncher>::run>::call;

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
void device_synchronize() { HLITE_CUDA(cudaDeviceSynchronize()); }
void stream_synchronize(void* stream) { HLITE_CUDA(cudaStreamSynchronize(stream_of(stream))); }

cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }
void event_create(void** event) {
  cudaEvent_t handle = nullptr;
  HLITE_CUDA(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming));
  *event = handle;
}
void event_destroy(void* event) { HLITE_CUDA(cudaEventDestroy(event_of(event))); }
void event_record(void* event, void* stream) {
  HLITE_CUDA(cudaEventRecord(event_of(event), stream_of(stream)));
}
void event_hold_back(void* event, void* stream) {
  HLITE_CUDA(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}
void event_synchronize(void* event) { HLITE_CUDA(cudaEventSynchronize(event_of(event))); }

// Thread-local: other threads of the program may allocate and wait meanwhile.
void capture_begin(void* stream) {
  HLITE_CUDA(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
}
void capture_end(void* stream, void** graph) {
  *graph = nullptr;
  cudaGraph_t captured = nullptr;
  HLITE_CUDA(cudaStreamEndCapture(stream_of(stream), &captured));
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, captured, 0);
  report_cuda(cudaGraphDestroy(captured), "cudaGraphDestroy");
  HLITE_CUDA(error);
  *graph = exec;
}
void graph_launch(void* graph, void* stream) {
  HLITE_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)));
}
void graph_destroy(void* graph) {
  HLITE_CUDA(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

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
void pin(void* data, size_t bytes) {
  HLITE_CUDA(cudaHostRegister(data, bytes, cudaHostRegisterDefault));
}
void unpin(void* data) { HLITE_CUDA(cudaHostUnregister(data)); }
void memory_info(int64_t* free, int64_t* total) {
  size_t free_bytes = 0, total_bytes = 0;
  HLITE_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  *free = static_cast<int64_t>(free_bytes);
  *total = static_cast<int64_t>(total_bytes);
}
void copy(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes > 0) HLITE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)));
}
void zero(void* data, size_t bytes, void* stream) {
  if (bytes > 0) HLITE_CUDA(cudaMemsetAsync(data, 0, bytes, stream_of(stream)));
}

ops::gpu::Matmul& matmul_of(void* matmul) { return *static_cast<ops::gpu::Matmul*>(matmul); }
void matmul_create(void** matmul, MatmulOptions options) {
  *matmul = new ops::gpu::Matmul(options);
}
void matmul_destroy(void* matmul) { delete &matmul_of(matmul); }

template <typename T, typename Y>
void fully_connected_forward(void* matmul, void* stream, Matrix<const T> x, Matrix<const T> w,
                             Vector<const Y> bias, bool relu, Matrix<Y> y, Matrix<uint8_t> mask) {
  ops::gpu::fully_connected_forward<T, Y>(matmul_of(matmul), stream_of(stream), x, w, bias, relu, y,
                                          mask);
}
template <typename T>
void fully_connected_backward_data(void* matmul, void* stream, Matrix<const T> dz,
                                   Matrix<const T> w, Matrix<T> dx, Matrix<const T> y_below,
                                   Matrix<const uint8_t> mask_below, Vector<float> dbias_below) {
  ops::gpu::fully_connected_backward_data<T>(matmul_of(matmul), stream_of(stream), dz, w, dx,
                                             y_below, mask_below, dbias_below);
}
template <typename T>
void fully_connected_backward_weights(void* matmul, void* stream, Matrix<const T> x,
                                      Matrix<const T> dz, Matrix<float> dw) {
  ops::gpu::fully_connected_backward_weights<T>(matmul_of(matmul), stream_of(stream), x, dz, dw);
}
template <typename T>
void bias_relu_backward(void* matmul, void* stream, Matrix<const T> y, Matrix<T> dy,
                        Vector<float> dbias, Matrix<const uint8_t> mask) {
  ops::gpu::bias_relu_backward<T>(matmul_of(matmul), stream_of(stream), y, dy, dbias, mask);
}

template <typename T>
void interaction_forward(void* stream, Matrix<const T> bottom, View<const T, 3> slots,
                         Matrix<T> out) {
  ops::gpu::interaction_forward<T>(stream_of(stream), bottom, slots, out);
}
template <typename T>
void interaction_forward_gather(void* stream, Matrix<const T> bottom, Matrix<const float> table,
                                Vector<const int64_t> offset, Matrix<const uint32_t> keys,
                                Matrix<T> out, View<T, 3> slots) {
  ops::gpu::interaction_forward_gather<T>(stream_of(stream), bottom, {table, offset, keys}, out,
                                          slots);
}
template <typename T>
void interaction_backward(void* stream, Matrix<const T> bottom, View<const T, 3> slots,
                          Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots,
                          int32_t* overflow) {
  ops::gpu::interaction_backward<T>(stream_of(stream), bottom, slots, dout, dbottom, dslots,
                                    overflow);
}

template <typename T>
void lookup_forward(void* stream, const embedding::SlotsRef& slots, Matrix<const float> table,
                    Matrix<const uint32_t> keys, View<T, 3> out, const embedding::KeyCheck& check) {
  embedding::gpu::lookup_forward<T>(stream_of(stream), slots, table, keys, out, check);
}
template <typename T>
void sparse_update(void* stream, const embedding::SparseUpdateArgs<T>& args) {
  embedding::gpu::sparse_update<T>(stream_of(stream), args);
}
void sparse_sort(void* stream, const embedding::SparseSortArgs& args, int* buffer) {
  *buffer = embedding::gpu::sparse_sort(stream_of(stream), args);
}
void sparse_update_workspace(const embedding::SparseUpdateShape& shape, int64_t* bytes) {
  *bytes = static_cast<int64_t>(embedding::gpu::sparse_update_workspace(shape));
}

void fill(void* stream, float* out, int64_t n, float value) {
  gpu::fill(stream_of(stream), out, n, value);
}
void fill_uniform(void* stream, float* out, int64_t n, uint64_t seed, uint64_t random_stream,
                  uint64_t first, float low, float high) {
  gpu::fill_uniform(stream_of(stream), out, n, seed, random_stream, first, low, high);
}

void evaluation_workspace(int64_t max_samples, int64_t* bytes) {
  *bytes = static_cast<int64_t>(trainer::gpu::evaluation_workspace(max_samples));
}
void evaluate(void* stream, Vector<const float> logits, Vector<const float> labels, void* workspace,
              size_t bytes, trainer::EvaluationSums* sums) {
  trainer::gpu::evaluate(stream_of(stream), logits, labels, static_cast<std::byte*>(workspace),
                         bytes, sums);
}

template <typename T>
void first_non_finite(void* stream, Vector<const T> x, int64_t* index) {
  *index = ops::gpu::first_non_finite(stream_of(stream), x);
}

template <typename T>
constexpr TypedOps<T> kTypedOps = {
    .fully_connected_forward = {Entry<fully_connected_forward<T, T>>::call},
    .fully_connected_forward_to_float = {Entry<fully_connected_forward<T, float>>::call},
    .fully_connected_backward_data = {Entry<fully_connected_backward_data<T>>::call},
    .fully_connected_backward_weights = {Entry<fully_connected_backward_weights<T>>::call},
    .bias_relu_backward = {Entry<bias_relu_backward<T>>::call},
    .interaction_forward = {Entry<interaction_forward<T>>::call},
    .interaction_forward_gather = {Entry<interaction_forward_gather<T>>::call},
    .interaction_backward = {Entry<interaction_backward<T>>::call},
    .lookup_forward = {Entry<lookup_forward<T>>::call},
    .sparse_update = {Entry<sparse_update<T>>::call},
    .relu_forward = {kOnStream<ops::gpu::relu_forward<T>>},
    .relu_backward = {kOnStream<ops::gpu::relu_backward<T>>},
    .add_forward = {kOnStream<ops::gpu::add_forward<T>>},
    .concat_columns = {kOnStream<ops::gpu::concat_columns<T>>},
    .dropout = {kOnStream<ops::gpu::dropout<T>>},
    .cast_from_float = {kOnStream<ops::gpu::cast_from_float<T>>},
    .cast_to_float = {kOnStream<ops::gpu::cast_to_float<T>>},
    .cast_padded = {kOnStream<ops::gpu::cast_padded<T>>},
    .bce_loss = {kOnStream<ops::gpu::bce_loss<T>>},
    .first_non_finite = {Entry<first_non_finite<T>>::call},
    .flag_non_finite = {kOnStream<ops::gpu::flag_non_finite<T>>},
    .dense_update = {kOnStream<optimizer::gpu::dense_update<T>>},
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
    .device_synchronize = {Entry<device_synchronize>::call},
    .event_create = {Entry<event_create>::call},
    .event_destroy = {Entry<event_destroy>::call},
    .event_record = {Entry<event_record>::call},
    .event_hold_back = {Entry<event_hold_back>::call},
    .event_synchronize = {Entry<event_synchronize>::call},
    .capture_begin = {Entry<capture_begin>::call},
    .capture_end = {Entry<capture_end>::call},
    .graph_launch = {Entry<graph_launch>::call},
    .graph_destroy = {Entry<graph_destroy>::call},
    .allocate = {Entry<allocate>::call},
    .free = {Entry<free_device>::call},
    .allocate_pinned = {Entry<allocate_pinned>::call},
    .free_pinned = {Entry<free_pinned>::call},
    .pin = {Entry<pin>::call},
    .unpin = {Entry<unpin>::call},
    .memory_info = {Entry<memory_info>::call},
    .copy = {Entry<copy>::call},
    .zero = {Entry<zero>::call},
    .fill = {Entry<fill>::call},
    .fill_uniform = {Entry<fill_uniform>::call},
    .sparse_update_workspace = {Entry<sparse_update_workspace>::call},
    .sparse_sort = {Entry<sparse_sort>::call},
    .evaluation_workspace = {Entry<evaluation_workspace>::call},
    .evaluate = {Entry<evaluate>::call},
    .matmul_create = {Entry<matmul_create>::call},
    .matmul_destroy = {Entry<matmul_destroy>::call},
    .add_penalty = {kOnStream<ops::gpu::add_penalty>},
    .advance_schedules = {kOnStream<optimizer::gpu::advance_schedules>},
    .update_loss_scale = {kOnStream<optimizer::gpu::update_loss_scale>},
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
