// Why there is no usable CUDA device, in words for the person at the terminal.
#pragma once

#include <string>

namespace hlite::cuda {

// Results of cudaGetDeviceCount, cudaDriverGetVersion and cudaRuntimeGetVersion. Versions count as
// CUDA does: 13000 is 13.0; a driver version of 0 means that no driver is installed.
struct DeviceQuery {
  bool failed = false;  // cudaGetDeviceCount returned an error
  std::string error;    // its text
  int devices = 0;
  int driver_version = 0;
  int runtime_version = 0;
};

// "13.0" for 13000.
std::string version_text(int version);

// Empty when there are devices.
std::string why_no_device(const DeviceQuery& query);

}  // namespace hlite::cuda
