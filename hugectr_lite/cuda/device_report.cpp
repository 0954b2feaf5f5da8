#include "hugectr_lite/cuda/device_report.h"

namespace hlite::cuda {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string why_no_device(const DeviceQuery& query) {
  if (!query.failed && query.devices > 0) return {};
  const std::string said = query.failed ? " (cudaGetDeviceCount: " + query.error + ")" : "";
  if (query.driver_version == 0) return "no NVIDIA driver on this machine" + said;
  // Drivers run newer minor releases of their own major version, so only the major one counts.
  if (query.driver_version / 1000 < query.runtime_version / 1000)
    return "the NVIDIA driver speaks CUDA " + version_text(query.driver_version) +
           ", which is older than the CUDA " + version_text(query.runtime_version) +
           " this plug-in needs" + said;
  return "the NVIDIA driver offers no device: is CUDA_VISIBLE_DEVICES empty?" + said;
}

}  // namespace hlite::cuda
