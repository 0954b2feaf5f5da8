#include "hugectr_lite/core/backend.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/kernel.h"

namespace hlite {
namespace {

// "void (hlite::View<float, 1ul>)" for what typeid().name() says of it.
std::string signature_text(const char* signature) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(signature, nullptr, nullptr, &status), &std::free);
  return text ? text.get() : signature;
}

cuda::AnyFunction find_kernel(std::span<const cuda::KernelEntry> entries,
                              const KernelHandle& handle) {
  std::string others;
  for (const cuda::KernelEntry& entry : entries) {
    if (std::strcmp(entry.name, handle.name()) != 0) continue;
    if (std::strcmp(entry.signature, handle.signature()) == 0) return entry.call;
    others += (others.empty() ? "" : "; ") + signature_text(entry.signature);
  }
  if (others.empty())
    raise<DeviceError>("it has no kernel {}, expected {}", handle.name(),
                       signature_text(handle.signature()));
  raise<DeviceError>("its kernel {} has another signature: expected {}, found {}", handle.name(),
                     signature_text(handle.signature()), others);
}

}  // namespace

bool KernelHandle::is_in(const cuda::Backend& backend) const {
  return index_ < backend.kernels.size();
}

cuda::AnyFunction KernelHandle::entry_in(const cuda::Backend& backend) const {
  if (!is_in(backend)) raise<DeviceError>("{}: the GPU is not here", name_);
  return backend.kernels[index_];
}

namespace cuda {

void throw_failure(const Failure& failure) { throw DeviceError(failure.text); }

Backend backend_of(const Plugin& plugin) {
  if (std::strcmp(plugin.build, build_identity()) != 0)
    raise<DeviceError>(
        "it is of build {}, the program of build {}; build both from the same sources",
        plugin.build, build_identity());
  Backend backend{*plugin.device, {}};
  const KernelHandle* handle = KernelHandle::last();
  backend.kernels.resize(handle ? handle->index() + 1 : 0);
  const std::span entries(plugin.kernels, static_cast<size_t>(plugin.kernel_count));
  for (; handle; handle = handle->next())
    backend.kernels[handle->index()] = find_kernel(entries, *handle);
  return backend;
}

}  // namespace cuda
}  // namespace hlite
