// OpTable: the functions of the CUDA plug-in, by value types only.
//
// The library exports one C function, hlite_cuda_op_table(abi_version), which returns its table or,
// for another version than its own, null. Any change to OpTable or to a type in it bumps
// kAbiVersion. Pointers named `stream` are cudaStream_t; views point to device memory and keep the
// contracts of hugectr_lite/ops and hugectr_lite/optimizer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/view.h"

// Types of ops that lie above core; both sides include their headers.
namespace hlite::embedding {
struct SlotsRef;           // embedding/slots_ref.h
struct KeyCheck;           // embedding/slots_ref.h
struct SparseUpdateShape;  // embedding/sparse_update_args.h
struct SparseSortArgs;     // embedding/sparse_update_args.h
template <typename T>
struct SparseUpdateArgs;  // embedding/sparse_update_args.h
}  // namespace hlite::embedding
namespace hlite::trainer {
struct EvaluationSums;  // hugectr_lite/trainer/evaluation_sums.h
}
namespace hlite::ops {
template <typename T>
struct ColumnBlock;
struct BceOptions;
struct DropoutMask;
struct RegularizerOptions;
}  // namespace hlite::ops

namespace hlite::optimizer {
struct GradientScale;
struct LossScale;
struct LrSchedule;
struct UpdateRule;
}  // namespace hlite::optimizer

namespace hlite::cuda {

inline constexpr int kAbiVersion = 7;
inline constexpr const char* kLibraryName = "libhlite_cuda.so";
inline constexpr const char* kEntryName = "hlite_cuda_op_table";

struct Failure {
  char text[1024] = {};
};

// Throws DeviceError with the words of `failure`. Defined on the program's side only.
[[noreturn]] void throw_failure(const Failure& failure);

// One function of the table; calling it throws DeviceError when the plug-in reports a failure.
template <typename... Params>
struct Function {
  bool (*entry)(Failure*, Params...) noexcept;

  void operator()(Params... args) const {
    Failure failure;
    if (!entry(&failure, args...)) throw_failure(failure);
  }
};

// How a context for matrix products works; strings are copied.
struct MatmulOptions {
  // Factors of float tensors are rounded to TF32 (10 bits of fraction), which tensor cores
  // multiply.
  bool tf32 = false;
  // Where the fastest algorithm for each shape is remembered; null or empty: nowhere, and
  // cuBLASLt's first choice is taken instead of the fastest.
  const char* algorithm_file = nullptr;
  // Hears of what went wrong without stopping anything, on the thread that multiplies. Null:
  // stderr.
  void (*warn)(const char* text) = nullptr;
};

// The ops on tensors of T: float, bf16 or fp16.
template <typename T>
struct TypedOps {
  // hugectr_lite/ops/fully_connected.h; `matmul` is a context of matmul_create. Result in T or, for
  // logits, in float.
  Function<void* /*matmul*/, void* /*stream*/, Matrix<const T> /*x*/, Matrix<const T> /*w*/,
           Vector<const T> /*bias*/, bool /*relu*/, Matrix<T> /*y*/, Matrix<uint8_t> /*mask*/>
      fully_connected_forward;
  Function<void* /*matmul*/, void* /*stream*/, Matrix<const T> /*x*/, Matrix<const T> /*w*/,
           Vector<const float> /*bias*/, bool /*relu*/, Matrix<float> /*y*/,
           Matrix<uint8_t> /*mask*/>
      fully_connected_forward_to_float;
  Function<void* /*matmul*/, void* /*stream*/, Matrix<const T> /*dz*/, Matrix<const T> /*w*/,
           Matrix<T> /*dx*/, Matrix<const T> /*y_below*/, Matrix<const uint8_t> /*mask_below*/,
           Vector<float> /*dbias_below*/>
      fully_connected_backward_data;
  Function<void* /*matmul*/, void* /*stream*/, Matrix<const T> /*x*/, Matrix<const T> /*dz*/,
           Matrix<float> /*dw*/>
      fully_connected_backward_weights;
  Function<void* /*matmul*/, void* /*stream*/, Matrix<const T> /*y*/, Matrix<T> /*dy*/,
           Vector<float> /*dbias*/, Matrix<const uint8_t> /*mask*/>
      bias_relu_backward;
  // hugectr_lite/ops/interaction.h
  Function<void* /*stream*/, Matrix<const T> /*bottom*/, View<const T, 3> /*slots*/,
           Matrix<T> /*out*/>
      interaction_forward;
  Function<void* /*stream*/, Matrix<const T> /*bottom*/, Matrix<const float> /*table*/,
           Vector<const int64_t> /*offset*/, Matrix<const uint32_t> /*keys*/, Matrix<T> /*out*/,
           View<T, 3> /*slots*/>
      interaction_forward_gather;
  Function<void* /*stream*/, Matrix<const T> /*bottom*/, View<const T, 3> /*slots*/,
           Matrix<const T> /*dout*/, Matrix<T> /*dbottom*/, View<T, 3> /*dslots*/,
           int32_t* /*overflow*/>
      interaction_backward;

