// The name that the driver's tools have for a device.
#pragma once

#include "hugectr_lite/core/kernel.h"

namespace hlite::kernels {

// The PCI address, "0000:3B:00.0": numbers of devices are a process's own, an address is not.
inline const Kernel<void(int /*device*/, char* /*text*/, size_t /*size*/)> device_bus_id{
    "device_bus_id"};

}  // namespace hlite::kernels
