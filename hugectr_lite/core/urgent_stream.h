// Streams whose work comes before that of others.
#pragma once

#include "hugectr_lite/core/kernel.h"

namespace hlite::kernels {

// Makes a stream for DeviceFunctions::stream_destroy. Where work of several streams is ready, blocks
// of a higher urgency (from 0) start first; a device has a few, 6 on an H200.
inline const Kernel<void(void** /*stream*/, int /*urgency*/)> create_urgent_stream{
    "create_urgent_stream"};

}  // namespace hlite::kernels