  // embedding/lookup.h
  Function<void* /*stream*/, const embedding::SlotsRef&, Matrix<const float> /*table*/,
           Matrix<const uint32_t> /*keys*/, View<T, 3> /*out*/, const embedding::KeyCheck&>
      lookup_forward;
  // embedding/gpu_sparse_update.h
  Function<void* /*stream*/, const embedding::SparseUpdateArgs<T>&> sparse_update;

  // hugectr_lite/ops/relu.h, add.h (inputs: a list in host memory), concat.h (blocks: likewise),
  // dropout.h (forward and backward are the same map), cast.h
  Function<void* /*stream*/, Vector<const T> /*x*/, Vector<T> /*y*/> relu_forward;
  Function<void* /*stream*/, Vector<const T> /*y*/, Vector<const T> /*dy*/, Vector<T> /*dx*/>
      relu_backward;
  Function<void* /*stream*/, const Vector<const T>* /*inputs*/, int64_t /*count*/,
           Vector<T> /*out*/>
      add_forward;
  Function<void* /*stream*/, const ops::ColumnBlock<T>* /*blocks*/, int64_t /*count*/,
           Matrix<T> /*out*/>
      concat_columns;
  Function<void* /*stream*/, Vector<const T> /*x*/, Vector<T> /*y*/, const ops::DropoutMask&>
      dropout;
  Function<void* /*stream*/, Vector<const float> /*x*/, Vector<T> /*out*/> cast_from_float;
  Function<void* /*stream*/, Vector<const T> /*x*/, Vector<float> /*out*/> cast_to_float;
  Function<void* /*stream*/, Matrix<const float> /*x*/, Matrix<T> /*out, wider*/> cast_padded;

  // hugectr_lite/ops/bce_loss.h, scan.h (the first waits for the stream and writes to the host)
  Function<void* /*stream*/, Matrix<const float> /*logits*/, Matrix<const float> /*labels*/,
           float* /*loss*/, Matrix<T> /*dlogits*/, const ops::BceOptions&>
      bce_loss;
  Function<void* /*stream*/, Vector<const T> /*x*/, int64_t* /*index*/> first_non_finite;
  Function<void* /*stream*/, Vector<const T> /*x*/, int32_t* /*found*/> flag_non_finite;

  // hugectr_lite/optimizer/dense_update.h
  Function<void* /*stream*/, const optimizer::UpdateRule&, const float* /*lr*/,
           const int64_t* /*step*/, Vector<float> /*w*/, Vector<const float> /*g*/,
           Vector<float> /*state0*/, Vector<float> /*state1*/, const optimizer::GradientScale&,
           Vector<T> /*mirror*/>
      dense_update;
};

struct OpTable {
  int abi_version;
  int bytes;  // sizeof(OpTable): guards against a forgotten bump of kAbiVersion

  // Number of usable devices. When 0, why[0..size) holds the reason in plain words.
  int (*device_count)(char* why, size_t size) noexcept;
  // As CUDA counts: 13000 is 13.0. The driver's is 0 where no driver is installed.
  int (*driver_version)() noexcept;
  int (*runtime_version)() noexcept;

  // Name, compute capability and memory of a device, as text.
  Function<int /*device*/, char* /*text*/, size_t /*size*/> device_description;
  // Makes the calling thread work on this device from now on.
  Function<int /*device*/> use_device;

