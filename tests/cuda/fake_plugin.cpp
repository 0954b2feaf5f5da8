// The emulated plug-in with one thing wrong, one for each FAKE_*.
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "hugectr_lite/cuda/plugin.h"

namespace {

using namespace hlite::cuda;

[[maybe_unused]] int no_device(char* why, size_t size) noexcept {
  std::snprintf(why, size, "no device, says the fake");
  return 0;
}

[[maybe_unused]] bool refuse_device(Failure* failure, int device) noexcept {
  std::snprintf(failure->text, sizeof(failure->text), "no device %d, says the fake", device);
  return false;
}

struct Fake {
  DeviceFunctions device = *this_plugin().device;
  std::vector<KernelEntry> kernels{this_plugin().kernels,
                                   this_plugin().kernels + this_plugin().kernel_count};
  Plugin plugin = this_plugin();

  Fake() {
#if defined(FAKE_of_other_build)
    // As far as another build can be trusted.
    plugin = {
        .build = "0.0.9-of-another-day", .device = nullptr, .kernels = nullptr, .kernel_count = -1};
    return;
#elif defined(FAKE_without_kernel)
    std::erase_if(kernels,
                  [](const KernelEntry& k) { return !std::strcmp(k.name, "relu_forward"); });
#elif defined(FAKE_of_other_signature)
    for (KernelEntry& k : kernels)
      if (!std::strcmp(k.name, "update_loss_scale")) k.signature = "FvldE";
#elif defined(FAKE_without_device)
    device.device_count = no_device;
    device.use_device = {refuse_device};
#endif
    plugin.device = &device;
    plugin.kernels = kernels.data();
    plugin.kernel_count = static_cast<int64_t>(kernels.size());
  }
};

}  // namespace

#if defined(FAKE_without_entry)
#define hlite_cuda_plugin another_entry
#endif
extern "C" __attribute__((visibility("default"))) const Plugin* hlite_cuda_plugin() {
  static const Fake fake;
  return &fake.plugin;
}
