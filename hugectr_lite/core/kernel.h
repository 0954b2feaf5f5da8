// Kernel: how a program calls what a .cu file computes.
//
// An op declares its kernels in its header, once, by name and signature:
//
//   template <typename T>
//   inline const Kernel<void(Vector<const T>, Vector<T>)> negate{"negate"};
//
// or KernelOf<decltype(ops::negate<T>)>, where the kernel takes what the op takes. Its .cpp calls
// negate<T>(exec, x, y) where exec names a GPU, and its .cu binds a host function
// void(cudaStream_t, Vector<const T>, Vector<T>) to it (core/kernel_list.cuh). As with functions,
// several may share a name when their signatures differ. Every handle that a program holds is
// looked up when it opens a plug-in (core/backend.h), so a missing one shows there.
#pragma once

#include <type_traits>
#include <typeinfo>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/plugin_interface.h"

namespace hlite {

// A handle without its type. Handles are variables at namespace scope, and know each other.
class KernelHandle {
 public:
  KernelHandle(const KernelHandle&) = delete;
  KernelHandle& operator=(const KernelHandle&) = delete;

  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] const char* signature() const { return signature_; }
  [[nodiscard]] size_t index() const { return index_; }             // 0 to the number of handles
  [[nodiscard]] const KernelHandle* next() const { return next_; }  // one of a lower index, or null
  static const KernelHandle* last() { return last_; }

  // Returns true if the GPU of `backend` is here; a report about one that is not asks.
  [[nodiscard]] bool is_in(const cuda::Backend& backend) const;

 protected:
  KernelHandle(const char* name, const char* signature)
      : name_(name), signature_(signature), next_(last_), index_(next_ ? next_->index_ + 1 : 0) {
    last_ = this;
  }
  ~KernelHandle() = default;

  // Throws DeviceError where the backend has none.
  [[nodiscard]] cuda::AnyFunction entry_in(const cuda::Backend& backend) const;

 private:
  inline static const KernelHandle* last_ = nullptr;

  const char* const name_;
  const char* const signature_;
  const KernelHandle* const next_;
  const size_t index_;
};

template <typename Signature>
class Kernel;

// Results and parameters are values of the same meaning on both sides, or references to them.
template <typename Result, typename... Params>
class Kernel<Result(Params...)> : public KernelHandle {
  static_assert((std::is_trivially_copyable_v<std::remove_reference_t<Params>> && ...));

 public:
  // The function that crosses the plug-in's border: nothing is thrown, and `matmul` and `stream`
  // are the Exec's.
  using Entry = bool(cuda::Failure*, void* matmul, void* stream, std::add_pointer_t<Result> result,
                     Params...) noexcept;

  explicit Kernel(const char* name) : KernelHandle(name, typeid(Result(Params...)).name()) {}

  // On the GPU, stream and MatmulContext of `exec`.
  // Throws DeviceError when the plug-in reports a failure.
  Result operator()(const Exec& exec, Params... args) const {
    auto* const entry = reinterpret_cast<Entry*>(entry_in(*exec.cuda));
    cuda::Failure failure;
    if constexpr (std::is_void_v<Result>) {
      if (!entry(&failure, exec.matmul, exec.stream, nullptr, args...))
        cuda::throw_failure(failure);
    } else {
      Result result{};
      if (!entry(&failure, exec.matmul, exec.stream, &result, args...))
        cuda::throw_failure(failure);
      return result;
    }
  }
};

namespace detail {
template <typename Op>
struct KernelOf;
template <typename Result, typename... Params>
struct KernelOf<Result(const Exec&, Params...)> {
  using Type = Kernel<Result(Params...)>;
};
}  // namespace detail

// The handle of an op void(const Exec&, Params...) that passes its own parameters on. nvcc has a
// template's instance as a reference.
template <typename Op>
using KernelOf = typename detail::KernelOf<std::remove_reference_t<Op>>::Type;

}  // namespace hlite
