// The plug-in's side of core/kernel.h: a .cu file ends in the list of its host functions, each
// bound to the handle that programs call it by.
//
//   HLITE_KERNELS(negate) {  // the file's name: cuda/sources.cmake has the list of files
//     for_each_float([&]<typename T>() {
//       list.add<negate<T>>(kernels::negate<T>);
//     });
//   }
//
// For a handle Kernel<R(Params...)> that is R(cudaStream_t, Params...), for matrix products
// R(Matmul&, cudaStream_t, Params...), or plain R(Params...) for what starts no work; any other
// function does not compile.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <type_traits>
#include <vector>

#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/kernel.h"

#define HLITE_KERNELS(file) extern "C" void hlite_kernels_of_##file(::hlite::KernelList& list)

namespace hlite {

// Exceptions stop at the plug-in's border and become words. False when there was one.
template <typename Body>
bool report_failure(cuda::Failure* failure, Body&& body) noexcept {
  const char* words = "an unknown exception in the CUDA plug-in";
  try {
    body();
    return true;
  } catch (const std::exception& error) {
    std::snprintf(failure->text, sizeof(failure->text), "%s", error.what());
  } catch (...) {
    std::snprintf(failure->text, sizeof(failure->text), "%s", words);
  }
  return false;
}

namespace detail {

template <typename Function, typename Signature>
struct ContextOf {
  static_assert(!std::is_same_v<Function, Function>,
                "the host function has another signature than its kernel's handle");
};
template <typename Context, typename Result, typename... Params>
struct ContextOf<Result (*)(Context&, cudaStream_t, Params...), Result(Params...)> {
  using Type = Context;
};

template <auto kFunction, typename Result, typename... Params>
Result call_host(void* matmul, void* stream, Params... args) {
  using Function = decltype(kFunction);
  if constexpr (std::is_same_v<Function, Result (*)(Params...)>) {
    return kFunction(args...);
  } else if constexpr (std::is_same_v<Function, Result (*)(cudaStream_t, Params...)>) {
    return kFunction(static_cast<cudaStream_t>(stream), args...);
  } else {
    using Context = typename ContextOf<Function, Result(Params...)>::Type;
    return kFunction(*static_cast<Context*>(matmul), static_cast<cudaStream_t>(stream), args...);
  }
}

template <auto kFunction, typename Result, typename... Params>
bool enter(cuda::Failure* failure, void* matmul, void* stream, std::add_pointer_t<Result> result,
           Params... args) noexcept {
  return report_failure(failure, [&] {
    if constexpr (std::is_void_v<Result>)
      call_host<kFunction, void, Params...>(matmul, stream, args...);
    else
      *result = call_host<kFunction, Result, Params...>(matmul, stream, args...);
  });
}

}  // namespace detail

class KernelList {
 public:
  template <auto kFunction, typename Result, typename... Params>
  void add(const Kernel<Result(Params...)>& kernel) {
    typename Kernel<Result(Params...)>::Entry* const entry =
        detail::enter<kFunction, Result, Params...>;
    entries_.push_back(
        {kernel.name(), kernel.signature(), reinterpret_cast<cuda::AnyFunction>(entry)});
  }
  [[nodiscard]] const std::vector<cuda::KernelEntry>& entries() const { return entries_; }

 private:
  std::vector<cuda::KernelEntry> entries_;
};

}  // namespace hlite