  Function<void** /*stream*/> stream_create;
  Function<void* /*stream*/> stream_destroy;
  Function<void* /*stream*/> stream_synchronize;
  // Waits for all work of the current device.
  Function<> device_synchronize;
  // Orders streams: work put on `stream` after hold_back() starts after what was on the other one
  // when the event was recorded.
  Function<void** /*event*/> event_create;
  Function<void* /*event*/> event_destroy;
  Function<void* /*event*/, void* /*stream*/> event_record;
  Function<void* /*event*/, void* /*stream*/> event_hold_back;
  // Waits on the host for what was recorded.
  Function<void* /*event*/> event_synchronize;
  // What is put on `stream` between the two, and on streams that it holds back and that hold it
  // back again, becomes a graph instead of running; launched, it runs as one piece of work of a
  // stream. When capture_end fails nothing is left of it.
  Function<void* /*stream*/> capture_begin;
  Function<void* /*stream*/, void** /*graph*/> capture_end;
  Function<void* /*graph*/, void* /*stream*/> graph_launch;
  Function<void* /*graph*/> graph_destroy;

  // Device memory, uninitialised; 0 bytes give null. Freeing null does nothing; freeing waits for
  // the device.
  Function<void** /*data*/, size_t /*bytes*/> allocate;
  Function<void* /*data*/> free;
  // Page-locked host memory, for copies that overlap with work.
  Function<void** /*data*/, size_t /*bytes*/> allocate_pinned;
  Function<void* /*data*/> free_pinned;
  // Page-locks host memory that is there already; until unpin() of the same address.
  Function<void* /*data*/, size_t /*bytes*/> pin;
  Function<void* /*data*/> unpin;
  // Bytes of the current device's memory.
  Function<int64_t* /*free*/, int64_t* /*total*/> memory_info;
  // Between any two of host and device, in the order of the stream.
  Function<void* /*to*/, const void* /*from*/, size_t /*bytes*/, void* /*stream*/> copy;
  Function<void* /*data*/, size_t /*bytes*/, void* /*stream*/> zero;

  // out[i] = value, i in [0, n).
  Function<void* /*stream*/, float* /*out*/, int64_t /*n*/, float /*value*/> fill;
  // random::fill_uniform of hugectr_lite/core/random.h, with the same bits.
  Function<void* /*stream*/, float* /*out*/, int64_t /*n*/, uint64_t /*seed*/,
           uint64_t /*random_stream*/, uint64_t /*first*/, float /*low*/, float /*high*/>
      fill_uniform;

  // Bytes of device memory that sparse_update needs; and the half of it that needs no gradients.
  Function<const embedding::SparseUpdateShape&, int64_t* /*bytes*/> sparse_update_workspace;
  Function<void* /*stream*/, const embedding::SparseSortArgs&, int* /*buffer*/> sparse_sort;

  // hugectr_lite/trainer/gpu_metrics.h
  Function<int64_t /*max_samples*/, int64_t* /*bytes*/> evaluation_workspace;
  Function<void* /*stream*/, Vector<const float> /*logits*/, Vector<const float> /*labels*/,
           void* /*workspace*/, size_t /*bytes*/, trainer::EvaluationSums* /*sums, pinned*/>
      evaluate;

  // What products of matrices on one stream of the current device need: cuBLASLt, workspace, plans.
  // Used by one thread at a time, for work that is ordered (one stream, or streams held back by
  // events), while that device is current; destroyed when that work is done. The program's side
  // owns one as a MatmulContext.
  Function<void** /*matmul*/, MatmulOptions> matmul_create;
  Function<void* /*matmul*/> matmul_destroy;

  // hugectr_lite/ops/regularizer.h
  Function<void* /*stream*/, Vector<const float> /*w*/, Vector<float> /*dw*/, float* /*loss*/,
           const ops::RegularizerOptions&>
      add_penalty;
  // hugectr_lite/optimizer/advance_schedules.h (both lists in host memory), loss_scale.h
  Function<void* /*stream*/, const optimizer::LrSchedule* /*schedules*/, float* const* /*rates*/,
           int64_t /*count*/, int64_t* /*step*/>
      advance_schedules;
  Function<void* /*stream*/, int32_t /*grow_after*/, optimizer::LossScale* /*state*/>
      update_loss_scale;

  // Activations and their gradients in T.
  TypedOps<float> f32;
  TypedOps<bf16> b16;
  TypedOps<fp16> f16;
  template <typename T>
  [[nodiscard]] const TypedOps<T>& typed() const;
};

template <>
inline const TypedOps<float>& OpTable::typed<float>() const {
  return f32;
}
template <>
inline const TypedOps<bf16>& OpTable::typed<bf16>() const {
  return b16;
}
template <>
inline const TypedOps<fp16>& OpTable::typed<fp16>() const {
  return f16;
}

using OpTableEntry = const OpTable* (*)(int abi_version);

}  // namespace hlite::cuda
