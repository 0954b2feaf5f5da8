// OpTable: the functions of the CUDA plug-in, by value types only.
//
// The library exports one C function, hlite_cuda_op_table(abi_version), which returns its table or,
// for another version than its own, null. Any change to OpTable or to a type in it bumps
// kAbiVersion. Pointers named `stream` are cudaStream_t; views point to device memory and keep the
// contracts of hugectr_lite/ops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/view.h"

namespace hlite::cuda {

inline constexpr int kAbiVersion = 2;
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

// The ops on tensors of T: float, bf16 or fp16.
template <typename T>
struct TypedOps {
  // hugectr_lite/ops/interaction.h
  Function<void* /*stream*/, Matrix<const T> /*bottom*/, View<const T, 3> /*slots*/,
           Matrix<T> /*out*/>
      interaction_forward;
  Function<void* /*stream*/, Matrix<const T> /*bottom*/, View<const T, 3> /*slots*/,
           Matrix<const T> /*dout*/, Matrix<T> /*dbottom*/, View<T, 3> /*dslots*/>
      interaction_backward;
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

  // Device memory, uninitialised; 0 bytes give null. Freeing null does nothing; freeing waits for
  // the device.
  Function<void** /*data*/, size_t /*bytes*/> allocate;
  Function<void* /*data*/> free;
  // Page-locked host memory, for copies that overlap with work.
  Function<void** /*data*/, size_t /*bytes*/> allocate_pinned;
  Function<void* /*data*/> free_pinned;
  // Between any two of host and device, in the order of the stream.
  Function<void* /*to*/, const void* /*from*/, size_t /*bytes*/, void* /*stream*/> copy;
  Function<void* /*data*/, size_t /*bytes*/, void* /*stream*/> zero;

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
